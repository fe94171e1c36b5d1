// layers/functions.cpp: finds functions by their braces.

#include <algorithm>
#include <array>
#include <cctype>

#include "source.hpp"

namespace layers {

namespace {

/// Blanks what may hold braces that are not code: comments, literals, preprocessor lines. Every
/// character and line stays where it was.
class Blanker {
 public:
  explicit Blanker(std::string_view text) : text_(text) {}

  std::string run() {
    while (at_ < text_.size()) step();
    return std::move(text_);
  }

 private:
  void step() {
    if (starts("//")) return blank_line();
    if (starts("/*")) return blank_until("*/", 2);
    if (starts("R\"") && !is_word(before())) return blank_raw_string();
    if (text_[at_] == '"') return blank_literal('"');
    if (text_[at_] == '\'' && !is_word(before())) return blank_literal('\'');
    if (text_[at_] == '#' && only_blanks_before_on_line()) return blank_line();
    ++at_;
  }

  void blank_line() {
    while (at_ < text_.size() && (text_[at_] != '\n' || before() == '\\')) blank();
  }

  void blank_literal(char quote) {
    blank();
    while (at_ < text_.size() && text_[at_] != quote) {
      if (text_[at_] == '\\') ++at_;
      blank();
    }
    blank();
  }

  void blank_raw_string() {
    const auto open = text_.find('(', at_);
    if (open == text_.npos) return blank_line();
    std::string end(1, ')');
    end.append(text_, at_ + 2, open - at_ - 2).append(1, '"');
    blank_until(end, open - at_);
  }

  void blank_until(const std::string& end, std::size_t skip) {
    const auto found = text_.find(end, at_ + skip);
    const auto stop = found == text_.npos ? text_.size() : found + end.size();
    while (at_ < stop) blank();
  }

  void blank() {
    if (at_ < text_.size() && text_[at_] != '\n' && text_[at_] != '\\') text_[at_] = ' ';
    ++at_;
  }

  [[nodiscard]] bool starts(std::string_view word) const {
    return std::string_view(text_).substr(at_).starts_with(word);
  }
  [[nodiscard]] char before() const { return at_ == 0 ? '\n' : text_[at_ - 1]; }
  [[nodiscard]] static bool is_word(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
  }
  [[nodiscard]] bool only_blanks_before_on_line() const {
    const auto last = text_.find_last_not_of(" \t", at_ == 0 ? 0 : at_ - 1);
    return at_ == 0 || last == text_.npos || text_[last] == '\n';
  }

  std::string text_;
  std::size_t at_ = 0;
};

bool has_word(std::string_view text, std::string_view word) {
  const auto is_word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
  };
  for (auto at = text.find(word); at != text.npos; at = text.find(word, at + 1)) {
    const auto end = at + word.size();
    const bool begins = at == 0 || !is_word(text[at - 1]);
    if (begins && (end == text.size() || !is_word(text[end]))) return true;
  }
  return false;
}

/// `alignas(64)` has parentheses and yet makes no function of a class.
std::string without_alignas(std::string_view statement) {
  std::string text(statement);
  for (auto at = text.find("alignas("); at != text.npos; at = text.find("alignas(")) {
    text.erase(at, text.find(')', at) - at + 1);
  }
  return text;
}

enum class Brace { scope, function, data };

/// What the brace after `statement` opens.
Brace brace_after(std::string_view statement) {
  constexpr std::array kScopes{"namespace", "class", "struct", "union", "enum", "extern"};
  const auto text = without_alignas(statement);
  const auto close = text.rfind(')');
  const auto tail = std::string_view(text).substr(close == text.npos ? 0 : close + 1);
  const bool scope = std::ranges::any_of(kScopes, [&](auto* word) { return has_word(tail, word); });
  if (scope) return Brace::scope;
  return close == text.npos ? Brace::data : Brace::function;
}

/// Where the brace opened at `open` closes; the end of the text when it does not.
std::size_t closing(std::string_view code, std::size_t open) {
  int depth = 0;
  for (auto at = open; at < code.size(); ++at) {
    if (code[at] == '{') ++depth;
    if (code[at] == '}' && --depth == 0) return at;
  }
  return code.size();
}

std::size_t line_of(std::string_view code, std::size_t at) {
  return 1 + static_cast<std::size_t>(std::ranges::count(code.substr(0, at), '\n'));
}

}  // namespace

std::vector<std::size_t> lines_with_word(std::string_view text, std::string_view word) {
  std::vector<std::size_t> found;
  std::size_t number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find('\n', at), text.size());
    ++number;
    if (has_word(text.substr(at, end - at), word)) found.push_back(number);
    at = end + 1;
  }
  return found;
}

std::vector<Function> functions_of(std::string_view text) {
  const auto blanked = Blanker(text).run();
  const std::string_view code = blanked;
  std::vector<Function> functions;
  std::size_t statement = 0;  // where the current one began
  for (std::size_t at = 0; at < code.size(); ++at) {
    if (code[at] == '{') {
      const auto kind = brace_after(code.substr(statement, at - statement));
      const auto end = kind == Brace::scope ? at : closing(code, at);
      if (kind == Brace::function) {
        const auto first = line_of(code, code.find_first_not_of(" \t\n", statement));
        functions.push_back({first, line_of(code, end) - first + 1});
      }
      at = end;
      statement = at + 1;
    } else if (code[at] == '}' || code[at] == ';') {
      statement = at + 1;
    }
  }
  return functions;
}

}  // namespace layers
