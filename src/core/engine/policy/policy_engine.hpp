#pragma once  // engine/policy/policy_engine.hpp: the engine "auto", which passes moves on.

#include <atomic>
#include <map>
#include <mutex>
#include <thread>

#include "core/base/clock.hpp"
#include "core/base/os/fd.hpp"
#include "core/base/os/fork.hpp"
#include "core/engine/engine_counters.hpp"
#include "core/engine/policy/policy.hpp"

namespace gantry {

class PolicyLane;

/// Counts the CPUs of this process on which nobody runs besides the caller, as lately seen. The
/// kernel is asked at most every 2 ms, which takes some microseconds. Any thread.
class FreeCpus {
 public:
  /// `cpus` 0: by the affinity of the calling thread.
  explicit FreeCpus(double cpus, std::string source = "/proc/loadavg");

  /// `own_workers`: threads that run for us now, or have just done so and look for more. They count
  /// as free if this call asks the kernel.
  [[nodiscard]] double besides_caller(unsigned own_workers) noexcept;
  [[nodiscard]] double cpus() const noexcept { return cpus_; }

  static constexpr std::uint64_t kForgottenNs = 10'000'000;
  static constexpr std::uint64_t kSampleNs = 2'000'000;

 private:
  void sample(std::uint64_t now_ns, unsigned own_workers) noexcept;

  double cpus_;
  std::string source_;
  // All relaxed: a guess, as good as its age.
  std::atomic<std::uint64_t> sampled_ns_{0};
  std::atomic<double> others_{-1};  // others that run, smoothed; negative: never seen
};

/// One thread, made when the first descriptor is added; it sleeps until one rings.
class EngineWatcher {
 public:
  EngineWatcher() = default;
  EngineWatcher(const EngineWatcher&) = delete;
  EngineWatcher& operator=(const EngineWatcher&) = delete;
  ~EngineWatcher();

  /// From now on `lane` looks when `event` (an eventfd) rings. Adding twice has no further effect.
  /// Do not call it with the lane's lock held, which look() takes. Errors: `system`.
  [[nodiscard]] Result<void> add(int event, PolicyLane& lane);
  /// When it returns, `lane` is not being called and never will be.
  void remove(PolicyLane& lane) noexcept;

 private:
  [[nodiscard]] Result<void> start();
  void work() noexcept;
  bool ring_of(int event) noexcept;

  const ForkGuard fork_guard_;  // a forked child shares the descriptors, not the thread
  std::mutex mutex_;            // held while a lane looks, so remove() waits for that
  std::map<int, PolicyLane*> lanes_;
  Fd epoll_;
  Fd stop_;
  std::thread thread_;
};

/// What the policy is told of the process, beside the calibration.
struct PolicyOptions {
  /// CPUs that this process may use, limits of its control group counted; 0: by its affinity.
  double cpus = 0;
  /// Called once if the calibration is `defaults`, by the first submitter of a move that is large
  /// enough to gain from a better one, before that move begins. Return nothing to go on as before.
  std::function<std::optional<Calibration>()> calibrate;
};

/// Bytes per engine.
using EngineBytes = std::array<Bytes, kMaxPolicyEngines>;

class PolicyEngine final : public Engine, public std::enable_shared_from_this<PolicyEngine> {
 public:
  PolicyEngine(std::vector<std::shared_ptr<Engine>> engines, Calibration calibration,
               PolicyOptions options);
  ~PolicyEngine() override;

  std::string_view name() const noexcept override { return "auto"; }
  Capabilities capabilities() const override;
  Bytes load() const noexcept override { return load_.load(std::memory_order_relaxed); }
  Result<std::unique_ptr<Lane>> open_lane(const LaneOptions& options) override;
  EngineReport report() const noexcept override;

  /// Chooses by this calibration from now on.
  void use(Calibration calibration);
  [[nodiscard]] Calibration calibration() const { return policy().calibration(); }

  // For its lanes; any thread.

  [[nodiscard]] const Policy& policy() const noexcept {
    return *policy_.load(std::memory_order_acquire);  // [P]
  }
  /// Call before choosing for a move of that size: the first large one waits for a calibration.
  void consider_calibrating(Bytes bytes) noexcept {
    if (bytes >= kWorthCalibrating && !considered_.load(std::memory_order_relaxed)) [[unlikely]]
      slow_calibrate();
  }
  /// `own`: bytes of the asking lane on the way in each engine.
  [[nodiscard]] Situation situation(Bytes bytes, SubmitMode mode,
                                    const EngineBytes& own) const noexcept;
  [[nodiscard]] Explanation explain(const Move& move, SubmitMode mode,
                                    const EngineBytes& own) const;
  [[nodiscard]] Engine& engine(std::size_t index) const noexcept { return *engines_[index]; }
  /// False in a forked child: the engines' threads are the parent's.
  [[nodiscard]] bool is_ours() const noexcept { return fork_guard_.is_this(); }
  /// The engine takes no moves, now or ever: nobody need try it again.
  void rule_out(std::size_t engine) noexcept {
    ruled_out_[engine].store(true, std::memory_order_relaxed);  // a hint
  }
  [[nodiscard]] EngineCounters& counters() noexcept { return counters_; }
  [[nodiscard]] EngineWatcher& watcher() noexcept { return watcher_; }
  /// Threads of an engine begin to work for us, or have just ended, and are awake.
  void note_awake() noexcept {
    awake_ns_.store(monotonic_ns(), std::memory_order_relaxed);  // a guess, as FreeCpus is
  }
  void add_load(Bytes bytes) noexcept { load_.fetch_add(bytes, std::memory_order_relaxed); }
  void drop_load(Bytes bytes) noexcept { load_.fetch_sub(bytes, std::memory_order_relaxed); }
  void forget(PolicyLane& lane) noexcept;

  static constexpr Bytes kWorthCalibrating = Bytes{1} << 20;

 private:
  void slow_calibrate() noexcept;
  [[nodiscard]] std::vector<Member> members() const;
  [[nodiscard]] WaitStrategy waiting_for(std::size_t engine, const Move& move,
                                         SubmitMode mode) const;

  std::vector<std::shared_ptr<Engine>> engines_;
  PolicyOptions options_;
  ForkGuard fork_guard_;
  EngineCounters counters_;
  std::atomic<std::uint64_t> awake_ns_{0};
  mutable FreeCpus free_cpus_;
  std::atomic<Bytes> load_{0};  // relaxed: a hint
  // Pair [P]: a policy is written before it is shown. Earlier ones are kept, since a submitter may
  // still look at one; a process has few in its life.
  std::atomic<const Policy*> policy_{nullptr};
  std::mutex policies_mutex_;
  std::vector<std::unique_ptr<const Policy>> policies_;
  std::atomic<bool> considered_{false};  // relaxed: exchange() alone decides who calibrates
  std::array<std::atomic<bool>, kMaxPolicyEngines> ruled_out_{};
  mutable std::mutex lanes_mutex_;  // a lane in the list lives for as long as it is held
  std::vector<PolicyLane*> lanes_;
  mutable std::mutex asked_mutex_;
  mutable std::array<std::unique_ptr<Lane>, kMaxPolicyEngines> asked_;  // for explain() alone
  EngineWatcher watcher_;
};

/// Passes each move on to the one of `engines` that the calibration says ends it first, and says
/// why. A queued move goes to the one that also takes the least of the caller's time. The first
/// engine is chosen when nothing speaks against it; it must have no threads and need no device
/// (inline). Stopping "auto" does not stop `engines`.
/// Errors: `invalid_argument` (no engine, more than 8, or one twice), `out_of_memory`.
[[nodiscard]] Result<std::shared_ptr<PolicyEngine>> make_auto_engine(
    std::vector<std::shared_ptr<Engine>> engines, Calibration calibration,
    PolicyOptions options = {});

}  // namespace gantry
