#include "schedule/plan.hpp"

#include <fmt/format.h>

namespace gantry {

std::string_view to_string(PlanVerb verb) noexcept {
  switch (verb) {
    case PlanVerb::put:
      return "put";
    case PlanVerb::get:
      return "get";
    case PlanVerb::copy:
      return "copy";
    case PlanVerb::gemm:
      return "gemm";
    case PlanVerb::reduce:
      return "reduce";
    case PlanVerb::fill:
      return "fill";
    case PlanVerb::signal:
      return "signal";
    case PlanVerb::barrier:
      break;
  }
  return "barrier";
}

std::string name_of_step(const Plan& plan, unsigned step) {
  if (step >= plan.steps.size()) return fmt::format("step {}", step);
  const PlanStep& one = plan.steps[step];
  return fmt::format("step {} ({}, rank {})", step, to_string(one.verb), one.rank);
}

std::string text_of(const PlanRect& rect) {
  return fmt::format("{}:{},{}:{}", rect.row, rect.row + rect.rows, rect.col, rect.col + rect.cols);
}

std::string text_of(const Plan& plan, const PlanPlace& place) {
  return fmt::format("{}@{} {}", plan.tensors[place.tensor].name, place.rank, text_of(place.rect));
}

std::string text_of(const PlanTerm& term) {
  if (term.right.empty()) return fmt::format("{} {},{}", term.left, term.row, term.col);
  return fmt::format("{}*{} {},{} {}:{}", term.left, term.right, term.row, term.col, term.first,
                     term.last);
}

// ---- types of elements -----------------------------------------------------------------------

namespace {

struct NamedType {
  std::string_view name;
  DataType type;
};
constexpr NamedType kTypes[] = {
    {"f64", {DataType::floating, 64, 1}},   {"f32", {DataType::floating, 32, 1}},
    {"f16", {DataType::floating, 16, 1}},   {"bf16", {DataType::bfloat, 16, 1}},
    {"i32", {DataType::signed_int, 32, 1}}, {"i64", {DataType::signed_int, 64, 1}},
};

}  // namespace

std::optional<DataType> plan_type(std::string_view name) noexcept {
  for (const NamedType& one : kTypes)
    if (one.name == name) return one.type;
  return std::nullopt;
}

std::string_view name_of(const DataType& type) noexcept {
  for (const NamedType& one : kTypes)
    if (one.type == type) return one.name;
  return {};
}

}  // namespace gantry
