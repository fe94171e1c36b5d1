#pragma once  // base/text_lines.hpp: reads texts of lines and words, and says where they are wrong.

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/result.hpp"

namespace gantry {

/// 'text'. A long one is cut and its length added: an error has one line, and words have any size.
[[nodiscard]] inline std::string quote(std::string_view text) {
  constexpr std::size_t kMost = 64;
  if (text.size() <= kMost) return fmt::format("'{}'", text);
  std::size_t end = kMost;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;  // UTF-8
  return fmt::format("'{}...' ({} bytes)", text.substr(0, end), text.size());
}

/// Without the blanks around it.
[[nodiscard]] inline std::string_view trimmed(std::string_view text) noexcept {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  return text.substr(0, text.find_last_not_of(' ') + 1);
}

/// The number that `word` is from its first character to its last; nothing: it is none.
template <class Number, class... Base>
[[nodiscard]] std::optional<Number> number_in(std::string_view word, Base... base) noexcept {
  Number value{};
  const char* const end = word.data() + word.size();
  const auto [rest, error] = std::from_chars(word.data(), end, value, base...);
  if (error != std::errc() || rest != end) return std::nullopt;
  return value;
}

/// Errors: `invalid_argument`.
template <class Number>
[[nodiscard]] Result<Number> read_number(std::string_view word) {
  if (const auto value = number_in<Number>(word)) return *value;
  return fail(Code::invalid_argument,
              word.empty() ? "a number is missing" : quote(word) + " is not a number");
}

/// The error with its place or object in front: "line 3: ...".
template <class... Arguments>
[[nodiscard]] tl::unexpected<Error> prefixed(Error error, fmt::format_string<Arguments...> where,
                                             Arguments&&... arguments) {
  error.message = fmt::format(where, std::forward<Arguments>(arguments)...) + ": " + error.message;
  return tl::unexpected(std::move(error));
}

/// Calls `read` with each line and its number, from 1. Errors: the first of `read`, with its line.
template <class Read>
[[nodiscard]] Result<void> read_lines(std::string_view text, Read read) {
  for (unsigned number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    if (Result<void> done = read(text.substr(0, end), number); !done)
      return prefixed(std::move(done).error(), "line {}", number);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return {};
}

/// The words of a line, with blanks between them, one after the other.
class Words {
 public:
  explicit Words(std::string_view line) noexcept : rest_(line) { skip(); }

  [[nodiscard]] bool is_over() const noexcept { return rest_.empty(); }
  [[nodiscard]] std::string_view rest() const noexcept { return rest_; }
  /// Empty: there is none left.
  [[nodiscard]] std::string_view next() noexcept {
    const std::string_view word = rest_.substr(0, rest_.find(' '));
    rest_.remove_prefix(word.size());
    skip();
    return word;
  }
  /// True, and it is passed, if `word` comes next.
  [[nodiscard]] bool passes(std::string_view word) noexcept {
    Words ahead = *this;
    if (ahead.next() != word) return false;
    *this = ahead;
    return true;
  }
  /// Errors, of these three: `invalid_argument`.
  [[nodiscard]] Result<void> expect(std::string_view word) {
    if (passes(word)) return {};
    if (is_over()) return fail(Code::invalid_argument, fmt::format("'{}' is missing", word));
    return fail(Code::invalid_argument,
                fmt::format("unexpected {} where '{}' belongs", quote(next()), word));
  }
  [[nodiscard]] Result<void> expect_end() const {
    if (is_over()) return {};
    return fail(Code::invalid_argument,
                fmt::format("unexpected {} after the statement", quote(rest_)));
  }
  template <class Number>
  [[nodiscard]] Result<Number> number() {
    return read_number<Number>(next());
  }

 private:
  void skip() noexcept {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(' '), rest_.size()));
  }
  std::string_view rest_;
};

}  // namespace gantry
