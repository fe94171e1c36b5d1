#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <unordered_map>

#include "core/base/text_lines.hpp"
#include "ranks/schedule/plan.hpp"
#include "ranks/schedule/program/script.hpp"
#include "ranks/schedule/tiles.hpp"

namespace gantry {
namespace collective {
namespace {

// ---- values of expressions -------------------------------------------------------------------

std::string_view sign_of(Op op) noexcept {
  return std::ranges::find(kBinarySigns, op, &BinarySign::op)->sign;
}

bool compare(Op op, Number a, Number b) noexcept {
  switch (op) {
    case Op::below:
      return a < b;
    case Op::at_most:
      return a <= b;
    case Op::above:
      return a > b;
    case Op::at_least:
      return a >= b;
    case Op::equal:
      return a == b;
    default:
      return a != b;
  }
}

/// Evaluates the expressions of a script on the values of its variables.
///   I1  Behind the first failure every value is 0 and no loop goes on; error() tells it.
class Evaluator {
 public:
  /// `predefined`: the values of the variables that every program has. The script and the counts
  /// must outlive it.
  Evaluator(const Script& script, const std::vector<Number>& counts, std::vector<Number> predefined)
      : script_(script), counts_(counts), slots_(std::move(predefined)) {
    slots_.resize(script.slots);
  }

  [[nodiscard]] Number value_of(ExprId id) {
    if (!spend()) return 0;
    const Expr& node = script_.expressions[id];
    switch (node.op) {
      case Op::number:
        return node.value;
      case Op::variable:
        return slots_[node.slot];
      case Op::counts:
      case Op::negative:
      case Op::negation:
        return unary(node);
      case Op::slice:
        return slice(node);
      case Op::call:
        return call(node);
      case Op::sum:
      case Op::least:
      case Op::greatest:
        return over(node);
      default:
        return binary(node);
    }
  }

  [[nodiscard]] Number& slot(std::uint32_t index) noexcept { return slots_[index]; }

  /// Counts a turn of a loop, or whatever else takes time. False: it has failed.
  bool spend(std::size_t work = 1) {
    work_ += work;
    if (work_ > kMostWork)
      fail_with(Code::too_large, fmt::format("it takes more than {} evaluations", kMostWork),
                "expand for fewer ranks or chunks, or loop less");
    return !has_failed();
  }

  [[nodiscard]] bool has_failed() const noexcept { return error_.has_value(); }

  [[nodiscard]] Result<void> result() const {
    if (error_) return tl::unexpected(*error_);
    return {};
  }

 private:
  [[nodiscard]] Number unary(const Expr& node) {
    const Number a = value_of(node.a);
    if (node.op == Op::counts) return count(a);
    return node.op == Op::negation ? Number{a == 0} : arithmetic(Op::subtract, 0, a);
  }

  [[nodiscard]] Number binary(const Expr& node) {
    const Number a = value_of(node.a);
    // What a condition rules out is not evaluated.
    if (node.op == Op::both && a == 0) return 0;
    if (node.op == Op::either && a != 0) return 1;
    const Number b = value_of(node.b);
    if (has_failed()) return 0;
    switch (node.op) {
      case Op::both:
      case Op::either:
        return Number{b != 0};
      case Op::lesser:
        return std::min(a, b);
      case Op::greater:
        return std::max(a, b);
      case Op::add:
      case Op::subtract:
      case Op::multiply:
        return arithmetic(node.op, a, b);
      case Op::divide:
      case Op::modulo:
        return quotient(node.op, a, b);
      default:
        return Number{compare(node.op, a, b)};
    }
  }

  [[nodiscard]] Number arithmetic(Op op, Number a, Number b) {
    Number value = 0;
    const bool overflows = op == Op::add        ? __builtin_add_overflow(a, b, &value)
                           : op == Op::subtract ? __builtin_sub_overflow(a, b, &value)
                                                : __builtin_mul_overflow(a, b, &value);
    if (!overflows) return value;
    return fail_with(Code::invalid_argument,
                     fmt::format("{} {} {} is beyond all numbers", a, sign_of(op), b));
  }

  // Rounded down, so that what is left has the divisor's sign: (r - 1) % ranks is the one before.
  [[nodiscard]] Number quotient(Op op, Number a, Number b) {
    if (b == 0)
      return fail_with(Code::invalid_argument,
                       fmt::format("{} {} 0: division by zero", a, sign_of(op)));
    if (a == std::numeric_limits<Number>::min() && b == -1)
      return op == Op::modulo ? 0 : arithmetic(Op::subtract, 0, a);
    const Number rest = a % b;
    const bool rounds_up = rest != 0 && (rest < 0) != (b < 0);
    if (op == Op::modulo) return rounds_up ? rest + b : rest;
    return a / b - (rounds_up ? 1 : 0);
  }

  [[nodiscard]] Number call(const Expr& node) {
    const Function& function = script_.functions[node.slot];
    std::array<Number, kMostParameters> values{};
    for (std::size_t i = 0; i < function.parameters.size(); ++i)
      values[i] = value_of(script_.arguments[node.a + i]);
    // Functions do not call themselves, so nobody else needs these slots meanwhile.
    for (std::size_t i = 0; i < function.parameters.size(); ++i)
      slots_[function.parameters[i]] = values[i];
    return value_of(function.body);
  }

  [[nodiscard]] Number over(const Expr& node) {
    const Number first = value_of(node.a);
    const Number end = value_of(node.b);
    if (node.op != Op::sum && first >= end && !has_failed())
      return fail_with(Code::invalid_argument,
                       fmt::format("the least or greatest of nothing: {}:{}", first, end));
    Number result = 0;
    for (Number i = first; i < end && spend(); ++i) {
      slots_[node.slot] = i;
      const Number value = value_of(node.c);
      if (node.op == Op::sum)
        result = arithmetic(Op::add, result, value);
      else if (i == first)
        result = value;
      else
        result = node.op == Op::least ? std::min(result, value) : std::max(result, value);
    }
    return result;
  }

  [[nodiscard]] Number count(Number index) {
    if (has_failed()) return 0;
    if (index >= 0 && static_cast<std::size_t>(index) < counts_.size())
      return counts_[static_cast<std::size_t>(index)];
    return fail_with(Code::invalid_argument,
                     fmt::format("counts[{}] where there are {} counts", index, counts_.size()));
  }

  [[nodiscard]] Number slice(const Expr& node) {
    constexpr Number kCountsOfWork = 16;  // so many take as long as a node
    const Number first = value_of(node.a);
    const Number end = value_of(node.b);
    const Number step = node.c == kNoExpr ? 1 : value_of(node.c);
    if (has_failed() || first >= end) return 0;
    if (step < 1)
      return fail_with(Code::invalid_argument, fmt::format("counts[{}:{}:{}]", first, end, step),
                       "the step is 1 or more");
    Number sum = count(first);
    if (has_failed()) return 0;
    const Number more = (end - 1 - first) / step;
    static_cast<void>(count(first + more * step));  // of all the furthest
    if (!spend(static_cast<std::size_t>(more / kCountsOfWork))) return 0;
    for (Number i = 1; i <= more; ++i)
      sum = arithmetic(Op::add, sum, counts_[static_cast<std::size_t>(first + i * step)]);
    return sum;
  }

  Number fail_with(Code code, std::string what, std::string hint = {}) {
    if (!error_) error_ = Error{code, std::move(what), std::move(hint)};
    return 0;
  }

  const Script& script_;
  const std::vector<Number>& counts_;
  std::vector<Number> slots_;
  std::size_t work_ = 0;
  std::optional<Error> error_;
};

// ---- plans -----------------------------------------------------------------------------------

std::vector<Number> predefined(const Script& script, const CollectiveShape& shape) {
  const auto variant = std::ranges::find(script.variants, shape.variant) - script.variants.begin();
  std::vector<Number> values(kPredefined);
  values.at(kRanks) = shape.ranks;
  values.at(kSize) = shape.size;
  values.at(kChunks) = shape.chunks;
  values.at(kRoot) = shape.root;
  values.at(kVariant) = shape.variant.empty() ? 0 : variant;
  return values;
}

/// A label with its indexes.
struct LabelKey {
  std::uint32_t label = 0;
  std::array<Number, kMostIndexes> index{};
  friend bool operator==(const LabelKey&, const LabelKey&) = default;
};

/// Runs a script for one shape. Used once.
class Expander {
 public:
  /// Both must outlive it.
  Expander(const Script& script, const CollectiveShape& shape)
      : script_(script), shape_(shape), values_(script, shape.counts, predefined(script, shape)) {
    plan_.ranks = shape.ranks;
  }

  /// Errors: `invalid_argument`, `too_large`: "line 7: what".
  [[nodiscard]] Result<Plan> run() {
    auto done = run_block(script_.statements);
    if (done) done = resolve_pending();
    if (!done) return prefixed(std::move(done).error(), "line {}", line_);
    if (!has_counts_ && !shape_.counts.empty()) return wrong("it takes no counts");
    return std::move(plan_);
  }

  /// An error of the plan's checks, "step 3 (...): what", with the line that made the step in
  /// front.
  [[nodiscard]] Error with_line(Error error) const {
    constexpr std::string_view kStep = "step ";  // as name_of_step() says it
    std::size_t step = lines_.size();
    if (!error.message.starts_with(kStep)) return error;
    const char* const end = error.message.data() + error.message.size();
    std::from_chars(error.message.data() + kStep.size(), end, step);
    if (step < lines_.size())
      error.message = fmt::format("line {}: {}", lines_[step], error.message);
    return error;
  }

 private:
  struct HashOfKey {
    std::size_t operator()(const LabelKey& key) const noexcept {
      constexpr std::uint64_t kFactor =
          0x9E3779B97F4A7C15u;  // spreads neighbours (Fibonacci hashing)
      std::uint64_t hash = key.label;
      for (const Number index : key.index) {
        hash = (hash ^ static_cast<std::uint64_t>(index)) * kFactor;
        hash ^= hash >> 29;
      }
      return hash;
    }
  };
  /// A step that waits for a label which had not been reached.
  struct Pending {
    unsigned step = 0;
    unsigned line = 0;
    LabelKey label;
  };

  // ---- statements ------------------------------------------------------------------------------

  [[nodiscard]] Result<void> run_block(const std::vector<Statement>& block) {
    for (const Statement& statement : block) {
      line_ = statement.line;
      values_.spend();
      GANTRY_TRY(run_one(statement));
    }
    return {};
  }

  [[nodiscard]] Result<void> run_one(const Statement& statement) {
    switch (statement.kind) {
      case StatementKind::let:
        values_.slot(statement.index) = values_.value_of(statement.a);
        return values_.result();
      case StatementKind::loop:
        return run_loop(statement);
      case StatementKind::branch: {
        GANTRY_ASSIGN(const Number holds, number(statement.a));
        return run_block(holds != 0 ? statement.body : statement.otherwise);
      }
      case StatementKind::require: {
        GANTRY_ASSIGN(const Number holds, number(statement.a));
        if (holds != 0) return {};
        return wrong(fmt::format("it requires what does not hold for {} ranks and size {}",
                                 shape_.ranks, shape_.size));
      }
      case StatementKind::lanes:
        return set_lanes(statement.a);
      case StatementKind::counts:
        return check_counts(statement.a);
      case StatementKind::tensor:
        return add_tensor(script_.tensors[statement.index]);
      case StatementKind::given:
        return add_value(script_.values[statement.index], plan_.given);
      case StatementKind::wanted:
        return add_value(script_.values[statement.index], plan_.wanted);
      case StatementKind::step:
        break;
    }
    return add_step(script_.steps[statement.index]);
  }

  [[nodiscard]] Result<void> run_loop(const Statement& statement) {
    GANTRY_ASSIGN(const Number first, number(statement.a));
    GANTRY_ASSIGN(const Number end, number(statement.b));
    for (Number i = first; i < end; ++i) {
      line_ = statement.line;
      values_.spend();
      GANTRY_TRY(values_.result());
      values_.slot(statement.index) = i;
      GANTRY_TRY(run_block(statement.body));
    }
    return {};
  }

  /// Calls `what` for each value of the variable, or once if there is none.
  template <class What>
  Result<void> each(const Over& over, What what) {
    if (!over.span.is_said()) return what();
    GANTRY_ASSIGN(const Number first, number(over.span.first));
    GANTRY_ASSIGN(const Number end, number(over.span.end));
    for (Number i = first; i < end; ++i) {
      values_.spend();
      values_.slot(over.slot) = i;
      GANTRY_TRY(values_.result());
      GANTRY_TRY(what());
    }
    return {};
  }

  [[nodiscard]] Result<void> set_lanes(ExprId lanes) {
    GANTRY_ASSIGN(plan_.lanes, bounded(lanes, "lanes", 1, kMostLanes));
    return {};
  }

  [[nodiscard]] Result<void> check_counts(ExprId counts) {
    GANTRY_ASSIGN(const Number wanted, number(counts));
    has_counts_ = true;
    if (wanted >= 0 && static_cast<std::size_t>(wanted) == shape_.counts.size()) return {};
    return wrong(fmt::format("{} counts where it takes {}", shape_.counts.size(), wanted));
  }

  // ---- tensors, places, values -----------------------------------------------------------------

  [[nodiscard]] Result<void> add_tensor(const TensorForm& form) {
    PlanTensor tensor{form.name, 0, 0, shape_.type};
    GANTRY_ASSIGN(tensor.rows, number(form.rows));
    GANTRY_ASSIGN(tensor.cols, number(form.cols));
    if (std::min(tensor.rows, tensor.cols) < 0 || std::max(tensor.rows, tensor.cols) > kMostRows)
      return wrong(fmt::format("tensor {} of {} x {}", form.name, tensor.rows, tensor.cols));
    plan_.tensors.push_back(std::move(tensor));
    return {};
  }

  [[nodiscard]] Result<void> add_value(const ValueForm& form, std::vector<PlanValue>& into) {
    PlanValue value;
    GANTRY_ASSIGN(value.place, place_of(form.place));
    if (is_empty(value.place.rect)) return {};
    if (++terms_ > kMostTerms)
      return fail(Code::too_large, fmt::format("more than {} values", kMostTerms));
    for (const TermForm& term : form.sum)
      GANTRY_TRY(each(term.over, [&] { return add_terms_of(term, value); }));
    into.push_back(std::move(value));
    return {};
  }

  [[nodiscard]] Result<void> add_terms_of(const TermForm& form, PlanValue& value) {
    if (++terms_ > kMostTerms)
      return fail(Code::too_large, fmt::format("more than {} terms of values", kMostTerms));
    GANTRY_ASSIGN(PlanTerm term, term_of(form));
    value.sum.push_back(std::move(term));
    return {};
  }

  [[nodiscard]] Result<PlanTerm> term_of(const TermForm& form) {
    PlanTerm term;
    GANTRY_ASSIGN(term.left, matrix_of(form.left));
    if (!form.right.name.empty()) {
      GANTRY_ASSIGN(term.right, matrix_of(form.right));
      GANTRY_ASSIGN(term.first, number(form.sum.first));
      GANTRY_ASSIGN(term.last, number(form.sum.end));
    }
    if (form.row == kNoExpr) return term;
    GANTRY_ASSIGN(term.row, number(form.row));
    GANTRY_ASSIGN(term.col, number(form.col));
    return term;
  }

  // X[1,2] is the matrix X_1_2.
  [[nodiscard]] Result<std::string> matrix_of(const IndexedName& name) {
    std::string text = name.name;
    for (const ExprId id : name.index) {
      GANTRY_ASSIGN(const Number index, number(id));
      if (index < 0) return wrong(fmt::format("{}[{}] names no matrix", name.name, index));
      text += fmt::format("_{}", index);
    }
    return text;
  }

  // ---- steps -----------------------------------------------------------------------------------

  [[nodiscard]] Result<void> add_step(const StepForm& form) {
    GANTRY_ASSIGN(PlanStep step, step_of(form));
    const bool moves = step.verb <= PlanVerb::fill;
    const bool is_nothing = moves && is_empty(step.to.rect);
    if (is_nothing && step.verb != PlanVerb::fill && step.verb != PlanVerb::gemm &&
        !is_empty(step.from.rect))
      return wrong("it moves something to an empty place");
    if (form.has_label) {
      GANTRY_ASSIGN(const LabelKey key, key_of(form.label));
      const auto index = is_nothing ? kDropped : static_cast<std::uint32_t>(plan_.steps.size());
      if (!steps_.emplace(key, index).second)
        return wrong(fmt::format("there is a {} already", text_of_key(key)));
      if (steps_.size() > kMostSteps)
        return fail(Code::too_large, fmt::format("more than {} labels", kMostSteps));
    }
    if (is_nothing) return {};
    if (plan_.steps.size() == kMostSteps)
      return fail(Code::too_large, fmt::format("more than {} steps", kMostSteps));
    for (const WaitForm& wait : form.after) GANTRY_TRY(add_waits_of(wait, step));
    plan_.steps.push_back(std::move(step));
    lines_.push_back(line_);
    return {};
  }

  [[nodiscard]] Result<PlanStep> step_of(const StepForm& form) {
    PlanStep step;
    step.verb = form.verb;
    step.adds = form.adds;
    if (form.lane != kNoExpr) {
      GANTRY_ASSIGN(step.lane, lane_of(form.lane));
    }
    if (form.rank != kNoExpr) {
      GANTRY_ASSIGN(step.rank, bounded(form.rank, "rank", 0, Number{shape_.ranks} - 1));
      if (form.peer == kNoExpr) return step;
      GANTRY_ASSIGN(step.to.rank, bounded(form.peer, "rank", 0, Number{shape_.ranks} - 1));
      return step;
    }
    GANTRY_ASSIGN(step.to, place_of(form.to));
    if (form.verb != PlanVerb::fill) {
      GANTRY_ASSIGN(step.from, place_of(form.from));
    }
    if (form.verb == PlanVerb::gemm) {
      GANTRY_ASSIGN(step.other, place_of(form.other));
    }
    step.rank = form.verb == PlanVerb::put ? step.from.rank : step.to.rank;
    return step;
  }

  [[nodiscard]] Result<void> add_waits_of(const WaitForm& form, PlanStep& step) {
    return each(form.over, [&] { return add_wait(form, step); });
  }

  [[nodiscard]] Result<void> add_wait(const WaitForm& form, PlanStep& step) {
    if (form.condition != kNoExpr) {
      GANTRY_ASSIGN(const Number holds, number(form.condition));
      if (holds == 0) return {};
    }
    if (++waits_ > kMostWaits)
      return fail(Code::too_large, fmt::format("more than {} waits", kMostWaits));
    GANTRY_ASSIGN(const LabelKey key, key_of(form.label));
    const auto known = steps_.find(key);
    if (known == steps_.end())
      pending_.push_back({static_cast<unsigned>(plan_.steps.size()), line_, key});
    else if (known->second != kDropped)
      step.after.push_back(known->second);
    return {};
  }

  [[nodiscard]] Result<void> resolve_pending() {
    for (const Pending& one : pending_) {
      line_ = one.line;
      const auto known = steps_.find(one.label);
      if (known == steps_.end())
        return wrong(fmt::format("it is after {}, which there is not", text_of_key(one.label)),
                     "say when it waits: after LABEL if CONDITION");
      if (known->second != kDropped) plan_.steps[one.step].after.push_back(known->second);
    }
    return {};
  }

  [[nodiscard]] Result<LabelKey> key_of(const IndexedName& label) {
    LabelKey key{label.label, {}};
    for (std::size_t i = 0; i < label.index.size(); ++i) {
      GANTRY_ASSIGN(key.index[i], number(label.index[i]));
    }
    return key;
  }

  [[nodiscard]] std::string text_of_key(const LabelKey& key) const {
    const Label& label = script_.labels[key.label];
    std::string text = label.name;
    for (std::size_t i = 0; i < label.indexes; ++i)
      text += fmt::format("{}{}", i == 0 ? '[' : ',', key.index[i]);
    return label.indexes == 0 ? text : text + ']';
  }

  [[nodiscard]] Result<Number> number(ExprId id) {
    const Number value = values_.value_of(id);
    GANTRY_TRY(values_.result());
    return value;
  }

  [[nodiscard]] Result<unsigned> lane_of(ExprId id) {
    GANTRY_ASSIGN(const Number lane, number(id));
    if (lane >= 0 && lane < Number{plan_.lanes}) return static_cast<unsigned>(lane);
    const std::string lanes =
        plan_.lanes == 1 ? "lane 0 only" : fmt::format("lanes 0 to {}", plan_.lanes - 1);
    return wrong(fmt::format("lane {}: the program has {}", lane, lanes),
                 "declare more: a line 'lanes N' in front of the steps");
  }

  [[nodiscard]] Result<unsigned> bounded(ExprId id, std::string_view what, Number least,
                                         Number most) {
    GANTRY_ASSIGN(const Number value, number(id));
    if (value >= least && value <= most) return static_cast<unsigned>(value);
    return wrong(fmt::format("{} {}: {} to {}", what, value, least, most));
  }

  [[nodiscard]] Result<PlanPlace> place_of(const PlaceForm& form) {
    PlanPlace place;
    place.tensor = form.tensor;
    GANTRY_ASSIGN(place.rank, bounded(form.rank, "rank", 0, Number{shape_.ranks} - 1));
    const PlanTensor& tensor = plan_.tensors[form.tensor];
    GANTRY_ASSIGN(const auto rows, span_of(form.rows, tensor.rows, form));
    GANTRY_ASSIGN(const auto cols, span_of(form.cols, tensor.cols, form));
    place.rect = {rows.first, cols.first, rows.second, cols.second};
    return place;
  }

  // Where it begins, and how much it is.
  [[nodiscard]] Result<std::pair<Number, Number>> span_of(const Span& span, Number whole,
                                                          const PlaceForm& form) {
    if (!span.is_said()) return std::pair(Number{0}, whole);
    GANTRY_ASSIGN(const Number first, number(span.first));
    GANTRY_ASSIGN(const Number end, number(span.end));
    if (first >= 0 && first <= end && end <= whole) return std::pair(first, end - first);
    return wrong(fmt::format("{}:{} of {}, which has 0:{}", first, end,
                             script_.tensors[form.tensor].name, whole));
  }

  static constexpr std::uint32_t kDropped = ~std::uint32_t{0};

  const Script& script_;
  const CollectiveShape& shape_;
  Evaluator values_;
  Plan plan_;
  std::unordered_map<LabelKey, std::uint32_t, HashOfKey> steps_;  // or kDropped
  std::vector<Pending> pending_;
  std::vector<unsigned> lines_;  // of each step of the plan
  std::size_t terms_ = 0;
  std::size_t waits_ = 0;
  unsigned line_ = 0;
  bool has_counts_ = false;
};

}  // namespace
}  // namespace collective

namespace {

Result<void> check_collective_shape(const collective::Script& script,
                                    const CollectiveShape& shape) {
  const auto wrong = [&](std::string what, std::string hint = {}) {
    return fail(Code::invalid_argument, std::move(what), std::move(hint));
  };
  if (shape.ranks == 0 || shape.ranks > kMostRanks)
    return wrong(fmt::format("a group of {} ranks; 1 to {}", shape.ranks, kMostRanks));
  if (shape.size < 0 || shape.size > kMostRows)
    return wrong(fmt::format("size {}; 0 to {}", shape.size, kMostRows));
  if (shape.chunks < 1 || shape.chunks > collective::kMostChunks)
    return wrong(fmt::format("{} chunks; 1 to {}", shape.chunks, collective::kMostChunks));
  if (shape.root >= shape.ranks)
    return wrong(fmt::format("root {} of a group of {}", shape.root, shape.ranks));
  if (name_of(shape.type).empty())
    return wrong("a type that no plan may have", "f64, f32, f16, bf16, i32 or i64");
  for (const std::int64_t count : shape.counts)
    if (count < 0 || count > kMostRows) return wrong(fmt::format("a count of {}", count));
  if (!shape.variant.empty() &&
      std::ranges::find(script.variants, shape.variant) == script.variants.end())
    return wrong("there is no variant " + quote(shape.variant),
                 script.variants.empty() ? "it has none"
                                         : fmt::format("{}", fmt::join(script.variants, ", ")));
  return {};
}

std::string about_of(const collective::Script& script, const CollectiveShape& shape) {
  std::string text =
      fmt::format("{}: ranks {}, size {} {}, chunks {}, root {}", script.name, shape.ranks,
                  shape.size, name_of(shape.type), shape.chunks, shape.root);
  if (!script.variants.empty())
    text += fmt::format(", {}", shape.variant.empty() ? script.variants.front() : shape.variant);
  return text;
}

}  // namespace

Result<Plan> expand(const CollectiveProgram& program, const CollectiveShape& shape) {
  return guarded([&]() -> Result<Plan> {
    const collective::Script& script = *program.script_;
    GANTRY_TRY(check_collective_shape(script, shape));
    collective::Expander expander(script, shape);
    GANTRY_ASSIGN(Plan plan, expander.run());
    plan.about = about_of(script, shape);
    if (auto fine = check_shape(plan); !fine)
      return tl::unexpected(expander.with_line(std::move(fine).error()));
    return plan;
  });
}

}  // namespace gantry
