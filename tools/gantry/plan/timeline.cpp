#include "plan/timeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

namespace gantry::cli {
namespace {

char sign_of(PlanVerb verb) noexcept {
  switch (verb) {
    case PlanVerb::gemm:
      return '#';
    case PlanVerb::reduce:
      return '+';
    case PlanVerb::copy:
      return 'c';
    case PlanVerb::fill:
      return '0';
    case PlanVerb::put:
      return '>';
    case PlanVerb::get:
      return '<';
    case PlanVerb::signal:
    case PlanVerb::barrier:
      break;
  }
  return 0;
}

/// From whom to whom; of what a rank computes both are itself.
using Resource = std::pair<unsigned, unsigned>;

Resource resource_of(const PlanStep& step) noexcept {
  if (step.verb == PlanVerb::put) return {step.rank, step.to.rank};
  if (step.verb == PlanVerb::get) return {step.from.rank, step.rank};
  return {step.rank, step.rank};
}

/// One line of the picture: how much of each column each sign takes.
class Row {
 public:
  explicit Row(std::size_t columns) : shares_(columns) {}

  /// Times in columns.
  void add(char sign, double begin, double end) {
    const auto last = static_cast<double>(shares_.size());
    for (double at = begin; at < std::min(end, last);) {
      const auto column = static_cast<std::size_t>(at);
      const double next = std::min(end, static_cast<double>(column + 1));
      shares_[column][sign] += next - at;
      at = next;
    }
  }
  [[nodiscard]] std::string text() const {
    constexpr double kHalf = 0.5;
    std::string line;
    for (const auto& shares : shares_) {
      double busy = 0;
      char most = '.';
      double share = 0;
      for (const auto& [sign, part] : shares) {
        busy += part;
        if (part > share) share = part, most = sign;
      }
      line += busy >= kHalf ? most : '.';
    }
    return line;
  }

 private:
  std::vector<std::map<char, double>> shares_;
};

}  // namespace

std::string timeline_text(const Plan& plan, const Simulated& times,
                          const TimelineOptions& options) {
  std::map<std::pair<unsigned, Resource>, Row> rows;  // by whose row it is
  const double scale = times.seconds > 0 ? static_cast<double>(options.columns) / times.seconds : 0;
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    const char sign = sign_of(plan.steps[i].verb);
    const Resource resource = resource_of(plan.steps[i]);
    const bool is_asked =
        !options.rank || resource.first == *options.rank || resource.second == *options.rank;
    if (sign == 0 || !is_asked) continue;
    rows.try_emplace(
            {resource.first, {resource.first == resource.second ? 0u : 1u, resource.second}},
            options.columns)
        .first->second.add(sign, times.steps[i].begin_s * scale, times.steps[i].end_s * scale);
  }
  std::string text;
  std::size_t shown = 0;
  for (const auto& [whose, row] : rows) {
    if (shown++ == options.most_rows) break;
    const bool computes = whose.second.first == 0;
    text += fmt::format("{:>12} |{}|\n",
                        computes ? fmt::format("rank {}", whose.first)
                                 : fmt::format("{} to {}", whose.first, whose.second.second),
                        row.text());
  }
  if (rows.size() > options.most_rows)
    text += fmt::format("{} more rows; --rank shows those of one rank\n",
                        rows.size() - options.most_rows);
  return text;
}

}  // namespace gantry::cli
