#include "ranks/schedule/program/expressions.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/text_lines.hpp"

namespace gantry::collective {
namespace {

constexpr std::string_view kKeywords[] = {
    "name",  "about", "variants", "lanes", "counts", "tensor",  "given",  "wanted", "let",
    "for",   "in",    "if",       "else",  "end",    "require", "over",   "to",     "by",
    "after", "lane",  "adding",   "and",   "or",     "not",     "min",    "max",    "sum",
    "put",   "get",   "copy",     "gemm",  "reduce", "fill",    "signal", "barrier"};

constexpr std::string_view kSigns[] = {
    "<=", ">=", "==", "!=", "<", ">", "=", ":", ",", "[",
    "]",  "(",  ")",  "@",  "+", "-", "*", "/", "%"};  // the longer of two comes first

bool is_letter(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
bool is_digit(char c) noexcept {
  return c >= '0' && c <= '9';
}

template <class Belongs>
std::string_view front_of(std::string_view text, Belongs belongs) {
  const auto end = std::ranges::find_if_not(text, belongs);
  return text.substr(0, static_cast<std::size_t>(end - text.begin()));
}

Result<Token> number_at(std::string_view text) {
  Token token{TokenKind::number, front_of(text, is_digit)};
  if (const auto value = number_in<Number>(token.text)) return token.value = *value, token;
  return fail(Code::invalid_argument, fmt::format("number {}: at most {}", quote(token.text),
                                                  std::numeric_limits<Number>::max()));
}

Result<Token> token_at(std::string_view text) {
  if (is_digit(text.front())) return number_at(text);
  if (is_letter(text.front())) {
    const Token word{TokenKind::word, front_of(text, [](char c) {
                       return is_letter(c) || is_digit(c) || c == '_';
                     })};
    if (word.text.size() <= kLongestName) return word;
    return fail(Code::invalid_argument,
                fmt::format("a name of {} letters, beyond {}", word.text.size(), kLongestName));
  }
  for (const std::string_view sign : kSigns)
    if (text.starts_with(sign)) return Token{TokenKind::sign, text.substr(0, sign.size())};
  const auto byte = static_cast<unsigned char>(text.front());
  return fail(Code::invalid_argument, byte < ' ' || byte >= 127
                                          ? fmt::format("unexpected byte {:#04x}", byte)
                                          : fmt::format("unexpected character '{}'", text.front()));
}

constexpr unsigned kMostOpen = 40;  // parentheses within each other

const BinarySign* sign_of(const Token& token, unsigned level) {
  for (const BinarySign& one : kBinarySigns)
    if (one.level == level && one.sign == token.text && token.kind != TokenKind::end) return &one;
  return nullptr;
}

tl::unexpected<Error> too_deep() {
  return fail(Code::invalid_argument, "an expression is nested too deep", "name parts of it: let");
}

}  // namespace

// ---- tokens ----------------------------------------------------------------------------------

bool is_keyword(std::string_view word) noexcept {
  return std::ranges::find(kKeywords, word) != std::end(kKeywords);
}

Result<Tokens> Tokens::of(std::string_view line) {
  Tokens tokens;
  while (true) {
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    if (line.empty()) break;
    GANTRY_ASSIGN(const Token token, token_at(line));
    line.remove_prefix(token.text.size());
    tokens.all_.push_back(token);
  }
  tokens.all_.push_back({});
  return tokens;
}

bool Tokens::passes(std::string_view text) noexcept {
  if (peek().text != text || is_over()) return false;
  take();
  return true;
}

Result<void> Tokens::expect(std::string_view text) {
  if (passes(text)) return {};
  return fail(Code::invalid_argument, is_over() ? fmt::format("'{}' is missing", text)
                                                : fmt::format("unexpected {} where '{}' belongs",
                                                              quote(peek().text), text));
}

Result<std::string_view> Tokens::name(std::string_view of_what) {
  const Token token = take();
  if (token.kind == TokenKind::end)
    return fail(Code::invalid_argument, fmt::format("the name of {} is missing", of_what));
  if (token.kind != TokenKind::word || is_keyword(token.text))
    return fail(Code::invalid_argument,
                fmt::format("{} is not the name of a {}", quote(token.text), of_what));
  return token.text;
}

Result<void> Tokens::expect_end() const {
  if (is_over()) return {};
  return fail(Code::invalid_argument,
              fmt::format("unexpected {} after the statement", quote(peek().text)));
}

// ---- names -----------------------------------------------------------------------------------

Result<void> Scopes::declare(std::string_view name, Symbol symbol) {
  if (find(name)) return fail(Code::invalid_argument, fmt::format("there is a '{}' already", name));
  blocks_.back().emplace(name, symbol);
  return {};
}

Result<Symbol> Scopes::find(std::string_view name) const {
  for (const auto& block : blocks_)
    if (const auto at = block.find(name); at != block.end()) return at->second;
  constexpr std::size_t kMostShown = 200;  // characters
  std::string known;
  for (const auto& block : blocks_)
    for (const auto& entry : block)
      if (known.size() < kMostShown) known += (known.empty() ? "" : ", ") + entry.first;
  return fail(Code::invalid_argument, fmt::format("there is no '{}' here", name),
              "known here: " + known);
}

// ---- expressions -----------------------------------------------------------------------------

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
  return fail(Code::invalid_argument,
              tokens.is_over()
                  ? "an expression is missing"
                  : fmt::format("unexpected {} where an expression belongs", quote(next.text)));
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
