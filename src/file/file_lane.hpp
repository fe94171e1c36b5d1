#pragma once  // file/file_lane.hpp: a lane with a thread of its own that carries out its transfers.

#include <functional>
#include <thread>

#include "base/fork.hpp"
#include "file/file_queue.hpp"

namespace gantry {

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
