#include "schedule/plan.hpp"

#include <fmt/format.h>

#include "base/result.hpp"

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

// ---- first lines -----------------------------------------------------------------------------

Result<void> check_line_end(std::string_view line) {
  if (!line.ends_with('\r')) return {};
  return fail(Code::invalid_argument, "it ends in a carriage return",
              "lines end in a line feed alone");
}

Error wrong_first_line(std::string_view what, std::string_view line, std::string_view magic) {
  struct Other {
    std::string_view magic, is, hint;
  };
  constexpr Other kOthers[] = {
      {"gantry-plan ", "this is a plan", ""},
      {"gantry-collective ", "this is a collective", "`gantry plan expand` makes a plan of it"},
      {"gantry-costs ", "these are costs", ""},
      {"gantry-operator ", "this is an operator", "`gantry plan explain` chooses a schedule of it"},
      {"gantry-schedule ", "this is a schedule", "`gantry plan make` makes a plan of it"},
  };
  if (auto ended = check_line_end(line); !ended) return std::move(ended).error();
  const auto wrong = [](std::string message, std::string_view hint = {}) {
    return Error{Code::invalid_argument, std::move(message), std::string(hint)};
  };
  if (line.empty()) return wrong(fmt::format("it is empty where '{}' belongs", magic));
  if (line.ends_with(magic) && line.find_first_not_of(' ') == line.size() - magic.size())
    return wrong(fmt::format("blanks stand in front of '{}'", magic));
  const std::string_view kind = magic.substr(0, magic.find(' ') + 1);
  for (const Other& other : kOthers)
    if (line.starts_with(other.magic) && other.magic != kind)
      return wrong(fmt::format("{}, no {}", other.is, what), what == "plan" ? other.hint : "");
  return wrong(fmt::format("no {} of this version", what),
               fmt::format("the first line is '{}'", magic));
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
