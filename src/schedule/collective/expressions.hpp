#pragma once  // schedule/collective/expressions.hpp: reads integer expressions.

#include "schedule/collective/scopes.hpp"
#include "schedule/collective/tokens.hpp"

namespace gantry::collective {

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
