#pragma once  // file/file_queue.hpp: the transfers of a file lane, and the thread that carries them
              // out.

#include <condition_variable>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <thread>

#include "core/base/event.hpp"
#include "core/base/os/fork.hpp"
#include "core/base/os/numa_nodes.hpp"
#include "device/file/file_work.hpp"

namespace gantry {

/// The lane and its thread hold it: the thread outlives the lane while the kernel does not give
/// back what it was given.
///   I1  A ticket is in entries_ from submit() until its outcome was told, or drain() forgot it.
///   I2  pending_ counts the entries without an outcome; each is the thread's until it has one, or
///       held back, or read by whoever waits for it.
///   I3  Between cancel() and drain() nothing is added.
class FileQueue {
 public:
  /// A list: taking from it and adding to it needs no memory, which the thread might not get.
  using Works = std::list<std::shared_ptr<FileWork>>;

  /// `read_bytes`, `write_bytes`: largest pieces. `is_without_cpu`: the lane's thread would take
  /// the CPU of whoever waits, who therefore reads what the page cache has. Errors: those of
  /// eventfd().
  [[nodiscard]] static Result<std::shared_ptr<FileQueue>> make(Bytes read_bytes, Bytes write_bytes,
                                                               bool is_without_cpu = usable_cpus() <
                                                                                     3);
  FileQueue(Fd wake_receiver, Bytes read_bytes, Bytes write_bytes, bool is_without_cpu) noexcept
      : wake_receiver_(std::move(wake_receiver)),
        read_bytes_(read_bytes),
        write_bytes_(write_bytes),
        is_without_cpu_(is_without_cpu) {}

  // ---- for FileLane
  [[nodiscard]] Result<Ticket> submit(const FileTransfer& transfer);
  [[nodiscard]] bool is_over(Ticket ticket);
  [[nodiscard]] Result<void> wait(Ticket ticket, Deadline deadline);
  void cancel() noexcept;
  [[nodiscard]] Result<void> drain(Deadline deadline);
  /// No more transfers come. True: none is pending either, so the thread ends.
  [[nodiscard]] bool close() noexcept;

  // ---- for the serving thread
  /// An eventfd, readable when one of the functions below has news.
  [[nodiscard]] int wake_receiver() const noexcept { return wake_receiver_.get(); }
  /// Transfers submitted since the last call, in order.
  [[nodiscard]] Works take();
  /// True: transfers that were taken must end.
  [[nodiscard]] bool is_cancelled() const;
  /// True: the lane is gone; the thread ends when nothing is pending.
  [[nodiscard]] bool is_closed() const;
  /// Ends `work`: its outcome is told, its memory let go.
  void end(const std::shared_ptr<FileWork>& work);

 private:
  struct Entry {
    std::shared_ptr<FileWork> work;  // null: it has ended
    Result<void> outcome;
    unsigned waiters = 0;  // those that are still to be told; drain() leaves the entry to them
    Works held_back;       // it or nothing: from the page cache, once somebody waits for it
  };

  void give_to_thread(Entry& entry) noexcept;
  void give_all_to_thread() noexcept;
  void read_held_back(Entry& entry, std::unique_lock<std::mutex>& lock);

  const Fd wake_receiver_;
  const Bytes read_bytes_;
  const Bytes write_bytes_;
  const bool is_without_cpu_;
  std::atomic<std::uint64_t> last_{0};
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable moved_;
  std::map<Ticket, Entry> entries_;
  Works fresh_;
  std::size_t pending_ = 0;
  bool is_cancelled_ = false;
  bool is_closed_ = false;
};

/// A call that hangs in the kernel hangs in that thread. Waiters go by their deadlines, and nobody
/// waits for the thread's end unless it is near.
class ServedFileLane final : public FileLane {
 public:
  /// The thread calls `serve`, which returns when the queue is closed and nothing is pending.
  /// Errors: those of starting a thread.
  [[nodiscard]] static Result<std::unique_ptr<FileLane>> open(
      std::shared_ptr<FileQueue> queue, const std::function<void(FileQueue&)>& serve);
  explicit ServedFileLane(std::shared_ptr<FileQueue> queue) noexcept : queue_(std::move(queue)) {}
  ~ServedFileLane() override;
  ServedFileLane(const ServedFileLane&) = delete;
  ServedFileLane& operator=(const ServedFileLane&) = delete;

  [[nodiscard]] Result<Ticket> submit(const FileTransfer& transfer) override;
  [[nodiscard]] bool is_over(Ticket ticket) const override;
  [[nodiscard]] Result<void> wait(Ticket ticket, Deadline deadline) override;
  void cancel() noexcept override;
  [[nodiscard]] Result<void> drain(Deadline deadline) override;

 private:
  const ForkGuard fork_guard_;
  std::shared_ptr<FileQueue> queue_;
  std::thread thread_;
};

}  // namespace gantry
