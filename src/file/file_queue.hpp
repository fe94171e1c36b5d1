#pragma once  // file/file_queue.hpp: the transfers of a lane between those who submit them and
              // the thread that serves it.

#include <condition_variable>
#include <list>
#include <map>
#include <mutex>

#include "base/event.hpp"
#include "file/file_work.hpp"

namespace gantry {

/// Held by the lane and by its thread: the thread outlives the lane while the kernel does not give
/// back what it was given.
///   I1  A ticket is in entries_ from submit() until its outcome was told, or drain() forgot it.
///   I2  pending_ counts the entries without an outcome; each is the thread's until it has one.
///   I3  Between cancel() and drain() nothing is added.
class FileQueue {
 public:
  /// A list: to take from it and to add to it needs no memory, which the thread could not have.
  using Works = std::list<std::shared_ptr<FileWork>>;

  /// Largest pieces. Errors: those of eventfd().
  [[nodiscard]] static Result<std::shared_ptr<FileQueue>> make(Bytes read_bytes, Bytes write_bytes);
  FileQueue(Fd wake_receiver, Bytes read_bytes, Bytes write_bytes) noexcept
      : wake_receiver_(std::move(wake_receiver)),
        read_bytes_(read_bytes),
        write_bytes_(write_bytes) {}

  // ---- FileLane's
  [[nodiscard]] Result<Ticket> submit(const FileTransfer& transfer);
  [[nodiscard]] bool is_over(Ticket ticket) const;
  [[nodiscard]] Result<void> wait(Ticket ticket, Deadline deadline);
  void cancel() noexcept;
  [[nodiscard]] Result<void> drain(Deadline deadline);
  /// Nothing comes any more. True: nothing is pending either, so that the thread ends.
  [[nodiscard]] bool close() noexcept;

  // ---- the serving thread's
  /// Readable when one of those below has news; an eventfd.
  [[nodiscard]] int wake_receiver() const noexcept { return wake_receiver_.get(); }
  /// What was submitted since the last call, in order.
  [[nodiscard]] Works take();
  /// What was taken and has not ended must.
  [[nodiscard]] bool is_cancelled() const;
  /// The lane is gone: the thread ends when nothing is pending.
  [[nodiscard]] bool is_closed() const;
  /// `work` is over: its outcome is told, its memory let go.
  void end(const std::shared_ptr<FileWork>& work);

 private:
  struct Entry {
    std::shared_ptr<FileWork> work;  // null: it has ended
    Result<void> outcome;
    unsigned waiters = 0;  // who are still to be told: drain() leaves it to them
  };

  const Fd wake_receiver_;
  const Bytes read_bytes_;
  const Bytes write_bytes_;
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable moved_;
  std::map<Ticket, Entry> entries_;
  Works fresh_;
  std::uint64_t last_ = 0;
  std::size_t pending_ = 0;
  bool is_cancelled_ = false;
  bool is_closed_ = false;
};

}  // namespace gantry
