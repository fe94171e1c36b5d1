#include "core/engine/inline/inline_engine.hpp"

#include <limits>
#include <mutex>

#include "core/base/clock.hpp"
#include "core/base/os/fork.hpp"
#include "core/base/result.hpp"
#include "core/engine/check.hpp"
#include "core/engine/engine_counters.hpp"
#include "core/engine/execute.hpp"
#include "core/engine/fault_guard.hpp"
#include "core/engine/lane_base.hpp"

namespace gantry {
namespace {

class InlineEngine final : public Engine, public std::enable_shared_from_this<InlineEngine> {
 public:
  explicit InlineEngine(const InlineOptions& options) : options_(options) {
    if (options_.streaming_from == 0) options_.streaming_from = std::numeric_limits<Bytes>::max();
  }

  std::string_view name() const noexcept override { return "inline"; }
  Capabilities capabilities() const override {
    using enum Move::Kind;
    return {false, {copy, fill, reshape}, 64};
  }
  [[nodiscard]] Cost cost() const noexcept { return {std::chrono::nanoseconds(50), rate_.get()}; }
  Bytes load() const noexcept override { return 0; }
  Result<std::unique_ptr<Lane>> open_lane(const LaneOptions& options) override;
  EngineReport report() const noexcept override { return counters_.report(); }

  Completion run(const Move& move, const std::atomic<bool>& cancelled) noexcept;
  [[nodiscard]] CacheUse cache_for(const Move& move) const noexcept {
    return resolve_cache(move, options_.streaming_from);
  }

 private:
  Completion counted(const Completion& completion) noexcept {
    counters_.count(completion);
    return completion;
  }

  InlineOptions options_;
  EngineCounters counters_;
  LearnedRate rate_;
};

class InlineLane final : public LaneBase {
 public:
  InlineLane(std::shared_ptr<InlineEngine> engine, std::size_t depth)
      : engine_(std::move(engine)), depth_(depth) {}

  using Lane::submit;
  Result<Ticket> submit(std::span<const Move> batch, SubmitMode) override;
  std::size_t poll() override { return 0; }
  // Called by another thread: the move that this lane is executing ends early.
  void cancel() noexcept override { cancelled_.store(true, std::memory_order_relaxed); }
  Explanation explain(const Move& move, SubmitMode mode) const override;

 private:
  bool help(Ticket) override { return false; }
  std::chrono::nanoseconds left(Ticket) const noexcept override { return {}; }
  bool ends_unpolled() const noexcept override { return true; }

  const ForkGuard fork_guard_;  // in a forked child the mutex may be held for ever
  std::shared_ptr<InlineEngine> engine_;
  std::size_t depth_;
  std::atomic<bool> cancelled_{false};  // relaxed: a request, no data comes with it
  std::mutex mutex_;                    // one submit() at a time executes and retires
};

Completion InlineEngine::run(const Move& move, const std::atomic<bool>& cancelled) noexcept {
  if (cancelled.load(std::memory_order_relaxed))  // a request
    return counted(not_begun(move, CopyEngine::inline_, Cause::cancelled));
  // For smaller moves the clock would cost more than it tells.
  constexpr Bytes kTimedFrom = Bytes{256} << 10;
  const CacheUse cache = cache_for(move);
  const std::uint64_t start = move.bytes >= kTimedFrom ? monotonic_ns() : 0;
  const Executed executed =
      move.bytes <= kUnitBytes ? execute(move, cache) : execute_in_units(move, cache, cancelled);
  if (start != 0 && executed.cause == Cause::none)
    rate_.learn(executed.bytes_done, monotonic_ns() - start);
  return counted(completion_of(executed, CopyEngine::inline_, cache));
}

Result<Ticket> InlineLane::submit(std::span<const Move> batch, SubmitMode) {
  GANTRY_TRY(check_batch(batch, depth_));
  if (!fork_guard_.is_this()) [[unlikely]]
    return fail(Code::closed, "this lane of the inline engine was opened before fork()",
                "open another one in the child");
  const std::lock_guard lock(mutex_);
  cancelled_.store(false, std::memory_order_relaxed);
  for (const Move& move : batch) {
    const Completion completion = engine_->run(move, cancelled_);
    if (move.completion != nullptr) *move.completion = completion;
    give_tickets(1);
    progress().retire(completion.outcome);
  }
  if (!batch.empty()) progress().announce();
  return Ticket{given()};
}

Explanation InlineLane::explain(const Move& move, SubmitMode) const {
  Explanation explanation;
  explanation.cache = engine_->cache_for(move);
  explanation.predicted = engine_->cost().of(move.bytes);
  explanation.candidates.push_back({"inline", true, explanation.predicted, {}});
  explanation.reasons.emplace_back("the lane is of the inline engine, which knows no other");
  return explanation;
}

Result<std::unique_ptr<Lane>> InlineEngine::open_lane(const LaneOptions& options) {
  GANTRY_TRY(check_lane(options));
  return guarded([&]() -> Result<std::unique_ptr<Lane>> {
    return std::make_unique<InlineLane>(shared_from_this(), options.depth);
  });
}

}  // namespace

Result<std::shared_ptr<Engine>> make_inline_engine(const InlineOptions& options) {
  if (!install_fault_guard()) return fail_errno("installing the handler of page faults");
  return std::make_shared<InlineEngine>(options);
}

}  // namespace gantry
