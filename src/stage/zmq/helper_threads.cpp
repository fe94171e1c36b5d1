#include "stage/zmq/helper_threads.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/clock.hpp"

namespace gantry {
namespace {

namespace fs = std::filesystem;

// The kernel's number for a thread's CPU clock, made as pthread_getcpuclockid() makes it. That
// function needs a pthread_t, which a library keeps to itself.
clockid_t cpu_clock_of(pid_t thread) {
  constexpr unsigned kPerThreadScheduled = 6;
  return static_cast<clockid_t>((~static_cast<unsigned>(thread) << 3) | kPerThreadScheduled);
}

pid_t number_of(const std::string& name) {
  pid_t number = 0;
  std::from_chars(name.data(), name.data() + name.size(), number);
  return number;
}

}  // namespace

HelperThreads::HelperThreads(std::string_view name) : name_(name), threads_(present()) {}

void HelperThreads::started() {
  auto now = present();
  std::erase_if(now, [&](pid_t thread) { return std::ranges::count(threads_, thread) != 0; });
  threads_ = std::move(now);
}

std::vector<pid_t> HelperThreads::present() const {
  std::vector<pid_t> found;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator("/proc/self/task", none)) {
    std::string name;
    std::getline(std::ifstream(entry.path() / "comm") >> std::ws, name);
    if (name.starts_with(name_)) found.push_back(number_of(entry.path().filename()));
  }
  return found;
}

std::uint64_t HelperThreads::take_cpu_ns() {
  std::uint64_t total_ns = 0;
  for (const pid_t thread : threads_) total_ns += clock_ns(cpu_clock_of(thread));
  const std::uint64_t fresh_ns = total_ns - std::min(total_ns, taken_ns_);
  taken_ns_ += fresh_ns;
  return fresh_ns;
}

}  // namespace gantry
