#include "ranks/schedule/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/base/text_lines.hpp"

namespace gantry {
namespace {

struct NamedType {
  std::string_view name;
  DataType type;
};
constexpr NamedType kTypes[] = {
    {"f64", {DataType::floating, 64, 1}},   {"f32", {DataType::floating, 32, 1}},
    {"f16", {DataType::floating, 16, 1}},   {"bf16", {DataType::bfloat, 16, 1}},
    {"i32", {DataType::signed_int, 32, 1}}, {"i64", {DataType::signed_int, 64, 1}},
};

// In the order of PlanVerb.
constexpr std::array<std::string_view, 8> kVerbs{"put",    "get",  "copy",   "gemm",
                                                 "reduce", "fill", "signal", "barrier"};
static_assert(static_cast<std::size_t>(PlanVerb::barrier) + 1 == kVerbs.size());

constexpr std::string_view kMagic = "gantry-plan 1";
constexpr std::size_t kLongestText = std::size_t{256} << 20;

/// The two sides of a sign in a word.
Result<std::pair<std::string_view, std::string_view>> halves(std::string_view word, char sign) {
  const std::size_t at = word.find(sign);
  if (at == std::string_view::npos)
    return fail(Code::invalid_argument, fmt::format("'{}' is missing in {}", sign, quote(word)));
  return std::pair(word.substr(0, at), word.substr(at + 1));
}

class Reader {
 public:
  [[nodiscard]] Result<Plan> read(std::string_view text) {
    if (text.empty())
      return fail(Code::invalid_argument,
                  fmt::format("it is empty; a plan's first line is '{}'", kMagic));
    GANTRY_TRY(read_lines(text, [this](std::string_view line, unsigned number) -> Result<void> {
      if (number > 1) return read_line(line);
      if (line == kMagic) return {};
      return tl::unexpected(wrong_first_line("plan", line, kMagic));
    }));
    return std::move(plan_);
  }

 private:
  Result<void> read_line(std::string_view line) {
    GANTRY_TRY(check_line_end(line));
    for (const char c : line)
      if (static_cast<unsigned char>(c) < ' ' || c == 127)
        return fail(Code::invalid_argument, "unexpected control character");
    if (Words words(line); words.passes("about")) {
      plan_.about = words.rest();
      return {};
    }
    Words words(line.substr(0, std::min(line.find('#'), line.size())));
    if (words.is_over()) return {};
    GANTRY_TRY(read_statement(words));
    return words.expect_end();
  }

  Result<void> read_statement(Words& words) {
    const std::string_view verb = words.next();
    if (verb == "ranks") return read_into(words, plan_.ranks);
    if (verb == "lanes") return read_into(words, plan_.lanes);
    if (verb == "tensor") return read_tensor(words);
    if (verb == "given") return read_value(words, plan_.given);
    if (verb == "wanted") return read_value(words, plan_.wanted);
    if (const auto known = plan_verb(verb)) return read_step(words, *known);
    return fail(Code::invalid_argument, "unknown statement " + quote(verb),
                fmt::format("a line begins with about, ranks, lanes, tensor, given, wanted, {}",
                            fmt::join(kVerbs, ", ")));
  }
  static Result<void> read_into(Words& words, unsigned& into) {
    GANTRY_ASSIGN(into, words.number<unsigned>());
    return {};
  }

  Result<void> read_tensor(Words& words) {
    PlanTensor tensor;
    tensor.name = words.next();
    GANTRY_ASSIGN(tensor.rows, words.number<std::int64_t>());
    GANTRY_ASSIGN(tensor.cols, words.number<std::int64_t>());
    const std::string_view type = words.next();
    const auto known = plan_type(type);
    if (!known)
      return fail(Code::invalid_argument, "unknown type " + quote(type),
                  "f64, f32, f16, bf16, i32 or i64");
    tensor.type = *known;
    plan_.tensors.push_back(std::move(tensor));
    return {};
  }

  static Result<std::pair<std::int64_t, std::int64_t>> read_span(std::string_view word) {
    GANTRY_ASSIGN(const auto ends, halves(word, ':'));
    GANTRY_ASSIGN(const auto first, read_number<std::int64_t>(ends.first));
    GANTRY_ASSIGN(const auto last, read_number<std::int64_t>(ends.second));
    const auto wrong = [&](std::string_view rule) {
      return fail(Code::invalid_argument, fmt::format("range {}: {}", quote(word), rule));
    };
    if (first < 0) return wrong("start must not be negative");
    if (last < first) return wrong("start must not exceed end");
    if (last > kMostRows) return wrong(fmt::format("end must not exceed {}", kMostRows));
    return std::pair(first, last);
  }
  Result<PlanPlace> read_place(Words& words) {
    PlanPlace place;
    GANTRY_ASSIGN(const auto owner, halves(words.next(), '@'));
    const auto tensor = std::ranges::find(plan_.tensors, owner.first, &PlanTensor::name);
    if (tensor == plan_.tensors.end())
      return fail(Code::invalid_argument, "there is no tensor " + quote(owner.first),
                  "a tensor's line stands before those that use it");
    place.tensor = static_cast<unsigned>(tensor - plan_.tensors.begin());
    GANTRY_ASSIGN(place.rank, read_number<unsigned>(owner.second));
    GANTRY_ASSIGN(const auto sides, halves(words.next(), ','));
    GANTRY_ASSIGN(const auto rows, read_span(sides.first));
    GANTRY_ASSIGN(const auto cols, read_span(sides.second));
    place.rect = {rows.first, cols.first, rows.second - rows.first, cols.second - cols.first};
    return place;
  }

  Result<void> read_value(Words& words, std::vector<PlanValue>& into) {
    PlanValue value;
    GANTRY_ASSIGN(value.place, read_place(words));
    GANTRY_TRY(words.expect("="));
    if (!words.passes("0")) {
      do {
        GANTRY_ASSIGN(PlanTerm term, read_term(words));
        value.sum.push_back(std::move(term));
      } while (words.passes("+"));
    }
    into.push_back(std::move(value));
    return {};
  }
  static Result<PlanTerm> read_term(Words& words) {
    PlanTerm term;
    const std::string_view name = words.next();
    const std::size_t times = name.find('*');
    term.left = name.substr(0, std::min(times, name.size()));
    if (times != std::string_view::npos) term.right = name.substr(times + 1);
    GANTRY_ASSIGN(const auto offsets, halves(words.next(), ','));
    GANTRY_ASSIGN(term.row, read_number<std::int64_t>(offsets.first));
    GANTRY_ASSIGN(term.col, read_number<std::int64_t>(offsets.second));
    if (times == std::string_view::npos) return term;
    if (term.right.empty())
      return fail(Code::invalid_argument,
                  fmt::format("product {}: the right factor is missing", quote(name)));
    GANTRY_ASSIGN(const auto sum, read_span(words.next()));
    term.first = sum.first;
    term.last = sum.second;
    return term;
  }

  Result<void> read_step(Words& words, PlanVerb verb) {
    PlanStep step;
    step.verb = verb;
    GANTRY_ASSIGN(const auto who, halves(words.next(), '/'));
    GANTRY_ASSIGN(step.rank, read_number<unsigned>(who.first));
    GANTRY_ASSIGN(step.lane, read_number<unsigned>(who.second));
    GANTRY_TRY(read_operands(words, step));
    if (words.passes("after")) {
      do {
        GANTRY_ASSIGN(const unsigned awaited, words.number<unsigned>());
        step.after.push_back(awaited);
      } while (!words.is_over());
    }
    plan_.steps.push_back(std::move(step));
    return {};
  }
  Result<void> read_operands(Words& words, PlanStep& step) {
    if (step.verb == PlanVerb::barrier) return {};
    if (step.verb == PlanVerb::signal) {
      GANTRY_TRY(words.expect("to"));
      GANTRY_ASSIGN(step.to.rank, words.number<unsigned>());
      return {};
    }
    if (step.verb != PlanVerb::fill) {
      GANTRY_ASSIGN(step.from, read_place(words));
      if (step.verb == PlanVerb::gemm) {
        GANTRY_TRY(words.expect("by"));
        GANTRY_ASSIGN(step.other, read_place(words));
      }
      GANTRY_TRY(words.expect("to"));
    }
    GANTRY_ASSIGN(step.to, read_place(words));
    step.adds = step.verb == PlanVerb::gemm && words.passes("adding");
    return {};
  }

  Plan plan_;
};

std::string text_of(const Plan& plan, std::string_view verb, const PlanValue& value) {
  std::string text;
  for (const PlanTerm& term : value.sum) text += (text.empty() ? "" : " + ") + text_of(term);
  return fmt::format("{} {} = {}\n", verb, text_of(plan, value.place), text.empty() ? "0" : text);
}

std::string text_of(const Plan& plan, const PlanStep& step) {
  std::string text = fmt::format("{} {}/{}", to_string(step.verb), step.rank, step.lane);
  const bool moves = step.verb < PlanVerb::fill;
  if (moves) text += " " + text_of(plan, step.from);
  if (step.verb == PlanVerb::gemm) text += " by " + text_of(plan, step.other);
  if (moves) text += " to";
  if (step.verb <= PlanVerb::fill) text += " " + text_of(plan, step.to);
  if (step.verb == PlanVerb::signal) text += fmt::format(" to {}", step.to.rank);
  if (step.verb == PlanVerb::gemm && step.adds) text += " adding";
  if (!step.after.empty()) text += " after";
  for (const unsigned awaited : step.after) text += fmt::format(" {}", awaited);
  return text + "\n";
}

}  // namespace

std::string_view to_string(PlanVerb verb) noexcept {
  return kVerbs[std::min(static_cast<std::size_t>(verb), kVerbs.size() - 1)];
}

std::optional<PlanVerb> plan_verb(std::string_view name) noexcept {
  const auto at = static_cast<std::size_t>(std::ranges::find(kVerbs, name) - kVerbs.begin());
  return at < kVerbs.size() ? std::optional(static_cast<PlanVerb>(at)) : std::nullopt;
}

std::string name_of_step(const Plan& plan, unsigned step) {
  if (step >= plan.steps.size()) return fmt::format("step {}", step);
  const PlanStep& one = plan.steps[step];
  return fmt::format("step {} ({}, rank {})", step, to_string(one.verb), one.rank);
}

std::string text_of(const PlanRect& rect) {
  return fmt::format("{}:{},{}:{}", rect.row, rect.row + rect.rows, rect.col, rect.col + rect.cols);
}

std::string text_of(const Plan& plan, const PlanPlace& place) {
  return fmt::format("{}@{} {}", plan.tensors[place.tensor].name, place.rank, text_of(place.rect));
}

std::string text_of(const PlanTerm& term) {
  if (term.right.empty()) return fmt::format("{} {},{}", term.left, term.row, term.col);
  return fmt::format("{}*{} {},{} {}:{}", term.left, term.right, term.row, term.col, term.first,
                     term.last);
}

// ---- first lines -----------------------------------------------------------------------------

Result<void> check_line_end(std::string_view line) {
  if (!line.ends_with('\r')) return {};
  return fail(Code::invalid_argument, "it ends in a carriage return",
              "lines end in a line feed alone");
}

Error wrong_first_line(std::string_view what, std::string_view line, std::string_view magic) {
  struct Other {
    std::string_view magic, is, hint;
  };
  constexpr Other kOthers[] = {
      {"gantry-plan ", "this is a plan", ""},
      {"gantry-collective ", "this is a collective", "`gantry plan expand` makes a plan of it"},
      {"gantry-costs ", "these are costs", ""},
      {"gantry-operator ", "this is an operator", "`gantry plan explain` chooses a schedule of it"},
      {"gantry-schedule ", "this is a schedule", "`gantry plan make` makes a plan of it"},
  };
  if (auto ended = check_line_end(line); !ended) return std::move(ended).error();
  const auto wrong = [](std::string message, std::string_view hint = {}) {
    return Error{Code::invalid_argument, std::move(message), std::string(hint)};
  };
  if (line.empty()) return wrong(fmt::format("it is empty where '{}' belongs", magic));
  if (line.ends_with(magic) && line.find_first_not_of(' ') == line.size() - magic.size())
    return wrong(fmt::format("blanks stand in front of '{}'", magic));
  const std::string_view kind = magic.substr(0, magic.find(' ') + 1);
  for (const Other& other : kOthers)
    if (line.starts_with(other.magic) && other.magic != kind)
      return wrong(fmt::format("{}, no {}", other.is, what), what == "plan" ? other.hint : "");
  return wrong(fmt::format("no {} of this version", what),
               fmt::format("the first line is '{}'", magic));
}

// ---- types of elements -----------------------------------------------------------------------

std::optional<DataType> plan_type(std::string_view name) noexcept {
  for (const NamedType& one : kTypes)
    if (one.name == name) return one.type;
  return std::nullopt;
}

std::string_view name_of(const DataType& type) noexcept {
  for (const NamedType& one : kTypes)
    if (one.type == type) return one.name;
  return {};
}

// ---- as text: docs/formats/plan.md ------------------------------------------------------------

Result<Plan> parse_plan(std::string_view text) {
  return guarded([&]() -> Result<Plan> {
    if (text.size() > kLongestText)
      return fail(Code::too_large, fmt::format("a plan of {} bytes", text.size()));
    GANTRY_ASSIGN(Plan plan, Reader().read(text));
    GANTRY_TRY(check_shape(plan));
    return plan;
  });
}

std::string to_text(const Plan& plan) {
  std::string text = fmt::format("{}\n", kMagic);
  if (!plan.about.empty()) text += fmt::format("about {}\n", plan.about);
  text += fmt::format("ranks {}\nlanes {}\n", plan.ranks, plan.lanes);
  for (const PlanTensor& tensor : plan.tensors)
    text += fmt::format("tensor {} {} {} {}\n", tensor.name, tensor.rows, tensor.cols,
                        name_of(tensor.type));
  for (const PlanValue& value : plan.given) text += text_of(plan, "given", value);
  for (const PlanValue& value : plan.wanted) text += text_of(plan, "wanted", value);
  for (const PlanStep& step : plan.steps) text += text_of(plan, step);
  return text;
}

}  // namespace gantry
