// What open engines burn while there is nothing to do.

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "movers.hpp"

namespace gantry::bench {
namespace {

constexpr Bytes kIdleBytes = Bytes{1} << 20;

/// What the kernel's scheduler has counted for a thread.
struct Ran {
  std::uint64_t ns = 0;
  std::uint64_t times = 0;
};

/// Of every thread but the calling one, by its number; /proc's schedstat has nanoseconds, whatever
/// the timer's tick. Empty where the kernel does not count.
std::map<int, Ran> other_threads() {
  std::map<int, Ran> threads;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task", none)) {
    const int number = std::stoi(entry.path().filename().string());
    if (number == ::gettid()) continue;
    std::ifstream in(entry.path() / "schedstat");
    Ran ran;
    std::uint64_t waited_ns = 0;
    if (in >> ran.ns >> waited_ns >> ran.times) threads[number] = ran;
  }
  return threads;
}

/// Everyone has worked and has something to come to rest from; a thread that never ran would do so
/// for the first time while it is watched.
Result<void> work_once(Environment& environment, const Walk& walk) {
  environment.reader().start([] { return std::uint64_t{0}; });
  static_cast<void>(environment.reader().finish());
  for (const NamedEngine& one : environment.engines()) {
    auto mover = queued_mover(environment.arena(), *one.engine, 1);
    if (!mover) return Unexpected(mover.error());
    if (auto moved = (*mover)(walk); !moved) return moved;
  }
  return {};
}

Result<void> sleep_for(Environment& environment, std::chrono::milliseconds time) {
  pollfd interrupt{environment.interrupt_descriptor(), POLLIN, 0};
  ::poll(&interrupt, 1, static_cast<int>(time.count()));
  return environment.check_interrupt();
}

/// Watches after some time in which workers may come to rest.
Result<void> watch(Environment& environment, Series& series) {
  if (auto worked =
          work_once(environment, Walk::over(1, environment.settings().own_size(kIdleBytes)));
      !worked)
    return worked;
  const std::chrono::milliseconds time = environment.settings().idle_time;  // seconds would be cut
  if (auto slept = sleep_for(environment, time / 5); !slept) return slept;
  const auto before = other_threads();
  if (before.empty())
    return Unexpected({Code::unsupported, "/proc/self/task/*/schedstat: nothing is counted there",
                       "use a kernel with CONFIG_SCHED_INFO"});
  if (auto slept = sleep_for(environment, time); !slept) return slept;
  Ran total;
  for (const auto& [number, ran] : other_threads()) {
    const auto old = before.find(number);
    total.ns += ran.ns - (old == before.end() ? 0 : old->second.ns);
    total.times += ran.times - (old == before.end() ? 0 : old->second.times);
  }
  series.add(kHelperCpu, "ns", static_cast<double>(total.ns));
  series.add("wakeups", "1", static_cast<double>(total.times));
  series.add("threads", "1", static_cast<double>(before.size()));
  return {};
}

}  // namespace

std::vector<Experiment> idle_experiments(const Environment& environment) {
  return {{fmt::format("{}/{} s", kIdle, environment.settings().idle_time.count()),
           environment.settings().own_size(kIdleBytes), 1,
           [](Environment& there) -> Result<std::vector<Entrant>> {
             return std::vector<Entrant>{
                 {"gantry/all-engines", [&there](Series& series) { return watch(there, series); }}};
           }}};
}

}  // namespace gantry::bench
