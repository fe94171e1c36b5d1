#include "pipeline/run/device_split.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace gantry {

std::vector<StepRange> split_by_rate(StepRange steps, std::span<const double> rates,
                                     std::uint64_t grain) {
  const double all = std::accumulate(rates.begin(), rates.end(), 0.0);
  const auto equal = 1.0 / static_cast<double>(rates.size());
  std::vector<StepRange> ranges;
  double share = 0;
  for (std::uint64_t first = steps.first; const double rate : rates) {
    share += all > 0 ? rate / all : equal;
    auto last = steps.first +
                static_cast<std::uint64_t>(std::round(static_cast<double>(steps.count()) * share));
    if (grain > 1 && steps.count() / grain > rates.size()) last -= last % grain;
    if (ranges.size() + 1 == rates.size()) last = steps.last;
    last = std::clamp(last, first, steps.last);
    ranges.push_back({first, last});
    first = last;
  }
  return ranges;
}

}  // namespace gantry
