#include "ranks/plan/timeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
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

/// Rows by whose they are; what a rank computes stands before its links.
using Key = std::tuple<unsigned, bool, unsigned>;
Key key_of(const Resource& resource) noexcept {
  return {resource.first, resource.first != resource.second, resource.second};
}

bool is_shown(const PlanStep& step, const TimelineOptions& options) {
  const Resource resource = resource_of(step);
  return sign_of(step.verb) != 0 &&
         (!options.rank || resource.first == *options.rank || resource.second == *options.rank);
}

std::string name_of(const Key& key) {
  const auto [rank, is_link, peer] = key;
  return is_link ? fmt::format("{} to {}", rank, peer) : fmt::format("rank {}", rank);
}

}  // namespace

std::string timeline_text(const Plan& plan, const Simulated& times,
                          const TimelineOptions& options) {
  std::set<Key> keys;
  for (const PlanStep& step : plan.steps)
    if (is_shown(step, options)) keys.insert(key_of(resource_of(step)));
  std::map<Key, Row> rows;
  for (const Key& key : keys)
    if (rows.size() < options.most_rows) rows.try_emplace(key, options.columns);
  const double scale = times.seconds > 0 ? static_cast<double>(options.columns) / times.seconds : 0;
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    const PlanStep& step = plan.steps[i];
    const auto row = rows.find(key_of(resource_of(step)));
    if (row == rows.end() || !is_shown(step, options)) continue;
    row->second.add(sign_of(step.verb), times.steps[i].begin_s * scale,
                    times.steps[i].end_s * scale);
  }
  std::string text;
  for (const auto& [key, row] : rows)
    text += fmt::format("{:>12} |{}|\n", name_of(key), row.text());
  if (keys.size() > rows.size())
    text +=
        fmt::format("{} more rows; --rank shows those of one rank\n", keys.size() - rows.size());
  return text;
}

}  // namespace gantry::cli
