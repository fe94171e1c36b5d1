// What conversions are wanted to gain.

#include <fmt/format.h>

#include <array>

#include "../../support/report/findings.hpp"
#include "../turns.hpp"
#include "names.hpp"

namespace gantry::bench {
namespace {

/// Whose times are compared, and by how much the first has to be quicker.
struct Wanted {
  std::string_view quicker, slower;
  double from_pictures;  // 0: no bar
  double beyond_caches;  // of floats
  double within_caches;
};

// The others take one thread; so does the inline engine.
constexpr std::array kWanted = {
    Wanted{kReshaped, kCopyThenConvert, 0, 2.0, 1.0},
    Wanted{kReshaped, "convert-then-copy", 0, 0, 0},
    Wanted{kReshaped, kCopySource, 0, 0.9, 0},
    Wanted{kReshaped, kReadSource, 0, 0, 0},
    Wanted{"gantry/inline", "onednn/reorder", 0, 1.0, 0},
    Wanted{"gantry/inline", "opencv", 2.5, 0, 0},
    Wanted{"gantry/inline", "opencv/split", 0, 0, 0},
    Wanted{"gantry/inline", "scalar", 0, 0, 0},
};
constexpr Bytes kWithinCaches = Bytes{1} << 20;
constexpr Bytes kBeyondCaches = Bytes{64} << 20;
constexpr Bytes kWholePictures = Bytes{16} << 20;  // a frame, or the batch

Bar bar_of(const Wanted& wanted, const Row& row) {
  double bar = 0;
  if (row.case_name.find("pictures") != std::string::npos)
    bar = row.bytes >= kWholePictures ? wanted.from_pictures : 0;
  else if (row.bytes >= kBeyondCaches)
    bar = wanted.beyond_caches;
  else if (row.bytes <= kWithinCaches)
    bar = wanted.within_caches;
  return bar == 0 ? Bar::none() : Bar::at_least(bar);
}

}  // namespace

void add_reshape_findings(Report& report) {
  Ratios ratios(report);
  for (const std::string& name : cases_with(report, fmt::format("{}/", kReshape)))
    for (const Wanted& wanted : kWanted) {
      const Row* const quicker = report.find(name, wanted.quicker, kLatencyP50);
      const auto add = [&](std::string_view metric, std::string_view what, const Bar& bar) {
        ratios.of_rows(fmt::format("{}: {}{} / {}", name, what, wanted.quicker, wanted.slower),
                       report.find(name, wanted.slower, metric),
                       report.find(name, wanted.quicker, metric), bar);
      };
      if (quicker == nullptr) continue;
      const Bar bar = bar_of(wanted, *quicker);
      add(kLatencyP50, "speed of ", bar);
      if (!bar.text.empty()) add(kConvertTime, "unread, speed of ", Bar::none());
    }
}

}  // namespace gantry::bench
