#include "file/file_lane.hpp"

#include <pthread.h>

#include "base/block_signals.hpp"
#include "base/result.hpp"

namespace gantry {
namespace {

constexpr const char* kThreadName = "gantry-file";

tl::unexpected<Error> of_the_parent() {
  return fail(Code::invalid_argument, "a file lane of the parent's, after fork()",
              "open one in this process");
}

}  // namespace

Result<std::unique_ptr<FileLane>> ServedFileLane::open(
    std::shared_ptr<FileQueue> queue, const std::function<void(FileQueue&)>& serve) {
  auto lane = std::make_unique<ServedFileLane>(queue);
  const BlockSignals blocked;
  try {
    lane->thread_ = std::thread([queue = std::move(queue), serve] {
      ::pthread_setname_np(::pthread_self(), kThreadName);
      serve(*queue);
    });
  } catch (const std::system_error& error) {
    return fail(Code::system, fmt::format("starting a thread for files: {}", error.what()),
                "raise the limit of processes (ulimit -u)");
  }
  return lane;
}

// A fork's copy has no thread to end, and a lock that may be anybody's.
ServedFileLane::~ServedFileLane() {
  if (!fork_guard_.is_this()) {
    new std::thread(std::move(thread_));                // NOLINT: never to be destroyed
    new std::shared_ptr<FileQueue>(std::move(queue_));  // NOLINT: the same
    return;
  }
  if (!thread_.joinable()) return;
  queue_->close() ? thread_.join() : thread_.detach();
}

Result<Ticket> ServedFileLane::submit(const FileTransfer& transfer) {
  if (!fork_guard_.is_this()) return of_the_parent();
  return guarded([&] { return queue_->submit(transfer); });
}

bool ServedFileLane::is_over(Ticket ticket) const {
  return !fork_guard_.is_this() || queue_->is_over(ticket);
}

Result<void> ServedFileLane::wait(Ticket ticket, Deadline deadline) {
  if (!fork_guard_.is_this()) return of_the_parent();
  return guarded([&] { return queue_->wait(ticket, deadline); });
}

void ServedFileLane::cancel() noexcept {
  if (fork_guard_.is_this()) queue_->cancel();
}

Result<void> ServedFileLane::drain(Deadline deadline) {
  if (!fork_guard_.is_this()) return of_the_parent();
  return guarded([&] { return queue_->drain(deadline); });
}

}  // namespace gantry
