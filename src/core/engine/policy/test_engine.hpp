#pragma once  // engine/policy/test_engine.hpp: an engine with a thread of its own and a gate, for
              // tests.

#include <condition_variable>
#include <deque>
#include <thread>

#include "core/base/result.hpp"
#include "core/engine/check.hpp"
#include "core/engine/engine_counters.hpp"
#include "core/engine/execute.hpp"
#include "core/engine/lane_base.hpp"

namespace gantry {

/// Moves wait until the gate is open; then one thread executes them, in order.
class GatedEngine final : public Engine, public std::enable_shared_from_this<GatedEngine> {
 public:
  explicit GatedEngine(std::string_view name, CopyEngine kind, bool open = true)
      : name_(name), kind_(kind), open_(open), worker_([this] { work(); }) {}
  ~GatedEngine() override {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    changed_.notify_all();
    worker_.join();
  }

  void open(bool is_open = true) {
    {
      const std::lock_guard lock(mutex_);
      open_ = is_open;
    }
    changed_.notify_all();
  }

  std::string_view name() const noexcept override { return name_; }
  Capabilities capabilities() const override {
    using enum Move::Kind;
    return {true, {copy, fill, reshape}};
  }
  Bytes load() const noexcept override { return load_.load(); }
  EngineReport report() const noexcept override { return counters_.report(); }
  Result<std::unique_ptr<Lane>> open_lane(const LaneOptions& options) override;
  /// From now on it takes no moves and opens no lanes, as an engine whose device failed.
  void refuse() {
    const std::lock_guard lock(mutex_);
    refuses_ = true;
  }

 private:
  class GatedLane;
  struct Job {
    GatedLane* lane;
    Move move;
    bool cancelled = false;
  };

  void work();

  std::string_view name_;
  CopyEngine kind_;
  EngineCounters counters_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  bool open_ = true;
  bool refuses_ = false;
  bool ended_ = false;
  std::atomic<Bytes> load_{0};
  std::thread worker_;
};

class GatedEngine::GatedLane final : public LaneBase {
 public:
  GatedLane(std::shared_ptr<GatedEngine> engine, const LaneOptions& options)
      : engine_(std::move(engine)), options_(options) {}
  ~GatedLane() override {
    static_cast<void>(wait(Ticket{given()}, Deadline::never(), WaitStrategy::sleep));
    // The worker announces under the lock; after that it is done with this lane.
    const std::lock_guard lock(engine_->mutex_);
  }

  using Lane::submit;
  Result<Ticket> submit(std::span<const Move> batch, SubmitMode) override {
    if (auto checked = check_batch(batch, options_.depth); !checked)
      return tl::unexpected(checked.error());
    const std::lock_guard lock(engine_->mutex_);
    if (engine_->refuses_) return fail(Code::closed, "this engine takes no moves");
    for (const Move& move : batch) {
      engine_->jobs_.push_back({this, move});
      engine_->load_ += move.bytes;
    }
    engine_->changed_.notify_all();
    return give_tickets(batch.size());
  }
  std::size_t poll() override { return 0; }
  void cancel() noexcept override {
    const std::lock_guard lock(engine_->mutex_);
    for (Job& job : engine_->jobs_) job.cancelled = job.cancelled || job.lane == this;
    engine_->changed_.notify_all();
  }
  Explanation explain(const Move&, SubmitMode) const override {
    Explanation explanation;
    explanation.waiting = WaitStrategy::hybrid;
    return explanation;
  }
  void end(const Completion& completion, const Move& move) {
    if (move.completion != nullptr) *move.completion = completion;
    progress().retire(completion.outcome);
    progress().announce();
  }

 private:
  bool help(Ticket) override { return false; }
  std::chrono::nanoseconds left(Ticket) const noexcept override { return {}; }
  bool ends_unpolled() const noexcept override { return true; }

  std::shared_ptr<GatedEngine> engine_;
  LaneOptions options_;
};

inline Result<std::unique_ptr<Lane>> GatedEngine::open_lane(const LaneOptions& options) {
  const std::lock_guard lock(mutex_);
  if (refuses_) return fail(Code::closed, "this engine opens no lanes");
  return std::make_unique<GatedLane>(shared_from_this(), options);
}

inline void GatedEngine::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(
        lock, [this] { return ended_ || (!jobs_.empty() && (open_ || jobs_.front().cancelled)); });
    if (jobs_.empty()) return;
    const Job job = jobs_.front();
    jobs_.pop_front();
    Completion completion;
    if (job.cancelled) {
      completion = not_begun(job.move, kind_, Cause::cancelled);
    } else {
      lock.unlock();
      const CacheUse cache = resolve_cache(job.move, Bytes{1} << 40);
      completion = completion_of(execute(job.move, cache), kind_, cache);
      lock.lock();
    }
    counters_.count(completion);
    load_ -= job.move.bytes;
    job.lane->end(completion, job.move);
  }
}

}  // namespace gantry
