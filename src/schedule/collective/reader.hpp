#pragma once  // schedule/collective/reader.hpp: reads the statements of a program.

#include "schedule/collective/expressions.hpp"

namespace gantry::collective {

/// Reads a program line by line: docs/formats/collective.md. Used once.
class Reader {
 public:
  Reader();
  /// Errors: `invalid_argument`, `too_large`: "line 7: what: why".
  [[nodiscard]] Result<Script> read(std::string_view text);

 private:
  /// A `for` or `if` whose `end` has not come yet.
  struct Open {
    Statement statement;
    bool is_otherwise = false;
  };

  [[nodiscard]] Result<void> read_line(std::string_view line);
  [[nodiscard]] Result<void> read_magic(std::string_view line);
  [[nodiscard]] Result<void> read_about(std::string_view line);
  [[nodiscard]] Result<void> read_statement(Tokens& tokens);
  [[nodiscard]] Result<void> finish();

  [[nodiscard]] Result<void> read_variants(Tokens& tokens);
  [[nodiscard]] Result<void> read_tensor(Tokens& tokens);
  [[nodiscard]] Result<void> read_number(Tokens& tokens, StatementKind kind);
  [[nodiscard]] Result<void> read_let(Tokens& tokens);
  [[nodiscard]] Result<void> read_function(Tokens& tokens, std::string_view name);
  [[nodiscard]] Result<void> read_for(Tokens& tokens);
  [[nodiscard]] Result<void> read_if(Tokens& tokens);
  [[nodiscard]] Result<void> read_else();
  [[nodiscard]] Result<void> read_end();
  [[nodiscard]] Result<void> read_value(Tokens& tokens, StatementKind kind);
  [[nodiscard]] Result<TermForm> read_term(Tokens& tokens);
  [[nodiscard]] Result<IndexedName> read_matrix(Tokens& tokens);
  [[nodiscard]] Result<PlaceForm> read_place(Tokens& tokens);
  [[nodiscard]] Result<void> read_step(Tokens& tokens);
  [[nodiscard]] Result<void> read_operands(Tokens& tokens, StepForm& step);
  [[nodiscard]] Result<WaitForm> read_wait(Tokens& tokens);
  [[nodiscard]] Result<IndexedName> read_label(Tokens& tokens);

  [[nodiscard]] Result<void> expect_no_block(std::string_view what) const;
  [[nodiscard]] Result<void> add(Statement statement);
  [[nodiscard]] Result<void> open(Statement statement);

  Script script_;
  Scopes scopes_;
  ExpressionReader expressions_{script_, scopes_};
  std::vector<Open> open_;
  std::map<std::string, std::uint32_t> label_numbers_;
  std::size_t statements_ = 0;
  unsigned line_ = 0;
  bool has_magic_ = false;
  bool has_lanes_ = false;
  bool has_counts_ = false;
};

}  // namespace gantry::collective
