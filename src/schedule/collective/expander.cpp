#include "schedule/collective/expander.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/result.hpp"
#include "schedule/plan_shape.hpp"
#include "schedule/tiles.hpp"

namespace gantry::collective {
namespace {

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

}  // namespace

Expander::Expander(const Script& script, const CollectiveShape& shape)
    : script_(script), shape_(shape), values_(script, shape.counts, predefined(script, shape)) {
  plan_.ranks = shape.ranks;
}

Result<Plan> Expander::run() {
  auto done = run_block(script_.statements);
  if (done) done = resolve_pending();
  if (!done) {
    Error error = std::move(done).error();
    error.message = fmt::format("line {}: {}", line_, error.message);
    return tl::unexpected(std::move(error));
  }
  if (!has_counts_ && !shape_.counts.empty()) return wrong("it takes no counts");
  return std::move(plan_);
}

Error Expander::with_line(Error error) const {
  constexpr std::string_view kStep = "step ";  // as name_of_step() says it
  std::size_t step = lines_.size();
  if (!error.message.starts_with(kStep)) return error;
  const char* const end = error.message.data() + error.message.size();
  std::from_chars(error.message.data() + kStep.size(), end, step);
  if (step < lines_.size()) error.message = fmt::format("line {}: {}", lines_[step], error.message);
  return error;
}

// ---- statements ------------------------------------------------------------------------------

Result<void> Expander::run_block(const std::vector<Statement>& block) {
  for (const Statement& statement : block) {
    line_ = statement.line;
    values_.spend();
    GANTRY_TRY(run_one(statement));
  }
  return {};
}

Result<void> Expander::run_one(const Statement& statement) {
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

Result<void> Expander::run_loop(const Statement& statement) {
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

template <class What>
Result<void> Expander::each(const Over& over, What what) {
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

Result<Number> Expander::number(ExprId id) {
  const Number value = values_.value_of(id);
  GANTRY_TRY(values_.result());
  return value;
}

Result<unsigned> Expander::bounded(ExprId id, std::string_view what, Number least, Number most) {
  GANTRY_ASSIGN(const Number value, number(id));
  if (value >= least && value <= most) return static_cast<unsigned>(value);
  return wrong(fmt::format("{} {}: {} to {}", what, value, least, most));
}

Result<void> Expander::set_lanes(ExprId lanes) {
  GANTRY_ASSIGN(plan_.lanes, bounded(lanes, "lanes", 1, kMostLanes));
  return {};
}

Result<unsigned> Expander::lane_of(ExprId id) {
  GANTRY_ASSIGN(const Number lane, number(id));
  if (lane >= 0 && lane < Number{plan_.lanes}) return static_cast<unsigned>(lane);
  const std::string lanes =
      plan_.lanes == 1 ? "lane 0 only" : fmt::format("lanes 0 to {}", plan_.lanes - 1);
  return wrong(fmt::format("lane {}: the program has {}", lane, lanes),
               "declare more: a line 'lanes N' in front of the steps");
}

Result<void> Expander::check_counts(ExprId counts) {
  GANTRY_ASSIGN(const Number wanted, number(counts));
  has_counts_ = true;
  if (wanted >= 0 && static_cast<std::size_t>(wanted) == shape_.counts.size()) return {};
  return wrong(fmt::format("{} counts where it takes {}", shape_.counts.size(), wanted));
}

// ---- tensors, places, values -----------------------------------------------------------------

Result<void> Expander::add_tensor(const TensorForm& form) {
  PlanTensor tensor{form.name, 0, 0, shape_.type};
  GANTRY_ASSIGN(tensor.rows, number(form.rows));
  GANTRY_ASSIGN(tensor.cols, number(form.cols));
  if (std::min(tensor.rows, tensor.cols) < 0 || std::max(tensor.rows, tensor.cols) > kMostRows)
    return wrong(fmt::format("tensor {} of {} x {}", form.name, tensor.rows, tensor.cols));
  plan_.tensors.push_back(std::move(tensor));
  return {};
}

// Where it begins, and how much it is.
Result<std::pair<Number, Number>> Expander::span_of(const Span& span, Number whole,
                                                    const PlaceForm& form) {
  if (!span.is_said()) return std::pair(Number{0}, whole);
  GANTRY_ASSIGN(const Number first, number(span.first));
  GANTRY_ASSIGN(const Number end, number(span.end));
  if (first >= 0 && first <= end && end <= whole) return std::pair(first, end - first);
  return wrong(fmt::format("{}:{} of {}, which has 0:{}", first, end,
                           script_.tensors[form.tensor].name, whole));
}

Result<PlanPlace> Expander::place_of(const PlaceForm& form) {
  PlanPlace place;
  place.tensor = form.tensor;
  GANTRY_ASSIGN(place.rank, bounded(form.rank, "rank", 0, Number{shape_.ranks} - 1));
  const PlanTensor& tensor = plan_.tensors[form.tensor];
  GANTRY_ASSIGN(const auto rows, span_of(form.rows, tensor.rows, form));
  GANTRY_ASSIGN(const auto cols, span_of(form.cols, tensor.cols, form));
  place.rect = {rows.first, cols.first, rows.second, cols.second};
  return place;
}

Result<void> Expander::add_value(const ValueForm& form, std::vector<PlanValue>& into) {
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

Result<void> Expander::add_terms_of(const TermForm& form, PlanValue& value) {
  if (++terms_ > kMostTerms)
    return fail(Code::too_large, fmt::format("more than {} terms of values", kMostTerms));
  GANTRY_ASSIGN(PlanTerm term, term_of(form));
  value.sum.push_back(std::move(term));
  return {};
}

Result<PlanTerm> Expander::term_of(const TermForm& form) {
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
Result<std::string> Expander::matrix_of(const IndexedName& name) {
  std::string text = name.name;
  for (const ExprId id : name.index) {
    GANTRY_ASSIGN(const Number index, number(id));
    if (index < 0) return wrong(fmt::format("{}[{}] names no matrix", name.name, index));
    text += fmt::format("_{}", index);
  }
  return text;
}

// ---- steps -----------------------------------------------------------------------------------

Result<void> Expander::add_step(const StepForm& form) {
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

Result<PlanStep> Expander::step_of(const StepForm& form) {
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

Result<void> Expander::add_waits_of(const WaitForm& form, PlanStep& step) {
  return each(form.over, [&] { return add_wait(form, step); });
}

Result<void> Expander::add_wait(const WaitForm& form, PlanStep& step) {
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

Result<void> Expander::resolve_pending() {
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

// ---- labels ----------------------------------------------------------------------------------

std::size_t Expander::HashOfKey::operator()(const LabelKey& key) const noexcept {
  constexpr std::uint64_t kFactor = 0x9E3779B97F4A7C15u;  // spreads neighbours (Fibonacci hashing)
  std::uint64_t hash = key.label;
  for (const Number index : key.index) {
    hash = (hash ^ static_cast<std::uint64_t>(index)) * kFactor;
    hash ^= hash >> 29;
  }
  return hash;
}

Result<LabelKey> Expander::key_of(const IndexedName& label) {
  LabelKey key{label.label, {}};
  for (std::size_t i = 0; i < label.index.size(); ++i) {
    GANTRY_ASSIGN(key.index[i], number(label.index[i]));
  }
  return key;
}

std::string Expander::text_of_key(const LabelKey& key) const {
  const Label& label = script_.labels[key.label];
  std::string text = label.name;
  for (std::size_t i = 0; i < label.indexes; ++i)
    text += fmt::format("{}{}", i == 0 ? '[' : ',', key.index[i]);
  return label.indexes == 0 ? text : text + ']';
}

}  // namespace gantry::collective
