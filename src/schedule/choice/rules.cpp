#include "schedule/choice/rules.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <tuple>

#include "base/result.hpp"
#include "schedule/quote.hpp"
#include "schedule/space/space.hpp"

namespace gantry {
namespace {

/// Even if all of the shorter were hidden, serial would lose no more than what is not worth it.
bool hides_nothing(const Estimator& estimator, const ChoiceOptions& options, const Schedule&) {
  const double product = estimator.whole_product_s();
  const double transfer = estimator.transfer_s();
  return std::min(product, transfer) < options.least_gain * (product + transfer);
}

bool leaves_links_idle(const Estimator& estimator, const ChoiceOptions&, const Schedule& one) {
  return one.pattern == SchedulePattern::ring && estimator.ranks() > 2 &&
         estimator.costs().topology == Topology::mesh;
}

bool asks_for_words(const Estimator&, const ChoiceOptions&, const Schedule& one) {
  return one.path == SchedulePath::get;
}

bool lies_between(const Estimator& estimator, const ChoiceOptions&, const Schedule& one) {
  return !std::has_single_bit(one.chunks) && one.chunks != estimator.ranks();
}

bool is_all_start(const Estimator& estimator, const ChoiceOptions&, const Schedule& one) {
  return one.chunks > 1 && estimator.piece_s(one) < estimator.link_start_s();
}

bool is_thin(const Estimator& estimator, const ChoiceOptions&, const Schedule& one) {
  constexpr double kHalfSpeed = 2;
  return estimator.decomposition(one) > kHalfSpeed;
}

/// About as many as a simulation takes a tenth of a second for.
bool has_many_steps(const Estimator& estimator, const ChoiceOptions&, const Schedule& one) {
  constexpr std::uint64_t kMany = std::uint64_t{1} << 17;
  return std::uint64_t{estimator.ranks()} * estimator.ranks() * one.chunks > kMany;
}

constexpr std::array kRules = {
    PruningRule{{"nothing-to-hide", "the shorter of product and transfers is not worth hiding"},
                hides_nothing},
    PruningRule{{"ring-on-mesh", "a ring leaves all links of a rank idle but one"},
                leaves_links_idle},
    PruningRule{{"put-only", "a get waits for words that a put does not need"}, asks_for_words},
    PruningRule{{"few-chunks", "counts between powers of two lie between them in time"},
                lies_between},
    PruningRule{{"all-start", "a piece takes less on its link than its start"}, is_all_start},
    PruningRule{{"thin-pieces", "products in such pieces take over twice as long"}, is_thin},
    PruningRule{{"many-steps", "its plan has over 2^17 steps"}, has_many_steps},
};
constexpr auto kPublicRules = [] {
  std::array<ChoiceRule, kRules.size()> rules{};
  for (std::size_t i = 0; i < rules.size(); ++i) rules[i] = kRules[i].rule;
  return rules;
}();

Result<std::uint32_t> asked_rules(const ChoiceOptions& options) {
  std::uint32_t asked = (1u << kRules.size()) - 1;
  for (const std::string& name : options.without) {
    const auto rule =
        std::ranges::find_if(kRules, [&](const auto& one) { return one.rule.name == name; });
    std::string all;
    for (const PruningRule& one : kRules)
      all += fmt::format("{}{}", all.empty() ? "" : ", ", one.rule.name);
    if (rule == kRules.end())
      return fail(Code::invalid_argument, "there is no rule " + quote(name), "one of " + all);
    asked &= ~(1u << (rule - kRules.begin()));
  }
  return asked;
}

/// Why nothing is left.
Error no_candidates(OperatorSplit& split, const ScheduleConstraints& constraints) {
  if (constraints.replicated && split.op().kind != OverlapKind::all_gather_gemm)
    return {Code::invalid_argument, "replicated is for all-gather-gemm only", {}};
  ScheduleConstraints but_memory = constraints;
  but_memory.at_most = ~Bytes{0};
  Bytes least = ~Bytes{0};
  for (const Schedule& schedule : points_of(split)) {
    split.cut(schedule);
    if (allows(but_memory, split)) least = std::min(least, split.memory());
  }
  std::string message = "no schedule keeps to the constraints";
  if (least != ~Bytes{0})
    message += fmt::format(": the least of them needs {} bytes a rank", least);
  return {Code::unsupported, message, "allow more memory, or what must not be split"};
}

}  // namespace

std::span<const ChoiceRule> choice_rules() noexcept {
  return kPublicRules;
}

const PruningRule* rule_against(std::uint32_t asked, const Estimator& estimator,
                                const ChoiceOptions& options, const Schedule& one) {
  if (one.pattern == SchedulePattern::serial && one.path == SchedulePath::put) return nullptr;
  for (std::size_t i = 0; i < kRules.size(); ++i)
    if ((asked >> i & 1) != 0 && kRules[i].prunes(estimator, options, one)) return &kRules[i];
  return nullptr;
}

Result<std::vector<ChoiceCandidate>> candidates_of(OperatorSplit& split, const Estimator& estimator,
                                                   const ChoiceOptions& options) {
  GANTRY_ASSIGN(const std::uint32_t asked, asked_rules(options));
  std::vector<ChoiceCandidate> candidates;
  for (const Schedule& schedule : points_of(split)) {
    split.cut(schedule);
    if (!allows(options.constraints, split)) continue;
    ChoiceCandidate& one = candidates.emplace_back();
    one.schedule = schedule;
    if (const PruningRule* rule = rule_against(asked, estimator, options, schedule))
      one.pruned_by = rule->rule.name;
    else
      one.estimated_s = estimator.seconds_of_schedule(schedule);
  }
  if (!candidates.empty()) return candidates;
  return tl::unexpected(no_candidates(split, options.constraints));
}

bool is_simpler(const Schedule& one, const Schedule& other) noexcept {
  const auto rank = [](const Schedule& schedule) {
    return std::tuple(schedule.pattern, schedule.chunks, schedule.shape, schedule.grain,
                      schedule.start, schedule.path);
  };
  return rank(one) < rank(other);
}

bool is_better(const Schedule& one, double seconds, const Schedule& other, double others) noexcept {
  constexpr double kRounding = 1e-9;
  if (seconds < others * (1 - kRounding)) return true;
  return seconds <= others * (1 + kRounding) && is_simpler(one, other);
}

}  // namespace gantry
