#include "validation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "contest.hpp"

namespace gantry::bench {
namespace {

double at_tenth(PredictionErrors errors, std::size_t tenths) {
  std::ranges::sort(errors);
  return errors[std::min(errors.size() * tenths / 10, errors.size() - 1)];
}

}  // namespace

double median_error(PredictionErrors errors) {
  return at_tenth(std::move(errors), 5);
}

double error_90(PredictionErrors errors) {
  return at_tenth(std::move(errors), 9);
}

PredictionErrors errors_of(const Report& report, const std::string& case_name) {
  PredictionErrors errors;
  for (const Row& row : report.rows) {
    const bool is_copy = row.subject == kChosen || row.subject == kByCosts;
    if (row.case_name != case_name || row.metric != kLatencyP50 || is_copy) continue;
    const Row* const predicted = report.find(case_name, row.subject, kPredicted);
    if (predicted == nullptr) continue;
    errors.push_back(std::abs(predicted->summary.value / row.summary.value - 1));
  }
  return errors;
}

std::optional<std::string> why_withheld(const std::map<unsigned, PredictionErrors>& by_ranks) {
  for (const unsigned ranks : {2u, 3u, 4u}) {
    const auto found = by_ranks.find(ranks);
    if (found == by_ranks.end() || found->second.empty())
      return fmt::format("no group of {} ranks was measured in this call", ranks);
    const double median = median_error(found->second);
    const double most = error_90(found->second);
    if (!(median <= kMostMedianError) || !(most <= kMostError90))
      return fmt::format(
          "predictions for {} ranks were off by {:.2f} on the median and {:.2f} at the 90th "
          "percentile, of {:.2f} and {:.2f} that are allowed",
          ranks, median, most, kMostMedianError, kMostError90);
  }
  return {};
}

}  // namespace gantry::bench
