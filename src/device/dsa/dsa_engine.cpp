#include "device/dsa/dsa_engine.hpp"

#include "core/base/os/cpu.hpp"
#include "core/base/result.hpp"
#include "core/engine/check.hpp"
#include "core/engine/fault_guard.hpp"
#include "core/engine/lane_base.hpp"
#include "device/dsa/device_queue.hpp"
#include "device/dsa/dispatcher.hpp"

namespace gantry::dsa {
namespace {

Error forked() {
  return {Code::closed, "this lane of the dsa engine was opened before fork()",
          "open another one in the child: the engine then opens the queue again"};
}

class DsaLane final : public LaneBase {
 public:
  DsaLane(std::shared_ptr<const Engine> engine, Dispatcher& dispatcher, const LaneOptions& options)
      : engine_(std::move(engine)),
        dispatcher_(dispatcher),
        options_(options),
        moves_(options.depth, progress()) {
    dispatcher_.add(moves_);
  }
  ~DsaLane() override {
    if (!dispatcher_.is_ours())
      disown();
    else
      dispatcher_.remove(moves_);
  }
  DsaLane(const DsaLane&) = delete;
  DsaLane& operator=(const DsaLane&) = delete;

  using Lane::submit;
  Result<Ticket> submit(std::span<const Move> batch, SubmitMode mode) override;
  std::size_t poll() override;
  void cancel() noexcept override { dispatcher_.is_ours() ? dispatcher_.cancel(moves_) : disown(); }
  Explanation explain(const Move& move, SubmitMode mode) const override;

 private:
  bool help(Ticket) override { return false; }  // poll() does the CPU's part
  std::chrono::nanoseconds left(Ticket ticket) const noexcept override {
    if (!dispatcher_.is_ours()) return {};
    return dispatcher_.left(moves_, static_cast<std::uint64_t>(ticket));
  }
  Result<void> be_watched() override {
    if (!dispatcher_.is_ours()) return tl::unexpected(forked());
    return dispatcher_.watch();
  }
  // Always false: a poller is quicker than the helper, and feeds the device.
  bool ends_unpolled() const noexcept override { return false; }

  // In a child, once, by whichever thread comes first: it takes no lock that the parent may have
  // held.
  void disown() noexcept {
    if (!disowned_.test_and_set(std::memory_order_acquire)) moves_.disown(given());
  }

  const std::shared_ptr<const Engine> engine_;
  Dispatcher& dispatcher_;
  const LaneOptions options_;
  PendingMoves moves_;
  std::atomic_flag disowned_;
};

Result<Ticket> DsaLane::submit(std::span<const Move> batch, SubmitMode mode) {
  if (!dispatcher_.is_ours()) return tl::unexpected(forked());
  GANTRY_TRY(check_batch(batch, options_.depth));
  for (;;) {
    const auto ticket = dispatcher_.submit(
        moves_, batch, mode, [this](std::size_t count) { return give_tickets(count); });
    if (ticket) {
      dispatcher_.pump();
      return *ticket;
    }
    if (options_.full == LaneOptions::Full::refuse)
      return fail(Code::busy, fmt::format("the lane holds {} moves already", options_.depth),
                  "wait for one to end, or open the lane with more depth");
    if (!dispatcher_.pump()) cpu_relax();
  }
}

std::size_t DsaLane::poll() {
  const std::uint64_t before = progress().ended();
  dispatcher_.is_ours() ? static_cast<void>(dispatcher_.pump()) : disown();
  return static_cast<std::size_t>(progress().ended() - before);
}

class DsaEngineOfQueue final : public DsaEngine,
                               public std::enable_shared_from_this<DsaEngineOfQueue> {
 public:
  DsaEngineOfQueue(std::unique_ptr<WorkQueue> queue, const DsaOptions& options)
      : options_(options),
        traits_(queue->traits()),
        name_(traits_.simulated ? "dsa (simulated)" : "dsa"),
        dispatcher_(new Dispatcher(std::move(queue), options)) {}
  // What a child inherited stays as it is: threads that it does not have may hold the locks.
  ~DsaEngineOfQueue() override {
    Dispatcher* mine = dispatcher_.load(std::memory_order_acquire);  // [D]
    if (mine->is_ours()) delete mine;
  }
  DsaEngineOfQueue(const DsaEngineOfQueue&) = delete;
  DsaEngineOfQueue& operator=(const DsaEngineOfQueue&) = delete;

  std::string_view name() const noexcept override { return name_; }
  Capabilities capabilities() const override;
  Bytes load() const noexcept override {
    const Dispatcher* mine = ours();
    return mine != nullptr ? mine->load() : 0;
  }
  Result<std::unique_ptr<Lane>> open_lane(const LaneOptions& options) override;
  EngineReport report() const noexcept override {
    const Dispatcher* mine = ours();
    return mine != nullptr ? mine->report() : EngineReport{};
  }
  DsaCounts counts() const override {
    const Dispatcher* mine = ours();
    return mine != nullptr ? mine->counts() : DsaCounts{};
  }
  std::string about() const override {
    const std::string failed = counts().failed;
    return describe(traits_) + (failed.empty() ? "" : "; no longer used: " + failed);
  }

 private:
  // Null in a child that has not opened a lane yet.
  Dispatcher* ours() const noexcept {
    Dispatcher* mine = dispatcher_.load(std::memory_order_acquire);  // [D]
    return mine->is_ours() ? mine : nullptr;
  }
  // Of several threads one wins; the others close their queues again.
  Result<Dispatcher*> slow_reopen() {
    Dispatcher* inherited = dispatcher_.load(std::memory_order_acquire);  // [D]
    if (inherited->is_ours()) return inherited;
    GANTRY_ASSIGN(auto queue, inherited->queue().reopen());
    auto fresh = std::make_unique<Dispatcher>(std::move(queue), options_);
    if (!dispatcher_.compare_exchange_strong(inherited, fresh.get(), std::memory_order_acq_rel,
                                             std::memory_order_acquire))  // [D]
      return inherited;
    return fresh.release();
  }

  const DsaOptions options_;
  const QueueTraits traits_;
  const std::string name_;
  std::atomic<Dispatcher*> dispatcher_;  // [D]: made before it is seen
};

Capabilities DsaEngineOfQueue::capabilities() const {
  Capabilities capabilities{options_.helper, {}, kLine};
  const Dispatcher* mine = ours();
  for (std::size_t i = 0; i < kMoveKinds; ++i) {
    const auto kind = static_cast<Move::Kind>(i);
    if (kind == Move::Kind::reshape) continue;  // the caller's CPU: see device_takes()
    if (mine == nullptr || !mine->refuses(kind)) capabilities.kinds.push_back(kind);
  }
  return capabilities;
}

Result<std::unique_ptr<Lane>> DsaEngineOfQueue::open_lane(const LaneOptions& options) {
  GANTRY_TRY(check_lane(options));
  return guarded([&]() -> Result<std::unique_ptr<Lane>> {
    Dispatcher* mine = ours();
    if (mine == nullptr) {
      GANTRY_ASSIGN(mine, slow_reopen());
    }
    return std::make_unique<DsaLane>(shared_from_this(), *mine, options);
  });
}

std::string kind_and_way(const DsaCounts& counts) {
  return fmt::format("{}{}", to_string(counts.entrance), counts.simulated ? ", simulated" : "");
}

Explanation DsaLane::explain(const Move& move, SubmitMode) const {
  Explanation told;
  told.engine = CopyEngine::dsa;
  told.cache = CacheUse::reader_soon;
  if (!dispatcher_.is_ours()) {
    told.candidates.push_back({"dsa", false, {}, "opened before fork()"});
    return told;
  }
  const DsaCounts counts = dispatcher_.counts();
  told.cache = dispatcher_.cache_for(move);
  told.predicted = dispatcher_.cost().of(move.bytes);
  told.waiting = waiting_for(told.predicted);
  const bool takes = counts.failed.empty() && device_takes(move) && !dispatcher_.refuses(move.kind);
  if (!takes) told.engine = CopyEngine::inline_;
  std::string why = kind_and_way(counts);
  if (!counts.failed.empty())
    why = counts.failed + ": the CPU does what it is asked for";
  else if (move.kind == Move::Kind::reshape)
    why = "the device cannot convert: the CPU does it";
  else if (!takes)
    why = "the device does not know this kind of move: the CPU does it";
  told.candidates.push_back({std::string(engine_->name()), takes, told.predicted, why});
  told.reasons.push_back(std::move(why));
  if (!move.resident) told.reasons.emplace_back("missing pages are made present when one is found");
  return told;
}

}  // namespace

Result<std::shared_ptr<DsaEngine>> make_dsa_engine(std::unique_ptr<WorkQueue> queue,
                                                   const DsaOptions& options) {
  if (queue == nullptr) return fail(Code::invalid_argument, "a dsa engine without a work queue");
  if (options.time_limit.count() <= 0 || options.full_limit.count() < 0)
    return fail(Code::invalid_argument, "a dsa engine with a time limit of nothing");
  if (!install_fault_guard()) return fail_errno("installing the handler of page faults");
  return guarded([&]() -> Result<std::shared_ptr<DsaEngine>> {
    return std::make_shared<DsaEngineOfQueue>(std::move(queue), options);
  });
}

}  // namespace gantry::dsa
