#pragma once  // engine/thread/thread_lane.hpp: one submitter's queue to the copy workers.

#include <memory>
#include <mutex>

#include "core/engine/lane_base.hpp"
#include "core/engine/thread/core.hpp"

namespace gantry {

// In a forked child its moves have failed, and whoever waits or polls there is told so; what the
// parent's workers did since is not seen. Completions are not written there: their owners may be
// threads that did not come along.
class ThreadLane final : public LaneBase {
 public:
  /// The core must open it before use.
  ThreadLane(std::shared_ptr<ThreadCore> core, const LaneOptions& options)
      : core_(std::move(core)), options_(options), entry_(options.depth, progress()) {}
  ~ThreadLane() override;
  [[nodiscard]] Result<void> open();

  using Lane::submit;
  Result<Ticket> submit(std::span<const Move> batch, SubmitMode mode) override;
  std::size_t poll() override;
  void cancel() noexcept override;
  Explanation explain(const Move& move, SubmitMode mode) const override;

 private:
  bool help(Ticket ticket) override;
  std::chrono::nanoseconds left(Ticket ticket) const noexcept override;
  Result<void> be_watched() override;
  bool ends_unpolled() const noexcept override { return core_->is_here(); }

  Result<void> wait_for_room(std::size_t count);
  std::size_t fail_all_in_child() noexcept;

  std::shared_ptr<ThreadCore> core_;
  LaneOptions options_;
  std::mutex submit_mutex_;  // one submitter at a time stages moves, and waits for room
  LaneEntry entry_;
  bool is_open_ = false;
  std::atomic<bool> orphaned_{false};  // in a child: set by the thread that failed all
};

}  // namespace gantry
