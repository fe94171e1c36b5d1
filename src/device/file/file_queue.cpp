#include "device/file/file_queue.hpp"

#include <pthread.h>

#include <limits>

#include "core/base/assert.hpp"
#include "core/base/os/disown.hpp"
#include "core/base/os/worker_thread.hpp"
#include "core/base/result.hpp"

namespace gantry {
namespace {

// False: the deadline came first.
template <class IsSo>
bool wait_until(std::condition_variable& moved, std::unique_lock<std::mutex>& lock,
                Deadline deadline, const IsSo& is_so) {
  while (!is_so()) {
    if (deadline.passed()) return false;
    if (deadline.is_never())
      moved.wait(lock);
    else
      moved.wait_for(lock, deadline.left());
  }
  return true;
}

// Measured: docs/results/start.md. Nobody copies, so pieces need not fit a cache.
constexpr Bytes kDirectBytes = Bytes{4} << 20;

std::string text_of(const FileTransfer& transfer) {
  return fmt::format("{} {}: {} bytes from offset {} on",
                     transfer.kind == FileTransfer::Kind::read ? "reading" : "writing",
                     transfer.file->name(), transfer.memory.size(), transfer.offset);
}

Result<void> check_alignment(const FileTransfer& transfer) {
  const Bytes alignment = transfer.file->alignment();
  const auto address = reinterpret_cast<std::uintptr_t>(transfer.memory.data());
  if ((transfer.offset | transfer.memory.size() | address) % alignment == 0) return {};
  return fail(Code::invalid_argument,
              fmt::format("{} to address {:#x}: not all are multiples of {}", text_of(transfer),
                          address, alignment),
              "align them, or open the file without O_DIRECT");
}

constexpr const char* kThreadName = "gantry-file";

tl::unexpected<Error> of_the_parent() {
  return fail(Code::invalid_argument, "a file lane of the parent's, after fork()",
              "open one in this process");
}

}  // namespace

Result<std::shared_ptr<FileQueue>> FileQueue::make(Bytes read_bytes, Bytes write_bytes,
                                                   bool is_without_cpu) {
  GANTRY_ASSIGN(Fd wake_receiver, make_event());
  return std::make_shared<FileQueue>(std::move(wake_receiver), read_bytes, write_bytes,
                                     is_without_cpu);
}

Result<Ticket> FileQueue::submit(const FileTransfer& transfer) {
  if (transfer.file == nullptr || transfer.memory.empty())
    return fail(Code::invalid_argument, "a file transfer without a file or without memory");
  // Beyond this the kernel may take an offset for the descriptor's position.
  constexpr std::uint64_t kMost = std::numeric_limits<off_t>::max();
  if (transfer.memory.size() > kMost || transfer.offset > kMost - transfer.memory.size())
    return fail(Code::invalid_argument, text_of(transfer) + ": more than files have");
  GANTRY_TRY(check_alignment(transfer));
  const bool is_read = transfer.kind == FileTransfer::Kind::read;
  const bool is_direct = transfer.file->alignment() > 1;
  const Bytes most = is_direct ? kDirectBytes : is_read ? read_bytes_ : write_bytes_;
  const Ticket ticket{last_.fetch_add(1, std::memory_order_relaxed) + 1};  // no order is promised
  Works one{std::make_shared<FileWork>(ticket, transfer, most)};
  const bool is_held_back = is_read && is_without_cpu_ && one.front()->is_cached();
  const std::lock_guard lock(mutex_);
  if (is_cancelled_) return fail(Code::interrupted, text_of(transfer) + ": cancelled");  // I3
  Entry& entry = entries_[ticket];
  entry.work = one.front();
  ++pending_;
  entry.held_back.swap(one);
  if (!is_held_back) give_to_thread(entry);
  return ticket;
}

void FileQueue::give_to_thread(Entry& entry) noexcept {
  if (entry.held_back.empty()) return;
  fresh_.splice(fresh_.end(), entry.held_back);
  ring(wake_receiver());
}

// Only this waiter has the work meanwhile.
void FileQueue::read_held_back(Entry& entry, std::unique_lock<std::mutex>& lock) {
  Works one;
  one.swap(entry.held_back);
  lock.unlock();
  FileWork& work = *one.front();
  work.take_cached();
  auto outcome = guarded([&] { return work.outcome(); });
  lock.lock();
  if (!work.is_over()) {
    entry.held_back.swap(one);
    return give_to_thread(entry);
  }
  entry.outcome = std::move(outcome);
  entry.work.reset();
  --pending_;
  moved_.notify_all();
  lock.unlock();
  one.clear();  // its memory is let go where no lock is held
  lock.lock();
}

// Whoever asks has other things to do than to read.
bool FileQueue::is_over(Ticket ticket) {
  const std::lock_guard lock(mutex_);
  const auto entry = entries_.find(ticket);
  if (entry != entries_.end()) give_to_thread(entry->second);
  return is_cancelled_ || entry == entries_.end() || entry->second.work == nullptr;
}

Result<void> FileQueue::wait(Ticket ticket, Deadline deadline) {
  std::unique_lock lock(mutex_);
  auto entry = entries_.find(ticket);
  if (entry != entries_.end()) {
    ++entry->second.waiters;
    if (deadline.passed()) give_to_thread(entry->second);
    if (!entry->second.held_back.empty()) read_held_back(entry->second, lock);
  }
  const auto is_known = [&] {  // meanwhile another waiter may have taken it
    entry = entries_.find(ticket);
    return is_cancelled_ || entry == entries_.end() || entry->second.work == nullptr;
  };
  const bool is_in_time = wait_until(moved_, lock, deadline, is_known);
  if (entry == entries_.end())
    return fail(Code::invalid_argument, "a file transfer that is not there, or was waited for");
  --entry->second.waiters;
  const auto work = entry->second.work;
  if (work == nullptr) {
    auto outcome = std::move(entry->second.outcome);
    entries_.erase(entry);
    return outcome;
  }
  lock.unlock();
  if (is_in_time) return fail(Code::interrupted, text_of(work->transfer()) + ": cancelled");
  return fail(Code::timed_out, text_of(work->transfer()) + " had not ended when time was up",
              "allow more time, or look at what holds the file: a network, a slow device");
}

// Which stops them.
void FileQueue::give_all_to_thread() noexcept {
  for (auto& [ticket, entry] : entries_) give_to_thread(entry);
}

void FileQueue::cancel() noexcept {
  {
    const std::lock_guard lock(mutex_);
    is_cancelled_ = true;
    give_all_to_thread();
  }
  moved_.notify_all();
  ring(wake_receiver());
}

Result<void> FileQueue::drain(Deadline deadline) {
  std::unique_lock lock(mutex_);
  if (!wait_until(moved_, lock, deadline, [this] { return pending_ == 0; }))
    return fail(Code::timed_out,
                fmt::format("{} file transfers are not given back by the kernel", pending_));
  std::erase_if(entries_, [](const auto& entry) { return entry.second.waiters == 0; });
  is_cancelled_ = false;
  return {};
}

bool FileQueue::close() noexcept {
  bool is_idle = false;
  {
    const std::lock_guard lock(mutex_);
    is_cancelled_ = is_closed_ = true;
    give_all_to_thread();
    is_idle = pending_ == 0;
  }
  ring(wake_receiver());
  return is_idle;
}

FileQueue::Works FileQueue::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(fresh_, {});
}

bool FileQueue::is_cancelled() const {
  const std::lock_guard lock(mutex_);
  return is_cancelled_;
}

bool FileQueue::is_closed() const {
  const std::lock_guard lock(mutex_);
  return is_closed_;
}

void FileQueue::end(const std::shared_ptr<FileWork>& work) {
  auto outcome = guarded([&] { return work->outcome(); });
  std::shared_ptr<FileWork> held;  // let go after the lock
  {
    const std::lock_guard lock(mutex_);
    const auto entry = entries_.find(work->ticket());
    GANTRY_ASSERT(entry != entries_.end());  // I1
    GANTRY_DEBUG_ASSERT(pending_ > 0);       // I2
    entry->second.outcome = std::move(outcome);
    held = std::move(entry->second.work);
    --pending_;
  }
  moved_.notify_all();
}

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
