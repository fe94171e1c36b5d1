#include "schedule/collective/expressions.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/result.hpp"
#include "schedule/quote.hpp"

namespace gantry::collective {
namespace {

constexpr unsigned kMostOpen = 40;  // parentheses within each other

struct BinarySign {
  std::string_view sign;
  unsigned level;  // the lowest binds least
  Op op;
};
constexpr unsigned kCompare = 2;
constexpr unsigned kLevels = 5;
constexpr BinarySign kBinarySigns[] = {
    {"or", 0, Op::either},          {"and", 1, Op::both},          {"<=", kCompare, Op::at_most},
    {">=", kCompare, Op::at_least}, {"<", kCompare, Op::below},    {">", kCompare, Op::above},
    {"==", kCompare, Op::equal},    {"!=", kCompare, Op::unequal}, {"+", 3, Op::add},
    {"-", 3, Op::subtract},         {"*", 4, Op::multiply},        {"/", 4, Op::divide},
    {"%", 4, Op::modulo},
};

const BinarySign* sign_of(const Token& token, unsigned level) {
  for (const BinarySign& one : kBinarySigns)
    if (one.level == level && one.sign == token.text && token.kind != TokenKind::end) return &one;
  return nullptr;
}

tl::unexpected<Error> too_deep() {
  return fail(Code::invalid_argument, "an expression is nested too deep", "name parts of it: let");
}

}  // namespace

Result<ExprId> ExpressionReader::add(Expr node, unsigned below) {
  const bool is_call = node.op == Op::call;
  node.depth = 1 + below;
  if (!is_call)
    for (const ExprId child : {node.a, node.b, node.c})
      node.depth = std::max(node.depth, 1 + depth_of(child));
  if (node.depth > kDeepestExpression) return too_deep();
  script_.expressions.push_back(node);
  return static_cast<ExprId>(script_.expressions.size() - 1);
}

Result<ExprId> ExpressionReader::read(Tokens& tokens) {
  if (open_ >= kMostOpen) return too_deep();
  ++open_;
  auto read = read_level(tokens, 0);
  --open_;
  return read;
}

Result<ExprId> ExpressionReader::read_level(Tokens& tokens, unsigned level) {
  if (level == kLevels) return read_unary(tokens);
  if (level == kCompare && tokens.passes("not")) return read_negated(tokens);
  GANTRY_ASSIGN(ExprId left, read_level(tokens, level + 1));
  while (const BinarySign* const sign = sign_of(tokens.peek(), level)) {
    tokens.take();
    GANTRY_ASSIGN(const ExprId right, read_level(tokens, level + 1));
    GANTRY_ASSIGN(left, add({.op = sign->op, .a = left, .b = right}));
    if (level == kCompare && sign_of(tokens.peek(), level) != nullptr)
      return fail(Code::invalid_argument, "two comparisons in a row", "join them: and");
  }
  return left;
}

Result<ExprId> ExpressionReader::read_negated(Tokens& tokens) {
  if (open_ >= kMostOpen) return too_deep();
  ++open_;
  auto operand = read_level(tokens, kCompare);
  --open_;
  if (!operand) return operand;
  return add({.op = Op::negation, .a = *operand});
}

Result<ExprId> ExpressionReader::read_unary(Tokens& tokens) {
  if (!tokens.passes("-")) return read_primary(tokens);
  if (open_ >= kMostOpen) return too_deep();
  ++open_;
  auto operand = read_unary(tokens);
  --open_;
  if (!operand) return operand;
  return add({.op = Op::negative, .a = *operand});
}

Result<ExprId> ExpressionReader::read_primary(Tokens& tokens) {
  const Token& next = tokens.peek();
  if (next.kind == TokenKind::number) return add({.value = tokens.take().value});
  if (tokens.passes("(")) {
    GANTRY_ASSIGN(const ExprId inner, read(tokens));
    GANTRY_TRY(tokens.expect(")"));
    return inner;
  }
  if (next.text == "counts") return read_counts(tokens);
  if (next.text == "min" || next.text == "max" || next.text == "sum") return read_builtin(tokens);
  if (next.kind == TokenKind::word && !is_keyword(next.text)) return read_name(tokens);
  return fail(Code::invalid_argument, tokens.is_over()
                                          ? "an expression is missing"
                                          : quote(next.text) + " where an expression belongs");
}

// One, counts[E], or the sum of some: counts[A:B], counts[A:B:STEP].
Result<ExprId> ExpressionReader::read_counts(Tokens& tokens) {
  tokens.take();
  GANTRY_TRY(tokens.expect("["));
  Expr node{.op = Op::counts};
  GANTRY_ASSIGN(node.a, read(tokens));
  if (tokens.passes(":")) {
    node.op = Op::slice;
    GANTRY_ASSIGN(node.b, read(tokens));
    if (tokens.passes(":")) {
      GANTRY_ASSIGN(node.c, read(tokens));
    }
  }
  GANTRY_TRY(tokens.expect("]"));
  return add(node);
}

// min(A, B), max(A, B), and each of these and sum over a variable: sum(i in A:B, C).
Result<ExprId> ExpressionReader::read_builtin(Tokens& tokens) {
  const std::string_view name = tokens.take().text;
  GANTRY_TRY(tokens.expect("("));
  if (tokens.peek(1).text != "in" && name != "sum") {
    GANTRY_ASSIGN(const ExprId one, read(tokens));
    GANTRY_TRY(tokens.expect(","));
    GANTRY_ASSIGN(const ExprId other, read(tokens));
    GANTRY_TRY(tokens.expect(")"));
    return add({.op = name == "min" ? Op::lesser : Op::greater, .a = one, .b = other});
  }
  GANTRY_ASSIGN(const Over over, read_over(tokens));
  GANTRY_TRY(tokens.expect(","));
  GANTRY_ASSIGN(const ExprId body, read(tokens));
  GANTRY_TRY(tokens.expect(")"));
  scopes_.close();
  const Op op = name == "sum" ? Op::sum : name == "min" ? Op::least : Op::greatest;
  return add({.op = op, .slot = over.slot, .a = over.span.first, .b = over.span.end, .c = body});
}

Result<ExprId> ExpressionReader::read_name(Tokens& tokens) {
  GANTRY_ASSIGN(const std::string_view name, tokens.name("value"));
  GANTRY_ASSIGN(const Symbol symbol, scopes_.find(name));
  switch (symbol.kind) {
    case Symbol::constant:
      return add({.value = symbol.index});
    case Symbol::function:
      return read_call(tokens, symbol.index);
    case Symbol::variable:
      break;
  }
  return add({.op = Op::variable, .slot = symbol.index});
}

Result<ExprId> ExpressionReader::read_call(Tokens& tokens, std::uint32_t function) {
  std::vector<ExprId> arguments;
  const std::size_t wanted = script_.functions[function].parameters.size();
  GANTRY_TRY(tokens.expect("("));
  unsigned below = depth_of(script_.functions[function].body);
  for (std::size_t i = 0; i < wanted; ++i) {
    if (i > 0) GANTRY_TRY(tokens.expect(","));
    GANTRY_ASSIGN(const ExprId argument, read(tokens));
    below = std::max(below, depth_of(argument));
    arguments.push_back(argument);
  }
  GANTRY_TRY(tokens.expect(")"));
  const auto first = static_cast<ExprId>(script_.arguments.size());
  script_.arguments.insert(script_.arguments.end(), arguments.begin(), arguments.end());
  return add({.op = Op::call, .slot = function, .a = first, .b = static_cast<ExprId>(wanted)},
             below);
}

Result<Span> ExpressionReader::read_span(Tokens& tokens) {
  GANTRY_ASSIGN(const ExprId first, read(tokens));
  GANTRY_TRY(tokens.expect(":"));
  GANTRY_ASSIGN(const ExprId end, read(tokens));
  return Span{first, end};
}

Result<Over> ExpressionReader::read_over(Tokens& tokens) {
  Over over;
  GANTRY_ASSIGN(const std::string_view name, tokens.name("variable"));
  GANTRY_TRY(tokens.expect("in"));
  GANTRY_ASSIGN(over.span, read_span(tokens));
  over.slot = script_.slots++;
  scopes_.open();
  GANTRY_TRY(scopes_.declare(name, {Symbol::variable, over.slot}));
  return over;
}

Result<std::vector<ExprId>> ExpressionReader::read_index(Tokens& tokens) {
  std::vector<ExprId> index;
  if (!tokens.passes("[")) return index;
  do {
    if (index.size() == kMostIndexes)
      return fail(Code::invalid_argument, fmt::format("more than {} indexes", kMostIndexes));
    GANTRY_ASSIGN(const ExprId one, read(tokens));
    index.push_back(one);
  } while (tokens.passes(","));
  GANTRY_TRY(tokens.expect("]"));
  return index;
}

}  // namespace gantry::collective
