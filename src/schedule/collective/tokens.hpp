#pragma once  // schedule/collective/tokens.hpp: the words, numbers and signs of a line.

#include "schedule/collective/script.hpp"

namespace gantry::collective {

enum class TokenKind : std::uint8_t { word, number, sign, end };

struct Token {
  TokenKind kind = TokenKind::end;
  std::string_view text;
  Number value = 0;
};

/// The tokens of a line, one after the other. Behind the last one comes `end`, again and again.
class Tokens {
 public:
  /// The line must outlive it. Errors: `invalid_argument` for characters, numbers and names that no
  /// program has.
  [[nodiscard]] static Result<Tokens> of(std::string_view line);

  [[nodiscard]] const Token& peek(std::size_t ahead = 0) const noexcept {
    return all_[std::min(next_ + ahead, all_.size() - 1)];
  }
  Token take() noexcept {
    const Token token = peek();
    if (next_ + 1 < all_.size()) ++next_;
    return token;
  }
  [[nodiscard]] bool is_over() const noexcept { return peek().kind == TokenKind::end; }
  /// True, and it is passed, if this word or sign comes next.
  [[nodiscard]] bool passes(std::string_view text) noexcept;
  [[nodiscard]] Result<void> expect(std::string_view text);
  /// A word that is none of the language's own.
  [[nodiscard]] Result<std::string_view> name(std::string_view of_what);
  /// Nothing is left.
  [[nodiscard]] Result<void> expect_end() const;

 private:
  std::vector<Token> all_;
  std::size_t next_ = 0;
};

/// A word of the language, which names nothing else.
[[nodiscard]] bool is_keyword(std::string_view word) noexcept;

}  // namespace gantry::collective
