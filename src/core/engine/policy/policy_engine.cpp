#include "core/engine/policy/policy_engine.hpp"

#include <fcntl.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <set>

#include "core/base/event.hpp"
#include "core/base/os/disown.hpp"
#include "core/base/os/numa_nodes.hpp"
#include "core/base/os/worker_thread.hpp"
#include "core/base/result.hpp"
#include "core/engine/check.hpp"
#include "core/engine/policy/policy_lane.hpp"

namespace gantry {
namespace {

// The fourth word of "0.20 0.18 0.12 1/80 11206": threads that run or want to. Negative: unknown.
double running_in(std::string_view line) {
  for (int words = 0; words < 3; ++words) {
    const auto space = line.find(' ');
    if (space == std::string_view::npos) return -1;
    line.remove_prefix(space + 1);
  }
  int running = -1;
  std::from_chars(line.data(), line.data() + line.size(), running);
  return running;
}

double read_running(const std::string& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 128> text{};
  const ssize_t length = file ? ::read(file.get(), text.data(), text.size()) : -1;
  return length > 0 ? running_in({text.data(), static_cast<std::size_t>(length)}) : -1;
}

Result<void> watch(int epoll, int event) {
  epoll_event entry{};
  entry.events = EPOLLIN;
  entry.data.fd = event;
  if (::epoll_ctl(epoll, EPOLL_CTL_ADD, event, &entry) == 0 || errno == EEXIST) return {};
  return fail_errno("watching a lane's event");
}

constexpr Bytes kWorthLooking = Bytes{1} << 20;  // smaller moves assume that a CPU is free

}  // namespace

// ---- free CPUs -----------------------------------------------------------------------------

FreeCpus::FreeCpus(double cpus, std::string source)
    : cpus_(cpus > 0 ? cpus : usable_cpus()), source_(std::move(source)) {}

void FreeCpus::sample(std::uint64_t now_ns, unsigned own_workers) noexcept {
  std::uint64_t last = sampled_ns_.load(std::memory_order_relaxed);
  if (last != 0 && now_ns - last < kSampleNs) return;
  if (!sampled_ns_.compare_exchange_strong(last, now_ns, std::memory_order_relaxed)) return;
  const double seen = read_running(source_);
  if (seen < 0) return;
  const double others = std::max(seen - 1 - own_workers, 0.0);  // the caller runs too
  // One moment says little. So what was seen before counts half, and CPUs that nobody looked at for
  // long count as having been free.
  const double before = now_ns - last < kForgottenNs ? others_.load(std::memory_order_relaxed) : 0;
  others_.store((std::max(before, 0.0) + others) / 2, std::memory_order_relaxed);
}

double FreeCpus::besides_caller(unsigned own_workers) noexcept {
  sample(monotonic_ns(), own_workers);
  // Unknown: assumes the best.
  const double others = std::max(others_.load(std::memory_order_relaxed), 0.0);
  return std::max(cpus_ - 1 - others, 0.0);
}

// ---- watching lanes ------------------------------------------------------------------------

EngineWatcher::~EngineWatcher() {
  if (!thread_.joinable()) return;
  if (!fork_guard_.is_this()) {  // its end would be the parent's; the handle of no thread is let go
    disown(std::move(thread_));
    return;
  }
  ring(stop_.get());
  thread_.join();
}

Result<void> EngineWatcher::start() {
  epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_) return fail_errno("epoll_create1");
  GANTRY_ASSIGN(stop_, make_event());
  GANTRY_TRY(watch(epoll_.get(), stop_.get()));
  GANTRY_ASSIGN(thread_, gantry::start_thread("the thread that watches lanes", [this] { work(); }));
  return {};
}

Result<void> EngineWatcher::add(int event, PolicyLane& lane) {
  if (!fork_guard_.is_this()) return fail(Code::closed, "watching lanes: this is a forked child");
  const std::lock_guard lock(mutex_);
  if (!thread_.joinable()) GANTRY_TRY(start());
  GANTRY_TRY(watch(epoll_.get(), event));
  return guarded([&]() -> Result<void> {
    lanes_[event] = &lane;
    return {};
  });
}

void EngineWatcher::remove(PolicyLane& lane) noexcept {
  if (!fork_guard_.is_this()) return;  // the parent goes on listening
  const std::lock_guard lock(mutex_);
  std::erase_if(lanes_, [&](const auto& watched) {
    if (watched.second != &lane) return false;
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, watched.first, nullptr);
    return true;
  });
}

// False: it is the descriptor that ends this thread. One that was removed since it rang belongs to
// nobody.
bool EngineWatcher::ring_of(int event) noexcept {
  if (event == stop_.get()) return false;
  const std::lock_guard lock(mutex_);
  const auto found = lanes_.find(event);
  if (found == lanes_.end()) return true;
  drain(event);
  found->second->look();
  return true;
}

void EngineWatcher::work() noexcept {
  std::array<epoll_event, 16> events{};
  for (;;) {
    const int count = ::epoll_wait(epoll_.get(), events.data(), events.size(), -1);
    for (int i = 0; i < count; ++i)
      if (!ring_of(events[static_cast<std::size_t>(i)].data.fd)) return;
  }
}

// ---- the engine ----------------------------------------------------------------------------

PolicyEngine::PolicyEngine(std::vector<std::shared_ptr<Engine>> engines, Calibration calibration,
                           PolicyOptions options)
    : engines_(std::move(engines)), options_(std::move(options)), free_cpus_(options_.cpus) {
  considered_.store(!options_.calibrate, std::memory_order_relaxed);
  use(std::move(calibration));
}

PolicyEngine::~PolicyEngine() = default;

Capabilities PolicyEngine::capabilities() const {
  return engines_.front()->capabilities();
}

std::vector<Member> PolicyEngine::members() const {
  std::vector<Member> members;
  for (const auto& engine : engines_) {
    Capabilities able = engine->capabilities();
    members.push_back({std::string(engine->name()), kind_of(engine->name()), std::move(able.kinds),
                       able.alignment});
  }
  return members;
}

void PolicyEngine::use(Calibration calibration) {
  const bool is_measured = calibration.source != Calibration::Source::defaults;
  auto policy = std::make_unique<const Policy>(std::move(calibration), members());
  const std::lock_guard lock(policies_mutex_);
  policies_.push_back(std::move(policy));
  policy_.store(policies_.back().get(), std::memory_order_release);  // [P]
  if (is_measured) considered_.store(true, std::memory_order_relaxed);
}

// Others that come meanwhile go on with the old calibration.
void PolicyEngine::slow_calibrate() noexcept {
  if (considered_.exchange(true, std::memory_order_relaxed)) return;
  try {
    if (auto better = options_.calibrate()) use(std::move(*better));
  } catch (...) {  // out of memory: the old calibration is good enough
    return;
  }
}

Situation PolicyEngine::situation(Bytes bytes, SubmitMode mode,
                                  const EngineBytes& own) const noexcept {
  Situation situation;
  situation.use = mode;
  // A worker that has just ended its work is still awake, looking for more.
  constexpr std::uint64_t kAwakeNs = 1'000'000;
  const bool just_now = bytes >= kWorthLooking &&
                        monotonic_ns() - awake_ns_.load(std::memory_order_relaxed) < kAwakeNs;
  unsigned own_workers = just_now ? 1 : 0;
  for (std::size_t i = 0; i < engines_.size(); ++i)
    situation.refused[i] = ruled_out_[i].load(std::memory_order_relaxed);  // a hint
  for (std::size_t i = 1; i < engines_.size(); ++i) {
    const Bytes load = engines_[i]->load();
    situation.ahead[i] = mode == SubmitMode::queued ? load - std::min(load, own[i]) : load;
    if (load > 0 && engines_[i]->name() == "thread") own_workers = 1;
  }
  if (bytes >= kWorthLooking) situation.free_cpus = free_cpus_.besides_caller(own_workers);
  return situation;
}

Explanation PolicyEngine::explain(const Move& move, SubmitMode mode, const EngineBytes& own) const {
  Explanation explanation = policy().explain(move, situation(move.bytes, mode, own));
  const auto chosen = std::ranges::find_if(
      engines_, [&](const auto& engine) { return kind_of(engine->name()) == explanation.engine; });
  explanation.waiting =
      waiting_for(static_cast<std::size_t>(chosen - engines_.begin()), move, mode);
  return explanation;
}

// Asks that engine. A move of the first one has ended when submit() returns.
WaitStrategy PolicyEngine::waiting_for(std::size_t engine, const Move& move,
                                       SubmitMode mode) const {
  if (engine == 0) return WaitStrategy::poll;
  const std::lock_guard lock(asked_mutex_);
  if (asked_[engine] == nullptr) {
    auto lane = engines_[engine]->open_lane({1, LaneOptions::Full::refuse});
    if (!lane) return WaitStrategy::automatic;
    asked_[engine] = std::move(*lane);
  }
  return asked_[engine]->explain(move, mode).waiting;
}

Result<std::unique_ptr<Lane>> PolicyEngine::open_lane(const LaneOptions& options) {
  GANTRY_TRY(check_lane(options));
  // A child has none of the threads: there only the first engine works, which needs none.
  if (!is_ours()) return engines_.front()->open_lane(options);
  return guarded([&]() -> Result<std::unique_ptr<Lane>> {
    auto lane = std::make_unique<PolicyLane>(shared_from_this(), options);
    const std::lock_guard lock(lanes_mutex_);
    lanes_.push_back(lane.get());
    return lane;
  });
}

void PolicyEngine::forget(PolicyLane& lane) noexcept {
  const std::lock_guard lock(lanes_mutex_);
  std::erase(lanes_, &lane);
  counters_.add(lane.counters());
}

// What lanes did within submit() each counts for itself. In a forked child the lock may be held for
// ever.
EngineReport PolicyEngine::report() const noexcept {
  if (!is_ours()) return counters_.report();
  const std::lock_guard lock(lanes_mutex_);
  EngineReport report = counters_.report();
  for (const PolicyLane* lane : lanes_) lane->counters().add_to(report);
  return report;
}

Result<std::shared_ptr<PolicyEngine>> make_auto_engine(std::vector<std::shared_ptr<Engine>> engines,
                                                       Calibration calibration,
                                                       PolicyOptions options) {
  if (engines.empty() || engines.size() > kMaxPolicyEngines)
    return fail(Code::invalid_argument,
                fmt::format("a policy over {} engines: 1 to {} are possible", engines.size(),
                            kMaxPolicyEngines));
  std::set<std::string_view> names;
  for (const auto& engine : engines) {
    if (engine == nullptr) return fail(Code::invalid_argument, "a policy: an engine is null");
    if (!names.insert(engine->name()).second)
      return fail(Code::invalid_argument,
                  fmt::format("a policy: engine '{}' is there twice", engine->name()));
  }
  return guarded([&]() -> Result<std::shared_ptr<PolicyEngine>> {
    return std::make_shared<PolicyEngine>(std::move(engines), std::move(calibration),
                                          std::move(options));
  });
}

}  // namespace gantry
