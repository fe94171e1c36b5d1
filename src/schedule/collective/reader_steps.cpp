#include <fmt/format.h>

#include <algorithm>

#include "base/result.hpp"
#include "schedule/collective/reader.hpp"

// Places, values and steps of programs.
namespace gantry::collective {
namespace {

tl::unexpected<Error> unfit(std::string what, std::string hint = {}) {
  return fail(Code::invalid_argument, std::move(what), std::move(hint));
}

}  // namespace

// ---- places and values -----------------------------------------------------------------------

Result<PlaceForm> Reader::read_place(Tokens& tokens) {
  PlaceForm place;
  GANTRY_ASSIGN(const std::string_view name, tokens.name("tensor"));
  const auto tensor = std::ranges::find(script_.tensors, name, &TensorForm::name);
  if (tensor == script_.tensors.end())
    return unfit(fmt::format("there is no tensor '{}'", name),
                 "a tensor's line stands before those that use it");
  place.tensor = static_cast<std::uint32_t>(tensor - script_.tensors.begin());
  GANTRY_TRY(tokens.expect("@"));
  GANTRY_ASSIGN(place.rank, expressions_.read(tokens));
  if (!tokens.passes("[")) return place;
  GANTRY_ASSIGN(place.cols, expressions_.read_span(tokens));
  if (tokens.passes(",")) {
    place.rows = place.cols;
    GANTRY_ASSIGN(place.cols, expressions_.read_span(tokens));
  }
  GANTRY_TRY(tokens.expect("]"));
  return place;
}

Result<void> Reader::read_value(Tokens& tokens, StatementKind kind) {
  ValueForm value;
  GANTRY_ASSIGN(value.place, read_place(tokens));
  GANTRY_TRY(tokens.expect("="));
  if (!tokens.passes("0")) {
    do {
      GANTRY_ASSIGN(TermForm term, read_term(tokens));
      value.sum.push_back(std::move(term));
    } while (tokens.passes("+"));
  }
  const auto index = static_cast<std::uint32_t>(script_.values.size());
  script_.values.push_back(std::move(value));
  return add({.kind = kind, .index = index});
}

Result<TermForm> Reader::read_term(Tokens& tokens) {
  TermForm term;
  const bool is_over = tokens.passes("over");
  if (is_over) {
    GANTRY_ASSIGN(term.over, expressions_.read_over(tokens));
  }
  GANTRY_ASSIGN(term.left, read_matrix(tokens));
  const bool is_product = tokens.passes("*");
  if (is_product) {
    GANTRY_ASSIGN(term.right, read_matrix(tokens));
  }
  if (is_product || tokens.peek().text == "(") {
    GANTRY_TRY(tokens.expect("("));
    GANTRY_ASSIGN(term.row, expressions_.read(tokens));
    GANTRY_TRY(tokens.expect(","));
    GANTRY_ASSIGN(term.col, expressions_.read(tokens));
    if (is_product) {
      GANTRY_TRY(tokens.expect(","));
      GANTRY_ASSIGN(term.sum, expressions_.read_span(tokens));
    }
    GANTRY_TRY(tokens.expect(")"));
  }
  if (is_over) scopes_.close();
  return term;
}

Result<IndexedName> Reader::read_matrix(Tokens& tokens) {
  IndexedName matrix;
  GANTRY_ASSIGN(matrix.name, tokens.name("matrix"));
  // X[1,2] becomes X_1_2: no other matrix may be called that.
  if (matrix.name.find('_') != std::string::npos)
    return unfit(fmt::format("the name of a matrix has no '_': {}", matrix.name));
  GANTRY_ASSIGN(matrix.index, expressions_.read_index(tokens));
  return matrix;
}

// ---- steps -----------------------------------------------------------------------------------

Result<IndexedName> Reader::read_label(Tokens& tokens) {
  IndexedName label;
  GANTRY_ASSIGN(const std::string_view name, tokens.name("step"));
  GANTRY_ASSIGN(label.index, expressions_.read_index(tokens));
  const auto [at, is_new] = label_numbers_.try_emplace(
      std::string(name), static_cast<std::uint32_t>(script_.labels.size()));
  label.label = at->second;
  if (is_new) script_.labels.push_back({std::string(name), label.index.size(), line_});
  if (const Label& known = script_.labels[label.label]; known.indexes != label.index.size())
    return unfit(fmt::format("'{}' has {} indexes here and {} in line {}", name, label.index.size(),
                             known.indexes, known.line));
  return label;
}

Result<void> Reader::read_step(Tokens& tokens) {
  StepForm step;
  if (const Token& first = tokens.peek();
      first.kind == TokenKind::word && !is_keyword(first.text)) {
    const Token& next = tokens.peek(1);
    if (next.text != ":" && next.text != "[")
      return unfit(fmt::format("'{}' is nothing that a program says", first.text));
    step.has_label = true;
    GANTRY_ASSIGN(step.label, read_label(tokens));
    GANTRY_TRY(tokens.expect(":"));
    script_.labels[step.label.label].has_step = true;
  }
  const std::string_view verb = tokens.take().text;
  unsigned number = 0;
  while (verb != to_string(static_cast<PlanVerb>(number)))
    if (++number > static_cast<unsigned>(PlanVerb::barrier))
      return unfit(fmt::format("'{}' is nothing that a program says", verb));
  step.verb = static_cast<PlanVerb>(number);
  GANTRY_TRY(read_operands(tokens, step));
  if (tokens.passes("lane")) {
    GANTRY_ASSIGN(step.lane, expressions_.read(tokens));
  }
  if (tokens.passes("after")) {
    do {
      GANTRY_ASSIGN(WaitForm wait, read_wait(tokens));
      step.after.push_back(std::move(wait));
    } while (tokens.passes(","));
  }
  const auto index = static_cast<std::uint32_t>(script_.steps.size());
  script_.steps.push_back(std::move(step));
  return add({.kind = StatementKind::step, .index = index});
}

Result<void> Reader::read_operands(Tokens& tokens, StepForm& step) {
  if (step.verb == PlanVerb::barrier || step.verb == PlanVerb::signal) {
    GANTRY_ASSIGN(step.rank, expressions_.read(tokens));
    if (step.verb == PlanVerb::barrier) return {};
    GANTRY_TRY(tokens.expect("to"));
    GANTRY_ASSIGN(step.peer, expressions_.read(tokens));
    return {};
  }
  if (step.verb != PlanVerb::fill) {
    GANTRY_ASSIGN(step.from, read_place(tokens));
    if (step.verb == PlanVerb::gemm) {
      GANTRY_TRY(tokens.expect("by"));
      GANTRY_ASSIGN(step.other, read_place(tokens));
    }
    GANTRY_TRY(tokens.expect("to"));
  }
  GANTRY_ASSIGN(step.to, read_place(tokens));
  step.adds = step.verb == PlanVerb::gemm && tokens.passes("adding");
  return {};
}

Result<WaitForm> Reader::read_wait(Tokens& tokens) {
  WaitForm wait;
  const bool is_over = tokens.passes("over");
  if (is_over) {
    GANTRY_ASSIGN(wait.over, expressions_.read_over(tokens));
  }
  GANTRY_ASSIGN(wait.label, read_label(tokens));
  if (tokens.passes("if")) {
    GANTRY_ASSIGN(wait.condition, expressions_.read(tokens));
  }
  if (is_over) scopes_.close();
  return wait;
}

}  // namespace gantry::collective
