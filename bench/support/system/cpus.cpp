#include "cpus.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <time.h>

#include <algorithm>
#include <fstream>
#include <vector>

#include "posix.hpp"

namespace gantry::bench {
namespace {

/// Where a CPU sits; -1 where the kernel does not say.
struct Place {
  int cpu = 0;
  int package = -1;
  int core = -1;
};

int topology_number(int cpu, std::string_view file) {
  std::ifstream in(fmt::format("/sys/devices/system/cpu/cpu{}/topology/{}", cpu, file));
  int number = -1;
  return in >> number ? number : -1;
}

Result<std::vector<Place>> allowed_places() {
  const auto cpus = allowed_cpus();
  if (!cpus) return Unexpected(cpus.error());
  std::vector<Place> places;
  for (const int cpu : *cpus) {
    places.push_back(
        {cpu, topology_number(cpu, "physical_package_id"), topology_number(cpu, "core_id")});
  }
  return places;
}

/// How well `other` suits as the partner of `first`; two threads of one core suit least.
int suits(const Place& first, const Place& other) {
  const bool same_package = first.package == other.package;
  const bool known = first.core >= 0 && other.core >= 0;
  if (known && same_package && first.core == other.core) return 0;
  return same_package ? 2 : 1;
}

}  // namespace

Result<CpuPair> pick_cpus() {
  const auto places = allowed_places();
  if (!places) return Unexpected(places.error());
  const Place& first = places->front();
  if (places->size() == 1) return CpuPair{first.cpu, first.cpu};
  const auto best = std::max_element(
      places->begin() + 1, places->end(),
      [&](const Place& a, const Place& b) { return suits(first, a) < suits(first, b); });
  return CpuPair{first.cpu, best->cpu};
}

int reader_cpu(const CpuPair& pair, int reader) {
  if (reader == 0 || pair.shared()) return pair.responder;
  std::vector<int> places = allowed_cpus(pair);
  places.erase(places.begin());  // the requester's
  return places[static_cast<std::size_t>(reader) % places.size()];
}

Result<std::vector<int>> allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) {
    return Unexpected(system_error("sched_getaffinity"));
  }
  std::vector<int> cpus;
  for (std::size_t bit = 0; bit < CPU_SETSIZE; ++bit)
    if (CPU_ISSET(bit, &set)) cpus.push_back(static_cast<int>(bit));
  return cpus;
}

std::vector<int> allowed_cpus(const CpuPair& pair) {
  std::vector<int> cpus = {pair.requester};
  if (!pair.shared()) cpus.push_back(pair.responder);
  for (const int cpu : allowed_cpus().value_or(std::vector<int>()))
    if (cpu != pair.requester && cpu != pair.responder) cpus.push_back(cpu);
  return cpus;
}

Result<void> pin(int cpu) {
  return pin({&cpu, 1});
}

Result<void> pin(std::span<const int> cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) CPU_SET(static_cast<std::size_t>(cpu), &set);
  if (::sched_setaffinity(0, sizeof set, &set) == 0) return {};
  return Unexpected(system_error(fmt::format("binding to CPU {}", cpus.front())));
}

namespace {

std::chrono::nanoseconds reading_of(clockid_t clock) noexcept {
  timespec time{};
  ::clock_gettime(clock, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

}  // namespace

std::chrono::nanoseconds process_cpu_time() noexcept {
  return reading_of(CLOCK_PROCESS_CPUTIME_ID);
}

std::chrono::nanoseconds process_cpu_time(int process) noexcept {
  clockid_t clock{};
  if (::clock_getcpuclockid(process, &clock) != 0) return {};
  return reading_of(clock);
}

std::chrono::nanoseconds thread_cpu_time() noexcept {
  return reading_of(CLOCK_THREAD_CPUTIME_ID);
}

}  // namespace gantry::bench
