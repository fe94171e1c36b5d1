#pragma once  // schedule/program/expressions.hpp: the tokens of a line, the names that they may
              // use, and integer expressions.

#include <map>

#include "ranks/schedule/program/script.hpp"

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

struct Symbol {
  enum Kind : std::uint8_t { variable, constant, function };
  Kind kind = variable;
  std::uint32_t index = 0;  ///< A variable's slot, a function's number, a constant's value.
};

/// The names that are known, block by block. A name is never hidden by another one.
class Scopes {
 public:
  Scopes() : blocks_(1) {}

  void open() { blocks_.emplace_back(); }
  void close() { blocks_.pop_back(); }
  [[nodiscard]] std::size_t depth() const noexcept { return blocks_.size(); }
  /// Errors: `invalid_argument`: it is known already.
  [[nodiscard]] Result<void> declare(std::string_view name, Symbol symbol);
  [[nodiscard]] Result<Symbol> find(std::string_view name) const;

 private:
  std::vector<std::map<std::string, Symbol, std::less<>>> blocks_;
};

/// Adds the expressions that it reads to a script. Names are those of the scopes at that time.
class ExpressionReader {
 public:
  ExpressionReader(Script& script, Scopes& scopes) noexcept : script_(script), scopes_(scopes) {}

  [[nodiscard]] Result<ExprId> read(Tokens& tokens);
  /// FIRST:END.
  [[nodiscard]] Result<Span> read_span(Tokens& tokens);
  /// VAR in FIRST:END. Opens a block for the variable; the caller closes it.
  [[nodiscard]] Result<Over> read_over(Tokens& tokens);
  /// What stands between brackets, if there are any: at most kMostIndexes expressions.
  [[nodiscard]] Result<std::vector<ExprId>> read_index(Tokens& tokens);

 private:
  [[nodiscard]] Result<ExprId> read_level(Tokens& tokens, unsigned level);
  [[nodiscard]] Result<ExprId> read_negated(Tokens& tokens);
  [[nodiscard]] Result<ExprId> read_unary(Tokens& tokens);
  [[nodiscard]] Result<ExprId> read_primary(Tokens& tokens);
  [[nodiscard]] Result<ExprId> read_counts(Tokens& tokens);
  [[nodiscard]] Result<ExprId> read_builtin(Tokens& tokens);
  [[nodiscard]] Result<ExprId> read_name(Tokens& tokens);
  [[nodiscard]] Result<ExprId> read_call(Tokens& tokens, std::uint32_t function);
  /// Adds a node; its depth is found from its children and from `below`.
  [[nodiscard]] Result<ExprId> add(Expr node, unsigned below = 0);
  [[nodiscard]] unsigned depth_of(ExprId id) const noexcept {
    return id == kNoExpr ? 0 : script_.expressions[id].depth;
  }

  Script& script_;
  Scopes& scopes_;
  unsigned open_ = 0;  // parentheses and signs around what is being read
};

}  // namespace gantry::collective
