#pragma once  // bench/support/program/program.hpp: what main() of every benchmark does around
              // measuring.

#include <functional>
#include <optional>
#include <string>

#include "../report/findings.hpp"
#include "../report/report.hpp"
#include "../system/posix.hpp"
#include "options.hpp"

namespace gantry::bench {

/// What is printed, and what is complained of then.
struct Measured {
  std::string text;
  std::optional<Error> missed{};  ///< A bar, with --judge.
};
/// Measures. Errors: `interrupted` once the descriptor is readable.
using Measurement = std::function<Result<Measured>(int interrupt_descriptor)>;

/// Calls `parse`, then what it gave, and prints that. The status to exit with: 0; 1 after one line
/// of complaint; 130 when interrupted; what `parse` says instead. Nothing is thrown out of it.
[[nodiscard]] int run_program(std::string_view name,
                              const std::function<tl::expected<Measurement, int>()>& parse);

// The file of --plot, if there is one: before anything is measured, and after.
[[nodiscard]] Result<void> check_plot(const Options& options);
[[nodiscard]] Result<void> write_plot(const Options& options, const Report& report);

/// A benchmark, as its main() hands it over. Its Settings have the Options of all as `common`.
template <class Settings>
struct Benchmark {
  std::string name;                      ///< "ipc": `gantry bench ipc`.
  Manual (*manual)(Settings& settings);  ///< Its options put what they are told into the settings.
  Result<Report> (*measure)(Settings& settings, int interrupt_descriptor);
  std::string (*to_text)(const Settings& settings, const Report& report);
};

/// What main() of a benchmark does. The status to exit with.
template <class Settings>
[[nodiscard]] int run_benchmark(int argc, const char* const* argv,
                                const Benchmark<Settings>& bench) {
  return run_program(bench.name, [&]() -> tl::expected<Measurement, int> {
    Settings settings;
    auto options = parse_options(argc, argv, bench.name, bench.manual(settings));
    if (!options) return tl::unexpected<int>(options.error());
    settings.common = *std::move(options);
    return [&bench, settings](int interrupt_descriptor) mutable -> Result<Measured> {
      if (auto can = check_plot(settings.common); !can) return tl::unexpected(can.error());
      const auto report = bench.measure(settings, interrupt_descriptor);
      if (!report) return tl::unexpected(report.error());
      if (auto drawn = write_plot(settings.common, *report); !drawn)
        return tl::unexpected(drawn.error());
      return Measured{settings.common.json ? to_json(*report) : bench.to_text(settings, *report),
                      settings.common.judge ? missed_bars(*report) : std::nullopt};
    };
  });
}

}  // namespace gantry::bench
