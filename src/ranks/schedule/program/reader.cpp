#include <fmt/format.h>

#include <algorithm>

#include "core/base/text_lines.hpp"
#include "ranks/schedule/plan.hpp"
#include "ranks/schedule/program/expressions.hpp"

namespace gantry {
namespace collective {
namespace {

constexpr std::string_view kMagic = "gantry-collective 1";

bool is_program_name(std::string_view text) noexcept {
  const auto is_fine = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  return !text.empty() && text.size() <= kLongestName && is_fine(text.front()) &&
         std::ranges::all_of(text, [&](char c) { return is_fine(c) || c == '-'; });
}

// What stands behind a word at the beginning of a line; nothing if it does not stand there.
std::optional<std::string_view> behind(std::string_view line, std::string_view word) {
  line = trimmed(line);
  if (!line.starts_with(word)) return std::nullopt;
  line.remove_prefix(word.size());
  if (!line.empty() && line.front() != ' ') return std::nullopt;
  return trimmed(line);
}

/// Reads a program line by line: docs/formats/collective.md. Used once.
class Reader {
 public:
  Reader() {
    for (const auto& [name, slot] : {std::pair("ranks", kRanks), std::pair("size", kSize),
                                     std::pair("chunks", kChunks), std::pair("root", kRoot)})
      static_cast<void>(scopes_.declare(name, {Symbol::variable, slot}));  // none is there yet
  }

  /// Errors: `invalid_argument`, `too_large`: "line 7: what: why".
  [[nodiscard]] Result<Script> read(std::string_view text) {
    if (text.size() > kLongestProgram)
      return fail(Code::too_large,
                  fmt::format("a program of {} bytes, beyond {}", text.size(), kLongestProgram));
    const auto read_all = [&]() -> Result<void> {
      while (!text.empty()) {
        ++line_;
        const std::size_t end = std::min(text.find('\n'), text.size());
        GANTRY_TRY(read_line(text.substr(0, end)));
        text.remove_prefix(std::min(end + 1, text.size()));
      }
      return finish();
    };
    if (auto done = read_all(); !done)
      return prefixed(std::move(done).error(), "line {}", std::max(line_, 1u));
    return std::move(script_);
  }

 private:
  /// A `for` or `if` whose `end` has not come yet.
  struct Open {
    Statement statement;
    bool is_otherwise = false;
  };

  [[nodiscard]] Result<void> read_line(std::string_view line) {
    if (line.size() > kLongestLine)
      return wrong(fmt::format("{} characters, beyond {}", line.size(), kLongestLine));
    if (!has_magic_) return read_magic(line);
    GANTRY_TRY(check_line_end(line));
    if (const auto about = behind(line, "about")) return read_about(*about);
    const std::string_view code = line.substr(0, std::min(line.find('#'), line.size()));
    if (const auto name = behind(code, "name")) {
      if (!script_.name.empty()) return wrong("it has a name already");
      if (!is_program_name(*name))
        return wrong(quote(*name) + " is not the name of a program",
                     "small letters, digits and '-'");
      script_.name = *name;
      return {};
    }
    GANTRY_ASSIGN(Tokens tokens, Tokens::of(code));
    if (tokens.is_over()) return {};
    GANTRY_TRY(read_statement(tokens));
    return tokens.expect_end();
  }

  [[nodiscard]] Result<void> read_magic(std::string_view line) {
    has_magic_ = line == kMagic;
    if (has_magic_) return {};
    if (line_ == 0)
      return wrong("no collective of this version", fmt::format("the first line is '{}'", kMagic));
    return tl::unexpected(wrong_first_line("collective", line, kMagic));
  }

  [[nodiscard]] Result<void> read_about(std::string_view line) {
    for (const char c : line)
      if (static_cast<unsigned char>(c) < ' ' || c == 127)
        return wrong("unexpected control character");
    if (!script_.about.empty()) script_.about += ' ';
    script_.about += line;
    return {};
  }

  [[nodiscard]] Result<void> read_statement(Tokens& tokens) {
    const std::string_view word = tokens.peek().text;
    const auto is = [&](std::string_view keyword) {
      return word == keyword && tokens.passes(word);
    };
    if (is("variants")) return read_variants(tokens);
    if (is("lanes")) return read_number(tokens, StatementKind::lanes);
    if (is("counts")) return read_number(tokens, StatementKind::counts);
    if (is("require")) return read_number(tokens, StatementKind::require);
    if (is("tensor")) return read_tensor(tokens);
    if (is("let")) return read_let(tokens);
    if (is("for")) return read_for(tokens);
    if (is("if")) return read_if(tokens);
    if (is("else")) return read_else();
    if (is("end")) return read_end();
    if (is("given")) return read_value(tokens, StatementKind::given);
    if (is("wanted")) return read_value(tokens, StatementKind::wanted);
    return read_step(tokens);
  }

  [[nodiscard]] Result<void> finish() {
    if (!has_magic_) return read_magic({});
    if (!open_.empty()) {
      line_ = open_.back().statement.line;
      return wrong("its end is missing");
    }
    for (const Label& label : script_.labels)
      if (!label.has_step) {
        line_ = label.line;
        return wrong(fmt::format("no step is labelled '{}'", label.name));
      }
    if (script_.name.empty()) return wrong("the program has no name", "name my-collective");
    return {};
  }

  // ---- declarations ----------------------------------------------------------------------------

  [[nodiscard]] Result<void> read_variants(Tokens& tokens) {
    GANTRY_TRY(expect_no_block("variants"));
    if (!script_.variants.empty()) return wrong("it has variants already");
    GANTRY_TRY(scopes_.declare("variant", {Symbol::variable, kVariant}));
    do {
      if (script_.variants.size() == kMostVariants)
        return wrong(fmt::format("more than {} variants", kMostVariants));
      GANTRY_ASSIGN(const std::string_view name, tokens.name("variant"));
      const auto index = static_cast<std::uint32_t>(script_.variants.size());
      GANTRY_TRY(scopes_.declare(name, {Symbol::constant, index}));
      script_.variants.emplace_back(name);
    } while (tokens.passes(","));
    return {};
  }

  [[nodiscard]] Result<void> read_tensor(Tokens& tokens) {
    GANTRY_TRY(expect_no_block("tensor"));
    TensorForm tensor;
    GANTRY_ASSIGN(tensor.name, tokens.name("tensor"));
    if (std::ranges::find(script_.tensors, tensor.name, &TensorForm::name) != script_.tensors.end())
      return wrong(fmt::format("there is a tensor '{}' already", tensor.name));
    if (script_.tensors.size() == kMostTensors)
      return wrong(fmt::format("more than {} tensors", kMostTensors));
    GANTRY_ASSIGN(tensor.rows, expressions_.read(tokens));
    GANTRY_TRY(tokens.expect(","));
    GANTRY_ASSIGN(tensor.cols, expressions_.read(tokens));
    const auto index = static_cast<std::uint32_t>(script_.tensors.size());
    script_.tensors.push_back(std::move(tensor));
    return add({.kind = StatementKind::tensor, .index = index});
  }

  [[nodiscard]] Result<void> read_number(Tokens& tokens, StatementKind kind) {
    if (kind != StatementKind::require) {
      const bool is_lanes = kind == StatementKind::lanes;
      const std::string_view what = is_lanes ? "lanes" : "counts";
      GANTRY_TRY(expect_no_block(what));
      if (std::exchange(is_lanes ? has_lanes_ : has_counts_, true))
        return wrong(fmt::format("it says its {} already", what));
    }
    GANTRY_ASSIGN(const ExprId number, expressions_.read(tokens));
    return add({.kind = kind, .a = number});
  }

  [[nodiscard]] Result<void> read_let(Tokens& tokens) {
    GANTRY_ASSIGN(const std::string_view name, tokens.name("value"));
    if (tokens.passes("(")) return read_function(tokens, name);
    GANTRY_TRY(tokens.expect("="));
    GANTRY_ASSIGN(const ExprId value, expressions_.read(tokens));
    const std::uint32_t slot = script_.slots++;
    GANTRY_TRY(scopes_.declare(name, {Symbol::variable, slot}));
    return add({.kind = StatementKind::let, .index = slot, .a = value});
  }

  [[nodiscard]] Result<void> read_function(Tokens& tokens, std::string_view name) {
    if (++statements_ > kMostStatements)
      return fail(Code::too_large, fmt::format("more than {} statements", kMostStatements));
    Function function;
    scopes_.open();
    do {
      if (function.parameters.size() == kMostParameters)
        return wrong(fmt::format("more than {} parameters", kMostParameters));
      GANTRY_ASSIGN(const std::string_view parameter, tokens.name("parameter"));
      GANTRY_TRY(scopes_.declare(parameter, {Symbol::variable, script_.slots}));
      function.parameters.push_back(script_.slots++);
    } while (tokens.passes(","));
    GANTRY_TRY(tokens.expect(")"));
    GANTRY_TRY(tokens.expect("="));
    GANTRY_ASSIGN(function.body, expressions_.read(tokens));
    scopes_.close();
    const auto index = static_cast<std::uint32_t>(script_.functions.size());
    script_.functions.push_back(std::move(function));
    return scopes_.declare(name, {Symbol::function, index});
  }

  // ---- blocks ----------------------------------------------------------------------------------

  [[nodiscard]] Result<void> read_for(Tokens& tokens) {
    GANTRY_ASSIGN(const Over over, expressions_.read_over(tokens));
    return open({.kind = StatementKind::loop,
                 .index = over.slot,
                 .a = over.span.first,
                 .b = over.span.end});
  }

  [[nodiscard]] Result<void> read_if(Tokens& tokens) {
    GANTRY_ASSIGN(const ExprId condition, expressions_.read(tokens));
    scopes_.open();
    return open({.kind = StatementKind::branch, .a = condition});
  }

  [[nodiscard]] Result<void> read_else() {
    if (open_.empty() || open_.back().is_otherwise ||
        open_.back().statement.kind != StatementKind::branch)
      return wrong("'else' without an 'if'");
    open_.back().is_otherwise = true;
    scopes_.close();
    scopes_.open();
    return {};
  }

  [[nodiscard]] Result<void> read_end() {
    if (open_.empty()) return wrong("'end' without a 'for' or an 'if'");
    scopes_.close();
    Statement done = std::move(open_.back().statement);
    open_.pop_back();
    const unsigned line = std::exchange(line_, done.line);
    auto added = add(std::move(done));
    line_ = line;
    return added;
  }

  [[nodiscard]] Result<void> read_value(Tokens& tokens, StatementKind kind) {
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

  [[nodiscard]] Result<TermForm> read_term(Tokens& tokens) {
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

  [[nodiscard]] Result<IndexedName> read_matrix(Tokens& tokens) {
    IndexedName matrix;
    GANTRY_ASSIGN(matrix.name, tokens.name("matrix"));
    // X[1,2] becomes X_1_2: no other matrix may be called that.
    if (matrix.name.find('_') != std::string::npos)
      return wrong(fmt::format("the name of a matrix has no '_': {}", matrix.name));
    GANTRY_ASSIGN(matrix.index, expressions_.read_index(tokens));
    return matrix;
  }

  // ---- places and values -----------------------------------------------------------------------

  [[nodiscard]] Result<PlaceForm> read_place(Tokens& tokens) {
    PlaceForm place;
    GANTRY_ASSIGN(const std::string_view name, tokens.name("tensor"));
    const auto tensor = std::ranges::find(script_.tensors, name, &TensorForm::name);
    if (tensor == script_.tensors.end())
      return wrong(fmt::format("there is no tensor '{}'", name),
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

  [[nodiscard]] Result<void> read_step(Tokens& tokens) {
    StepForm step;
    if (const Token& first = tokens.peek();
        first.kind == TokenKind::word && !is_keyword(first.text)) {
      const Token& next = tokens.peek(1);
      if (next.text != ":" && next.text != "[")
        return wrong(fmt::format("unknown statement '{}'", first.text));
      step.has_label = true;
      GANTRY_ASSIGN(step.label, read_label(tokens));
      GANTRY_TRY(tokens.expect(":"));
      script_.labels[step.label.label].has_step = true;
    }
    const std::string_view word = tokens.take().text;
    const auto verb = plan_verb(word);
    if (!verb) return wrong(fmt::format("unknown statement '{}'", word));
    step.verb = *verb;
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

  [[nodiscard]] Result<void> read_operands(Tokens& tokens, StepForm& step) {
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

  [[nodiscard]] Result<WaitForm> read_wait(Tokens& tokens) {
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

  // ---- steps -----------------------------------------------------------------------------------

  [[nodiscard]] Result<IndexedName> read_label(Tokens& tokens) {
    IndexedName label;
    GANTRY_ASSIGN(const std::string_view name, tokens.name("step"));
    GANTRY_ASSIGN(label.index, expressions_.read_index(tokens));
    const auto [at, is_new] = label_numbers_.try_emplace(
        std::string(name), static_cast<std::uint32_t>(script_.labels.size()));
    label.label = at->second;
    if (is_new) script_.labels.push_back({std::string(name), label.index.size(), line_});
    if (const Label& known = script_.labels[label.label]; known.indexes != label.index.size())
      return wrong(fmt::format("'{}' has {} indexes here and {} in line {}", name,
                               label.index.size(), known.indexes, known.line));
    return label;
  }

  [[nodiscard]] Result<void> expect_no_block(std::string_view what) const {
    if (open_.empty()) return {};
    return wrong(fmt::format("'{}' within a for or an if", what));
  }

  [[nodiscard]] Result<void> add(Statement statement) {
    if (++statements_ > kMostStatements)
      return fail(Code::too_large, fmt::format("more than {} statements", kMostStatements));
    statement.line = line_;
    auto& into = open_.empty()               ? script_.statements
                 : open_.back().is_otherwise ? open_.back().statement.otherwise
                                             : open_.back().statement.body;
    into.push_back(std::move(statement));
    return {};
  }

  [[nodiscard]] Result<void> open(Statement statement) {
    if (open_.size() == kDeepestBlock)
      return wrong(fmt::format("more than {} blocks within each other", kDeepestBlock));
    statement.line = line_;
    open_.push_back({std::move(statement)});
    return {};
  }

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

}  // namespace
}  // namespace collective

Result<CollectiveProgram> parse_collective(std::string_view text) {
  return guarded([&]() -> Result<CollectiveProgram> {
    GANTRY_ASSIGN(collective::Script script, collective::Reader().read(text));
    return CollectiveProgram(std::make_shared<const collective::Script>(std::move(script)));
  });
}

}  // namespace gantry
