#include "schedule/collective/tokens.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/result.hpp"
#include "schedule/quote.hpp"

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
  const char* const end = token.text.data() + token.text.size();
  if (std::from_chars(token.text.data(), end, token.value).ec != std::errc())
    return fail(Code::invalid_argument, quote(token.text) + " is beyond all numbers");
  return token;
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
                                          ? fmt::format("it has a byte {:#04x}", byte)
                                          : fmt::format("'{}' means nothing here", text.front()));
}

}  // namespace

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
  return fail(Code::invalid_argument,
              is_over() ? fmt::format("'{}' is missing", text)
                        : fmt::format("{} where '{}' belongs", quote(peek().text), text));
}

Result<std::string_view> Tokens::name(std::string_view of_what) {
  const Token token = take();
  if (token.kind == TokenKind::end)
    return fail(Code::invalid_argument, fmt::format("the name of {} is missing", of_what));
  if (token.kind != TokenKind::word || is_keyword(token.text))
    return fail(Code::invalid_argument, fmt::format("{} names no {}", quote(token.text), of_what));
  return token.text;
}

Result<void> Tokens::expect_end() const {
  if (is_over()) return {};
  return fail(Code::invalid_argument, quote(peek().text) + " is too much");
}

}  // namespace gantry::collective
