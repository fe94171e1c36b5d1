#include "file/file_lane.hpp"

#include <pthread.h>

#include "base/disown.hpp"
#include "base/result.hpp"
#include "base/worker_thread.hpp"

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
  GANTRY_ASSIGN(lane->thread_,
                start_thread("a thread for files", [queue = std::move(queue), serve] {
                  ::pthread_setname_np(::pthread_self(), kThreadName);
                  serve(*queue);
                }));
  return lane;
}

// A fork's copy has no thread to end, and anybody may hold its lock.
ServedFileLane::~ServedFileLane() {
  if (!fork_guard_.is_this()) {
    disown(std::move(thread_));
    disown(std::move(queue_));
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
