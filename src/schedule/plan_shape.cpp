#include "schedule/plan_shape.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/result.hpp"
#include "schedule/quote.hpp"

namespace gantry {
namespace {

bool is_name(std::string_view text) noexcept {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  return !text.empty() && text.size() <= kLongestName && is_letter(text.front()) &&
         std::ranges::all_of(
             text, [&](char c) { return is_letter(c) || (c >= '0' && c <= '9') || c == '_'; });
}

tl::unexpected<Error> wrong(std::string what) {
  return fail(Code::invalid_argument, std::move(what));
}

Result<void> check_tensors(const Plan& plan) {
  std::set<std::string_view> names;
  if (plan.tensors.size() > kMostTensors)
    return fail(Code::too_large,
                fmt::format("{} tensors, beyond {}", plan.tensors.size(), kMostTensors));
  for (const PlanTensor& tensor : plan.tensors) {
    if (!is_name(tensor.name)) return wrong(quote(tensor.name) + " is no name");
    if (!names.insert(tensor.name).second)
      return wrong(fmt::format("there are two tensors {}", tensor.name));
    if (tensor.rows < 0 || tensor.cols < 0 || tensor.rows > kMostRows || tensor.cols > kMostRows)
      return wrong(fmt::format("tensor {} of {} x {}", tensor.name, tensor.rows, tensor.cols));
    if (name_of(tensor.type).empty())
      return wrong(fmt::format("tensor {} has a type that no plan may have", tensor.name));
  }
  return {};
}

Result<void> check_place(const Plan& plan, const PlanPlace& place) {
  if (place.rank >= plan.ranks)
    return wrong(fmt::format("rank {} of a group of {}", place.rank, plan.ranks));
  if (place.tensor >= plan.tensors.size())
    return wrong(fmt::format("tensor {}, which there is not", place.tensor));
  const PlanTensor& tensor = plan.tensors[place.tensor];
  const PlanRect& rect = place.rect;
  if (rect.row >= 0 && rect.col >= 0 && rect.rows >= 0 && rect.cols >= 0 &&
      rect.row <= tensor.rows && rect.col <= tensor.cols && rect.rows <= tensor.rows - rect.row &&
      rect.cols <= tensor.cols - rect.col)
    return {};
  if (std::ranges::any_of(std::array{rect.row, rect.col, rect.rows, rect.cols},
                          [](auto one) { return one < 0 || one > kMostRows; }))
    return wrong(fmt::format("a place in {}@{} that nothing has", tensor.name, place.rank));
  return wrong(fmt::format("{} is beyond {} x {}", text_of(plan, place), tensor.rows, tensor.cols));
}

Result<void> check_value(const Plan& plan, const PlanValue& value) {
  GANTRY_TRY(check_place(plan, value.place));
  for (const PlanTerm& term : value.sum) {
    const bool has_names = is_name(term.left) && (term.right.empty() || is_name(term.right));
    const auto is_far = [](std::int64_t at) { return at < -kMostRows || at > kMostRows; };
    if (!has_names || is_far(term.row) || is_far(term.col) || is_far(term.first) ||
        is_far(term.last) || (!term.right.empty() && term.first >= term.last))
      return wrong(fmt::format("{}: a term that is none: {}", text_of(plan, value.place),
                               quote(text_of(term))));
  }
  return {};
}

bool overlap(const PlanPlace& one, const PlanPlace& other) noexcept {
  const auto meet = [](std::int64_t a, std::int64_t sizes, std::int64_t b, std::int64_t others) {
    return a < b + others && b < a + sizes;
  };
  return one.rank == other.rank && one.tensor == other.tensor &&
         meet(one.rect.row, one.rect.rows, other.rect.row, other.rect.rows) &&
         meet(one.rect.col, one.rect.cols, other.rect.col, other.rect.cols);
}

/// One that reads `from` (and `other`) and writes `to`.
Result<void> check_operands(const Plan& plan, const PlanStep& step) {
  const bool is_gemm = step.verb == PlanVerb::gemm;
  for (const PlanPlace* const place : {&step.to, &step.from, is_gemm ? &step.other : &step.to})
    GANTRY_TRY(check_place(plan, *place));
  const PlanRect& to = step.to.rect;
  const PlanRect& from = step.from.rect;
  const PlanRect& other = step.other.rect;
  const bool fits = is_gemm
                        ? from.rows == to.rows && from.cols == other.rows && other.cols == to.cols
                        : from.rows == to.rows && from.cols == to.cols;
  if (!fits)
    return wrong(is_gemm
                     ? fmt::format("{} x {} times {} x {} is not {} x {}", from.rows, from.cols,
                                   other.rows, other.cols, to.rows, to.cols)
                     : fmt::format("{} x {} into {} x {}", from.rows, from.cols, to.rows, to.cols));
  if (overlap(step.from, step.to) || (is_gemm && overlap(step.other, step.to)))
    return wrong(fmt::format("it reads what it writes: {}", text_of(plan, step.to)));
  const DataType type = plan.tensors[step.to.tensor].type;
  if (plan.tensors[step.from.tensor].type != type ||
      (is_gemm && plan.tensors[step.other.tensor].type != type))
    return wrong("its tensors have different types");
  return {};
}

// Whose memory a verb may touch.
Result<void> check_owners(const PlanStep& step) {
  const bool is_to_own = step.to.rank == step.rank;
  const bool is_from_own = step.from.rank == step.rank;
  switch (step.verb) {
    case PlanVerb::put:
      if (!is_from_own || is_to_own) return wrong("a put goes from its own rank to another one");
      return {};
    case PlanVerb::get:
      if (!is_to_own || is_from_own) return wrong("a get comes from another rank to its own");
      return {};
    case PlanVerb::gemm:
      if (step.other.rank != step.rank) return wrong("it works on another rank's memory");
      [[fallthrough]];
    default:
      if (!is_to_own || !is_from_own) return wrong("it works on another rank's memory");
      return {};
  }
}

Result<void> check_step(const Plan& plan, const PlanStep& step) {
  if (step.rank >= plan.ranks)
    return wrong(fmt::format("rank {} of a group of {}", step.rank, plan.ranks));
  if (step.lane >= plan.lanes) return wrong(fmt::format("lane {} of {}", step.lane, plan.lanes));
  switch (step.verb) {
    case PlanVerb::barrier:
      return {};
    case PlanVerb::signal:
      if (step.to.rank >= plan.ranks || step.to.rank == step.rank)
        return wrong(fmt::format("it signals rank {}", step.to.rank));
      return {};
    case PlanVerb::fill:
      GANTRY_TRY(check_place(plan, step.to));
      if (step.to.rank != step.rank) return wrong("it works on another rank's memory");
      return {};
    default:
      GANTRY_TRY(check_operands(plan, step));
      return check_owners(step);
  }
}

}  // namespace

Result<void> check_shape(const Plan& plan) {
  if (plan.ranks == 0 || plan.ranks > kMostRanks)
    return wrong(fmt::format("a group of {} ranks; 1 to {}", plan.ranks, kMostRanks));
  if (plan.lanes == 0 || plan.lanes > kMostLanes)
    return wrong(fmt::format("{} lanes; 1 to {}", plan.lanes, kMostLanes));
  if (plan.steps.size() > kMostSteps)
    return fail(Code::too_large, fmt::format("{} steps, beyond {}", plan.steps.size(), kMostSteps));
  if (plan.about.find_first_of("\r\n") != std::string::npos)
    return wrong("what it says about itself has more than one line");
  GANTRY_TRY(check_tensors(plan));
  for (const auto* const values : {&plan.given, &plan.wanted})
    for (const PlanValue& value : *values) GANTRY_TRY(check_value(plan, value));
  for (unsigned i = 0; i < plan.steps.size(); ++i) {
    auto checked = check_step(plan, plan.steps[i]);
    if (checked) continue;
    Error error = std::move(checked).error();
    error.message = fmt::format("{}: {}", name_of_step(plan, i), error.message);
    return tl::unexpected(std::move(error));
  }
  return {};
}

// ---- what it costs ---------------------------------------------------------------------------

Result<PlanFacts> facts_of(const Plan& plan) {
  const auto bytes_of = [&](unsigned tensor, std::int64_t rows, std::int64_t cols) {
    return static_cast<Bytes>(rows) * static_cast<Bytes>(cols) *
           (plan.tensors[tensor].type.bits / kBitsOfByte);
  };
  for (const PlanTensor& tensor : plan.tensors)
    if (tensor.rows > 0 && tensor.cols > kMostRows / tensor.rows)
      return fail(Code::too_large,
                  fmt::format("tensor {} of {} x {}", tensor.name, tensor.rows, tensor.cols));
  PlanFacts facts;
  facts.memory.resize(plan.ranks);
  facts.sent.resize(plan.ranks);
  facts.received.resize(plan.ranks);
  facts.flops.resize(plan.ranks);
  std::set<std::pair<unsigned, unsigned>> touched;
  const auto touch = [&](const PlanPlace& place) {
    const PlanTensor& tensor = plan.tensors[place.tensor];
    if (touched.emplace(place.rank, place.tensor).second)
      facts.memory[place.rank] += bytes_of(place.tensor, tensor.rows, tensor.cols);
  };
  for (const auto* const values : {&plan.given, &plan.wanted})
    for (const PlanValue& value : *values) touch(value.place);
  for (const PlanStep& step : plan.steps) {
    if (step.verb == PlanVerb::signal || step.verb == PlanVerb::barrier) continue;
    touch(step.to);
    if (step.verb == PlanVerb::fill) continue;
    touch(step.from);
    if (step.verb == PlanVerb::gemm) {
      touch(step.other);
      facts.flops[step.rank] += 2.0 * static_cast<double>(step.to.rect.rows) *
                                static_cast<double>(step.to.rect.cols) *
                                static_cast<double>(step.from.rect.cols);
    }
    if (step.verb != PlanVerb::put && step.verb != PlanVerb::get) continue;
    const Bytes bytes = bytes_of(step.to.tensor, step.to.rect.rows, step.to.rect.cols);
    facts.sent[step.from.rank] += bytes;
    facts.received[step.to.rank] += bytes;
  }
  return facts;
}

}  // namespace gantry
