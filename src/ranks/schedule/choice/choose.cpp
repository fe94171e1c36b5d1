#include "ranks/schedule/choice/rules.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <tuple>

#include "core/base/result.hpp"
#include "core/base/text_lines.hpp"
#include "ranks/schedule/cost/costs.hpp"
#include "ranks/schedule/plan.hpp"

namespace gantry {
namespace {

constexpr double kBitsOfAByte = 8;

bool is_ring(const Schedule& schedule) noexcept {
  return schedule.pattern == SchedulePattern::ring;
}
bool is_serial(const Schedule& schedule) noexcept {
  return schedule.pattern == SchedulePattern::serial;
}
bool is_deep(const Schedule& schedule) noexcept {
  return schedule.shape == ScheduleShape::depth;
}
bool by_step(const Schedule& schedule) noexcept {
  return schedule.grain == ScheduleGrain::per_step;
}
bool starts_even(const Schedule& schedule) noexcept {
  return schedule.start == ScheduleStart::even;
}

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

class Chooser {
 public:
  Chooser(const OverlapOperator& op, const ScheduleCosts& costs, const ChoiceOptions& options)
      : op_(op), costs_(costs), options_(options) {
    choice_.is_simulated = !options.rules_only && options.most_simulated > 0;
  }

  Result<Choice> choose() {
    GANTRY_TRY(check_costs(costs_));
    GANTRY_ASSIGN(OperatorSplit split, OperatorSplit::of(op_, {}));
    const Estimator estimator(split, costs_);
    GANTRY_ASSIGN(choice_.candidates, candidates_of(split, estimator, options_));
    space_ = choice_.candidates.size();
    choice_.serial_s = estimator.seconds_of_schedule({});
    by_estimate_ = open_candidates();
    if (choice_.is_simulated) {
      GANTRY_TRY(simulate_serial());
      GANTRY_TRY(simulate_nearest());
    }
    GANTRY_TRY(decide());
    return std::move(choice_);
  }

 private:
  /// Those that no rule left out, the shortest estimate first. If rules leave nothing, of what the
  /// constraints allow, all are open.
  std::vector<ChoiceCandidate*> open_candidates() {
    std::vector<ChoiceCandidate*> open;
    for (ChoiceCandidate& one : choice_.candidates)
      if (one.pruned_by.empty()) open.push_back(&one);
    if (open.empty()) {
      for (ChoiceCandidate& one : choice_.candidates) {
        one.pruned_by = {};
        open.push_back(&one);
      }
    }
    // Of equals the first: they are elements of one vector. (libstdc++ 12's stable_sort() calls
    // what C++17 deprecated.)
    std::ranges::sort(open, [](const auto* one, const auto* other) {
      if (is_better(one->schedule, one->estimated_s, other->schedule, other->estimated_s))
        return true;
      return !is_better(other->schedule, other->estimated_s, one->schedule, one->estimated_s) &&
             one < other;
    });
    return open;
  }

  // Others are compared with it, even where it cannot be proved.
  Result<void> simulate_serial() {
    auto plan = make_plan(op_, {});
    if (!plan && plan.error().code == Code::too_large) plan = draft_plan(op_, {});
    if (!plan) return tl::unexpected(plan.error());
    GANTRY_ASSIGN(serial_, simulate(*plan, costs_));
    choice_.serial_s = serial_.seconds;
    return {};
  }
  Result<void> simulate_nearest() {
    for (ChoiceCandidate* one : by_estimate_) {
      const bool is_serial = one->schedule == Schedule{};
      if (simulated_ >= options_.most_simulated && !is_serial) {
        one->pruned_by = "estimate";
        continue;
      }
      const auto plan = make_plan(op_, one->schedule);
      if (!plan && plan.error().code == Code::too_large) {
        one->pruned_by = "too-large";
        too_large_ = plan.error();
        continue;
      }
      if (!plan) return tl::unexpected(plan.error());
      Simulated times = serial_;
      if (!is_serial) {
        GANTRY_ASSIGN(times, simulate(*plan, costs_));
        ++simulated_;
      }
      one->predicted_s = times.seconds;
      one->losses = losses_of(times, serial_);
    }
    return {};
  }

  [[nodiscard]] double seconds_of_candidate(const ChoiceCandidate& one) const {
    return choice_.is_simulated ? one.predicted_s : one.estimated_s;
  }

  Result<void> decide() {
    const ChoiceCandidate* best = nullptr;
    const ChoiceCandidate* serial = nullptr;
    for (const ChoiceCandidate& one : choice_.candidates) {
      if (!one.pruned_by.empty()) continue;
      if (one.schedule == Schedule{}) serial = &one;
      if (best == nullptr || is_better(one.schedule, seconds_of_candidate(one), best->schedule,
                                       seconds_of_candidate(*best)))
        best = &one;
    }
    if (best == nullptr)
      return fail(too_large_.code,
                  fmt::format("{} ranks: no schedule makes a plan that can be proved: {}",
                              op_.ranks, too_large_.message),
                  "ask for fewer ranks; a search says what such a plan would take");
    const double gain = 1 - seconds_of_candidate(*best) / std::max(choice_.serial_s, 1e-300);
    const bool is_serial = serial != nullptr && (best == serial || gain < options_.least_gain);
    if (is_serial) best = serial;
    choice_.schedule = best->schedule;
    choice_.predicted_s = seconds_of_candidate(*best);
    say_why(is_serial, gain);
    return {};
  }
  void say_why(bool is_serial, double gain) {
    const std::string how = choice_.is_simulated
                                ? fmt::format("{} schedules simulated, of {} that rules left of {}",
                                              simulated_ + 1, by_estimate_.size(), space_)
                                : fmt::format("estimates of {} schedules that rules left of {}",
                                              by_estimate_.size(), space_);
    if (!is_serial) {
      choice_.decided = fmt::format("{}: {:.2f} of serial's time; {}", to_string(choice_.schedule),
                                    1 - gain, how);
      return;
    }
    if (by_estimate_.size() > 1) {
      choice_.decided =
          fmt::format("serial: the best of the others gains {:.1f} %, less than {:.1f} %; {}",
                      std::max(0.0, gain) * 100, options_.least_gain * 100, how);
      return;
    }
    std::string_view rule = "none is different";
    for (const ChoiceCandidate& one : choice_.candidates)
      if (!one.pruned_by.empty() && one.schedule.pattern != SchedulePattern::serial) {
        rule = one.pruned_by;
        break;
      }
    choice_.decided = fmt::format("serial: {}", rule);
  }

  const OverlapOperator& op_;
  const ScheduleCosts& costs_;
  const ChoiceOptions& options_;
  Choice choice_;
  std::vector<ChoiceCandidate*> by_estimate_;
  Simulated serial_;
  unsigned simulated_ = 0;
  Error too_large_;  // of the last one that was
  std::size_t space_ = 0;
};

/// Goes along one axis after the other from the best so far.
class Searcher {
 public:
  Searcher(const OverlapOperator& op, const ScheduleCosts& costs,
           const ScheduleConstraints& constraints)
      : op_(op), costs_(costs), constraints_(constraints) {}

  Result<Searched> search() {
    constexpr std::size_t kShare = 10;
    GANTRY_ASSIGN(const Choice first,
                  choose(op_, costs_, {.constraints = constraints_, .rules_only = true}));
    GANTRY_ASSIGN(const OperatorSplit split, OperatorSplit::of(op_, {}));
    result_.space = points_of(split).size();
    most_ = std::max(kFewest, result_.space / kShare);
    GANTRY_TRY(go_from(first, split));
    result_.is_provable = !seen_.empty();
    if (seen_.empty()) GANTRY_TRY(go_from(first, split));
    if (seen_.empty()) return tl::unexpected(too_large_);
    result_.evaluated = static_cast<unsigned>(seen_.size());
    return result_;
  }

 private:
  Result<void> go_from(const Choice& first, const OperatorSplit& split) {
    GANTRY_TRY(evaluate({}));
    GANTRY_TRY(evaluate(first.schedule));
    GANTRY_TRY(evaluate_nearest(first));
    if (seen_.empty()) return {};
    Schedule from;
    do {
      from = result_.schedule;
      GANTRY_TRY(go_along_axes(split));
    } while (from != result_.schedule && !is_spent());
    return {};
  }
  [[nodiscard]] bool is_spent() const noexcept {
    return seen_.size() >= most_ || (seen_.size() >= kFewest && steps_ >= kMostStepsInAll);
  }

  /// The nearest by estimate of each pattern and shape: a start in each part of the space.
  Result<void> evaluate_nearest(const Choice& first) {
    for (const auto pattern : {SchedulePattern::ring, SchedulePattern::at_once})
      for (const auto shape : {ScheduleShape::rows, ScheduleShape::depth}) {
        const ChoiceCandidate* best = nullptr;
        for (const ChoiceCandidate& one : first.candidates)
          if (one.pruned_by.empty() && one.schedule.pattern == pattern &&
              one.schedule.shape == shape &&
              (best == nullptr || one.estimated_s < best->estimated_s))
            best = &one;
        if (best != nullptr) GANTRY_TRY(evaluate(best->schedule));
      }
    return {};
  }
  Result<void> go_along_axes(const OperatorSplit& split) {
    for (const Schedule& next : neighbours(result_.schedule)) {
      OperatorSplit cut = split;
      cut.cut(next);
      GANTRY_TRY(evaluate(cut.schedule()));
    }
    return {};
  }
  /// Each axis changed by itself, the nearest chunks first.
  [[nodiscard]] std::vector<Schedule> neighbours(const Schedule& at) const {
    std::vector<Schedule> all;
    const auto with = [&](auto change) {
      Schedule one = at;
      if (one.pattern == SchedulePattern::serial) one.pattern = SchedulePattern::at_once;
      change(one);
      all.push_back(one);
    };
    for (const unsigned chunks : {at.chunks * 2, at.chunks / 2, at.chunks + 1, at.chunks - 1})
      if (chunks >= 1 && (chunks <= kMost || chunks == op_.ranks))
        with([&](Schedule& one) { one.chunks = chunks; });
    with([](Schedule& one) { one.grain = other(one.grain); });
    with([](Schedule& one) { one.start = other(one.start); });
    with([](Schedule& one) { one.shape = other(one.shape); });
    with([](Schedule& one) {
      one.pattern =
          one.pattern == SchedulePattern::ring ? SchedulePattern::at_once : SchedulePattern::ring;
    });
    with([](Schedule& one) { one.path = other(one.path); });
    return all;
  }
  /// Of an axis with two values.
  template <class Axis>
  static Axis other(Axis value) {
    return value == Axis{} ? Axis{1} : Axis{};
  }

  Result<void> evaluate(const Schedule& schedule) {
    if (seen_.contains(schedule) || is_spent()) return {};
    GANTRY_ASSIGN(OperatorSplit split, OperatorSplit::of(op_, schedule));
    const bool is_allowed = allows(constraints_, split);
    if (!is_allowed) return {};
    const auto plan = result_.is_provable ? make_plan(op_, schedule) : draft_plan(op_, schedule);
    if (!plan && plan.error().code == Code::too_large)
      return too_large_ = plan.error(), Result<void>{};
    if (!plan) return tl::unexpected(plan.error());
    steps_ += plan->steps.size();
    GANTRY_ASSIGN(const Simulated times, simulate(*plan, costs_));
    const bool is_first = seen_.empty();
    seen_.emplace(schedule, times.seconds);
    const bool is_shorter =
        times.seconds < result_.predicted_s ||
        (times.seconds == result_.predicted_s && is_simpler(schedule, result_.schedule));
    if (!is_first && !is_shorter) return {};
    result_.schedule = schedule;
    result_.predicted_s = times.seconds;
    return {};
  }

  static constexpr unsigned kMost = 16;  // chunks of the space
  static constexpr std::size_t kFewest = 4;
  static constexpr std::size_t kMostStepsInAll = std::size_t{1} << 24;  // seconds

  const OverlapOperator& op_;
  const ScheduleCosts& costs_;
  const ScheduleConstraints& constraints_;
  Searched result_;
  std::size_t most_ = 0;
  std::size_t steps_ = 0;  // simulated
  Error too_large_;        // of the last plan that was
  std::map<Schedule, double> seen_;
};

}  // namespace

// ---- estimates --------------------------------------------------------------------------------

Estimator::Estimator(const OperatorSplit& split, const ScheduleCosts& costs) noexcept
    : costs_(costs),
      ranks_(split.op().ranks),
      block_(static_cast<double>(split.largest_block())),
      depth_(static_cast<double>(split.depth_of(split.op().ranks - 1).size)),
      moved_(static_cast<double>(split.moved_columns())),
      bytes_(split.op().type.bits / kBitsOfAByte),
      comes_in_(split.comes_in()),
      is_exchange_(split.op().kind == OverlapKind::all_to_all_gemm) {
  std::int64_t rows = 0;
  for (unsigned rank = 0; rank < split.op().ranks; ++rank)
    rows = std::max(rows, split.rows_at(rank));
  rows_ = static_cast<double>(rows);
  columns_ = static_cast<double>(split.columns_of(split.op().ranks - 1).size);
}

double Estimator::link_start_s() const noexcept {
  return costs_.link.start_ns / kNsPerS;
}

double Estimator::product(double m, double n, double k, double adding) const noexcept {
  const auto bytes = static_cast<Bytes>(bytes_);
  const double once = seconds_of_product(costs_.product, m, n, k, false, bytes);
  if (adding == 0) return once;
  return once + adding * (seconds_of_product(costs_.product, m, n, k, true, bytes) - once);
}

double Estimator::whole_product_s() const noexcept {
  return product(rows_, columns_, depth_, 0);
}

double Estimator::steps_of(const Schedule& schedule) const noexcept {
  const double size = is_deep(schedule) ? moved_ : block_;
  return std::max(1.0, std::min(static_cast<double>(schedule.chunks), size));
}

double Estimator::piece_s(const Schedule& schedule) const noexcept {
  return block_ * moved_ * bytes_ / steps_of(schedule) / costs_.link.bytes_per_s;
}

double Estimator::pieces_s(const Schedule& schedule, double blocks,
                           double together) const noexcept {
  if (blocks <= 0) return 0;
  const double steps = steps_of(schedule);
  const double rows = block_ * together;
  const double count = blocks / together * steps;
  if (!is_deep(schedule)) return count * product(rows / steps, columns_, depth_, 0);
  if (!comes_in_) return count * product(rows, columns_ / steps, depth_, 0);
  return count * product(rows, columns_, depth_ / steps, (steps - 1) / steps);
}

double Estimator::products_s(const Schedule& schedule) const noexcept {
  if (is_serial(schedule)) return whole_product_s();
  const double own = product(block_, columns_, depth_, 0);
  const double peers = ranks_ - 1;
  if (is_ring(schedule)) {
    if (by_step(schedule)) return ranks_ * own;
    return (starts_even(schedule) ? pieces_s(schedule, 1, 1) : own) + pieces_s(schedule, peers, 1);
  }
  if (!by_step(schedule))
    return (starts_even(schedule) ? pieces_s(schedule, 1, 1) : own) + pieces_s(schedule, peers, 1);
  if (starts_even(schedule)) return pieces_s(schedule, ranks_, ranks_);
  // Columns of the peers' rows are two products, above and below the own ones.
  return own + pieces_s(schedule, peers, is_deep(schedule) ? peers / 2 : peers);
}

double Estimator::copies_s(const Schedule& schedule) const noexcept {
  const double own = block_;
  const double peers = rows_ - own;
  const auto copy = [&](double elements, double count) {
    return count * costs_.copy.start_ns / kNsPerS + elements * bytes_ / costs_.copy.bytes_per_s;
  };
  double seconds = 0;
  const bool is_staged =
      schedule.pattern == SchedulePattern::at_once && !is_deep(schedule) && by_step(schedule);
  if (is_staged) {
    const double rows = starts_even(schedule) ? rows_ : peers;
    seconds += copy(rows * (comes_in_ ? columns_ : depth_), steps_of(schedule) * ranks_);
    if (starts_even(schedule)) seconds += copy(own * (comes_in_ ? depth_ : columns_), 1);
  }
  if (!comes_in_) {
    const double sums = (ranks_ - 1) * steps_of(schedule);
    seconds += sums * costs_.reduce.start_ns / kNsPerS +
               (ranks_ - 1) * block_ * columns_ * bytes_ / costs_.reduce.bytes_per_s;
  }
  if (is_exchange_ && is_serial(schedule)) seconds += copy(own * depth_, 1);
  return seconds;
}

double Estimator::transfer_s() const noexcept {
  return links_s({});
}

double Estimator::links_s(const Schedule& schedule) const noexcept {
  const double bytes = block_ * moved_ * bytes_;
  const double starts = steps_of(schedule) * link_start_s();
  const double peers = ranks_ - 1;
  const double link =
      std::max(bytes / costs_.link.bytes_per_s, steps_of(schedule) * cpu_of_piece_s(schedule));
  if (costs_.topology == Topology::mesh)
    return is_ring(schedule) ? peers * (starts + link) : starts + link;
  const double port = bytes / costs_.port_bytes_per_s;
  if (is_ring(schedule)) return peers * (starts + std::max(link, port));
  return starts + std::max(link, peers * port);
}

// Columns lie apart at both ends.
double Estimator::cpu_of_piece_s(const Schedule& schedule) const noexcept {
  const double steps = steps_of(schedule);
  const double rows = is_deep(schedule) && steps > 1 ? block_ : 0;
  return cpu_s_of_transfer(costs_, block_ * moved_ * bytes_ / steps, rows);
}

// Products and transfers of all ranks on CPUs that they share.
double Estimator::on_cpus(const Schedule& schedule, double products,
                          double seconds) const noexcept {
  if (costs_.cpus <= 0) return seconds;
  const double pieces = ranks_ * (ranks_ - 1) * steps_of(schedule);
  const double work = ranks_ * products + 2 * pieces * cpu_of_piece_s(schedule);
  return std::max(seconds, work / costs_.cpus);
}

double Estimator::seconds_of_schedule(const Schedule& schedule) const noexcept {
  if (ranks_ == 1 || block_ == 0) return whole_product_s();
  const double products = products_s(schedule);
  const double copies = copies_s(schedule);
  const double links = links_s(schedule);
  if (is_serial(schedule)) {
    const double share = costs_.cpus > 0 ? std::max(1.0, ranks_ / costs_.cpus) : 1;
    return on_cpus(schedule, products, products * share + copies + links);
  }
  const double beside = std::min(products, links) * (costs_.beside_transfers - 1);
  const double steps = steps_of(schedule);
  // What comes last is multiplied behind the last transfer, or leaves behind the last product.
  const double last = is_ring(schedule) ? (by_step(schedule) ? 1 : 1 / steps) / ranks_ : 1 / steps;
  const double tail = last * products * (ranks_ - 1) / ranks_;
  const bool waits_first =
      comes_in_ && starts_even(schedule) && by_step(schedule) && !is_ring(schedule);
  const double head = waits_first ? links / steps : comes_in_ ? 0 : links / steps / ranks_;
  return on_cpus(schedule, products,
                 std::max(products + copies + beside + head, links + tail + copies / steps));
}

double Estimator::decomposition(const Schedule& schedule) const noexcept {
  return products_s(schedule) / std::max(whole_product_s(), 1e-300);
}

// ---- rules ------------------------------------------------------------------------------------

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

Result<Choice> choose(const OverlapOperator& op, const ScheduleCosts& costs,
                      const ChoiceOptions& options) {
  return guarded([&] { return Chooser(op, costs, options).choose(); });
}

Result<Searched> search(const OverlapOperator& op, const ScheduleCosts& costs,
                        const ScheduleConstraints& constraints) {
  return guarded([&] { return Searcher(op, costs, constraints).search(); });
}

}  // namespace gantry
