#pragma once  // schedule/program/script.hpp: a program as it has been read.

#include <array>
#include <gantry/collectives.hpp>
#include <limits>
#include <span>

#include "core/base/result.hpp"
#include "ranks/schedule/plan.hpp"

namespace gantry::collective {

// Bounds of what is read and expanded, so that nobody's program costs more than they say.
inline constexpr std::size_t kLongestProgram = std::size_t{256} << 10;
inline constexpr std::size_t kLongestLine = 4096;
inline constexpr std::size_t kMostStatements = 4096;
inline constexpr std::size_t kDeepestBlock = 16;
inline constexpr unsigned kDeepestExpression = 200;  // with the functions that it calls
inline constexpr unsigned kMostParameters = 4;
inline constexpr unsigned kMostIndexes = 3;
inline constexpr std::size_t kMostVariants = 8;
inline constexpr std::size_t kMostWork = std::size_t{1} << 26;  // nodes evaluated, turns of loops
inline constexpr std::size_t kMostWaits = std::size_t{1} << 21;
inline constexpr std::size_t kMostTerms = std::size_t{1} << 20;
inline constexpr std::int64_t kMostChunks = std::int64_t{1} << 16;

using Number = std::int64_t;

/// Of a program's text.
inline tl::unexpected<Error> wrong(std::string what, std::string hint = {}) {
  return fail(Code::invalid_argument, std::move(what), std::move(hint));
}

enum class Op : std::uint8_t {
  number,
  variable,
  counts,    ///< counts[a]
  slice,     ///< counts[a:b:c]: the sum of every c-th one; of each if there is no c
  call,      ///< of a function
  sum,       ///< of c over a variable from a to b
  least,     ///< likewise
  greatest,  ///< likewise
  negative,
  negation,
  add,
  subtract,
  multiply,
  divide,
  modulo,
  lesser,
  greater,
  below,
  at_most,
  above,
  at_least,
  equal,
  unequal,
  both,
  either,
};

/// A sign between two operands.
struct BinarySign {
  std::string_view sign;
  unsigned level;  // the lowest binds least
  Op op;
};
inline constexpr unsigned kCompare = 2;
inline constexpr unsigned kLevels = 5;
inline constexpr BinarySign kBinarySigns[] = {
    {"or", 0, Op::either},          {"and", 1, Op::both},          {"<=", kCompare, Op::at_most},
    {">=", kCompare, Op::at_least}, {"<", kCompare, Op::below},    {">", kCompare, Op::above},
    {"==", kCompare, Op::equal},    {"!=", kCompare, Op::unequal}, {"+", 3, Op::add},
    {"-", 3, Op::subtract},         {"*", 4, Op::multiply},        {"/", 4, Op::divide},
    {"%", 4, Op::modulo},
};

/// A node of an expression, by its index in Script::expressions.
using ExprId = std::uint32_t;
inline constexpr ExprId kNoExpr = ~ExprId{0};

struct Expr {
  Op op = Op::number;
  unsigned depth = 1;      ///< Nodes on the longest way down, those of called functions included.
  std::uint32_t slot = 0;  ///< A variable's place, or a function's number.
  Number value = 0;
  ExprId a = kNoExpr;  ///< Of a call: the first of its `b` arguments in Script::arguments.
  ExprId b = kNoExpr;
  ExprId c = kNoExpr;
};

struct Function {
  std::vector<std::uint32_t> parameters;  ///< Their slots.
  ExprId body = kNoExpr;
};

/// FIRST:END.
struct Span {
  ExprId first = kNoExpr;
  ExprId end = kNoExpr;
  [[nodiscard]] bool is_said() const noexcept { return first != kNoExpr; }
};

/// "over VAR in FIRST:END", where it is said.
struct Over {
  std::uint32_t slot = 0;
  Span span;
};

struct PlaceForm {
  std::uint32_t tensor = 0;
  ExprId rank = kNoExpr;
  Span rows;  ///< Not said: all of them.
  Span cols;
};

/// A matrix or a label, with what stands in its brackets.
struct IndexedName {
  std::string name;         ///< Of a matrix.
  std::uint32_t label = 0;  ///< Of a label: its index in Script::labels.
  std::vector<ExprId> index;
};

struct TermForm {
  Over over;
  IndexedName left;
  IndexedName right;  ///< Without a name: no product.
  ExprId row = kNoExpr;
  ExprId col = kNoExpr;
  Span sum;
};

struct ValueForm {
  PlaceForm place;
  std::vector<TermForm> sum;
};

struct WaitForm {
  Over over;
  IndexedName label;
  ExprId condition = kNoExpr;
};

struct StepForm {
  PlanVerb verb = PlanVerb::copy;
  bool has_label = false;
  IndexedName label;
  ExprId rank = kNoExpr;  ///< Of signal and barrier; of the others the places say it.
  ExprId peer = kNoExpr;  ///< Of signal.
  PlaceForm from;
  PlaceForm other;
  PlaceForm to;
  bool adds = false;
  ExprId lane = kNoExpr;
  std::vector<WaitForm> after;
};

struct TensorForm {
  std::string name;
  ExprId rows = kNoExpr;
  ExprId cols = kNoExpr;
};

struct Label {
  std::string name;
  std::size_t indexes = 0;
  unsigned line = 0;  ///< Of its first mention.
  bool has_step = false;
};

enum class StatementKind : std::uint8_t {
  let,      ///< slot `index` = a
  loop,     ///< slot `index` from a to b
  branch,   ///< by a
  require,  ///< a
  lanes,    ///< a
  counts,   ///< a
  tensor,   ///< Script::tensors[index]
  given,    ///< Script::values[index]
  wanted,   ///< Script::values[index]
  step,     ///< Script::steps[index]
};

struct Statement {
  StatementKind kind = StatementKind::let;
  unsigned line = 0;
  std::uint32_t index = 0;
  ExprId a = kNoExpr;
  ExprId b = kNoExpr;
  std::vector<Statement> body{};
  std::vector<Statement> otherwise{};
};

/// Variables that every program has, by their slots.
enum Predefined : std::uint32_t { kRanks, kSize, kChunks, kRoot, kVariant, kPredefined };

struct Script {
  std::string name;
  std::string about;
  std::vector<std::string> variants;
  std::vector<Expr> expressions;
  std::vector<ExprId> arguments;
  std::vector<Function> functions;
  std::vector<Label> labels;
  std::vector<TensorForm> tensors;
  std::vector<ValueForm> values;
  std::vector<StepForm> steps;
  std::vector<Statement> statements;
  std::uint32_t slots = kPredefined;
};

/// The texts of library/*.gcoll, which the build puts into the library.
[[nodiscard]] std::span<const std::string_view> builtin_programs() noexcept;

}  // namespace gantry::collective
