// Making a region's pages before they are used: by one thread, by all; and what a use costs then.

#include <fmt/format.h>
#include <sys/resource.h>

#include <gantry/memory.hpp>

#include "../support/program/sizes.hpp"
#include "../support/system/buffer.hpp"
#include "../support/system/cpus.hpp"
#include "settings.hpp"
#include "team.hpp"

namespace gantry::bench {
namespace {

constexpr unsigned kMostRounds = 3;  // a touch of some GiB takes seconds

/// Makes a fresh region and touches it; what a trip gives is what `figure` makes of that.
class TouchRunner final : public Runner {
 public:
  TouchRunner(Bytes bytes, unsigned threads, bool counts_faults)
      : bytes_(bytes), threads_(threads), counts_faults_(counts_faults) {}

  Result<double> run(std::uint64_t) override {
    auto region = Region::create(bytes_, "gantry-bench-touch");
    if (!region) return Unexpected(region.error());
    const auto begin = std::chrono::steady_clock::now();
    const auto touched = region->touch(0, bytes_, threads_);
    const auto end = std::chrono::steady_clock::now();
    if (!touched) return Unexpected(touched.error());
    if (counts_faults_) return faults_of_use(*region);
    return std::chrono::duration<double, std::nano>(end - begin).count();
  }

 private:
  static long minor_faults() {
    rusage usage{};
    ::getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_minflt;
  }

  /// Faults of writing to every page once more.
  static double faults_of_use(const Region& region) {
    const Bytes page = page_bytes();
    const long before = minor_faults();
    for (Bytes at = 0; at < region.size(); at += page)
      const_cast<volatile std::byte&>(region.data()[at]) = std::byte{1};
    return static_cast<double>(minor_faults() - before);
  }

  Bytes bytes_;
  unsigned threads_;
  bool counts_faults_;
};

Contestant toucher(const Settings& settings, const std::string& name, std::string subject,
                   unsigned threads) {
  const auto bytes = static_cast<double>(settings.touch_bytes);
  return {.case_name = name,
          .subject = std::move(subject),
          .bytes = settings.touch_bytes,
          .open = [bytes = settings.touch_bytes, threads,
                   cpus = settings.cpus]() -> Result<std::unique_ptr<Runner>> {
            if (const auto bound = pin(cpus); !bound) return Unexpected(bound.error());
            return std::make_unique<TouchRunner>(bytes, threads, false);
          },
          .readings = {{}, {kThroughput, "GB/s", [bytes](double ns) { return bytes / ns; }}},
          .counts_once = true};
}

}  // namespace

std::vector<Contest> touch_contests(const Settings& settings) {
  const std::string name = fmt::format("touch/{}", format_size(settings.touch_bytes));
  Contest contest{.label = name,
                  .contestants = {},
                  .rounds = std::min(settings.common.rounds, kMostRounds),
                  .memory_bytes = settings.touch_bytes};
  contest.contestants.push_back(toucher(settings, name, "gantry/touch-one-thread", 1));
  contest.contestants.push_back(toucher(settings, name, "gantry/touch-all-cores", 0));
  Contestant second{
      .case_name = name, .subject = "gantry/second-use", .bytes = settings.touch_bytes};
  second.open = [bytes = settings.touch_bytes,
                 cpus = settings.cpus]() -> Result<std::unique_ptr<Runner>> {
    if (const auto bound = pin(cpus); !bound) return Unexpected(bound.error());
    return std::make_unique<TouchRunner>(bytes, 0, true);
  };
  second.readings = {{.metric = "minor_faults", .unit = "1"}};
  second.counts_once = true;
  contest.contestants.push_back(std::move(second));
  return {std::move(contest)};
}

}  // namespace gantry::bench
