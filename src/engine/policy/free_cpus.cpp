#include "engine/policy/free_cpus.hpp"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include "base/clock.hpp"
#include "base/fd.hpp"
#include "base/numa_nodes.hpp"

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

}  // namespace

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

}  // namespace gantry
