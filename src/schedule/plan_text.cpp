#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/result.hpp"
#include "schedule/plan.hpp"
#include "schedule/plan_shape.hpp"
#include "schedule/quote.hpp"

// Plans as text: docs/formats/plan.md.
namespace gantry {
namespace {

constexpr std::string_view kMagic = "gantry-plan 1";
constexpr std::size_t kLongestText = std::size_t{256} << 20;

template <class Number>
Result<Number> number_of(std::string_view word) {
  Number value{};
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size() || word.empty())
    return fail(Code::invalid_argument, quote(word) + " is no number here");
  return value;
}

/// The words of a line, one after the other.
class Words {
 public:
  explicit Words(std::string_view line) : rest_(line) { skip(); }

  [[nodiscard]] bool is_over() const noexcept { return rest_.empty(); }
  [[nodiscard]] std::string_view rest() const noexcept { return rest_; }
  [[nodiscard]] std::string_view next() noexcept {
    const std::size_t end = std::min(rest_.find(' '), rest_.size());
    const std::string_view word = rest_.substr(0, end);
    rest_.remove_prefix(end);
    skip();
    return word;
  }
  /// True, and it is passed, if it comes next.
  [[nodiscard]] bool passes(std::string_view word) noexcept {
    Words ahead = *this;
    if (ahead.next() != word) return false;
    *this = ahead;
    return true;
  }
  [[nodiscard]] Result<void> expect(std::string_view word) {
    if (passes(word)) return {};
    Words ahead = *this;
    return fail(Code::invalid_argument,
                is_over() ? fmt::format("'{}' is missing", word)
                          : fmt::format("{} where '{}' belongs", quote(ahead.next()), word));
  }
  template <class Number>
  [[nodiscard]] Result<Number> number() {
    return number_of<Number>(next());
  }

 private:
  void skip() noexcept {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(' '), rest_.size()));
  }
  std::string_view rest_;
};

/// The two sides of a sign in a word.
Result<std::pair<std::string_view, std::string_view>> halves(std::string_view word, char sign) {
  const std::size_t at = word.find(sign);
  if (at == std::string_view::npos)
    return fail(Code::invalid_argument, fmt::format("there is no '{}' in {}", sign, quote(word)));
  return std::pair(word.substr(0, at), word.substr(at + 1));
}

class Reader {
 public:
  [[nodiscard]] Result<Plan> read(std::string_view text) {
    bool has_magic = false;
    for (unsigned number = 1; !text.empty(); ++number) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      std::string_view line = text.substr(0, end);
      text.remove_prefix(std::min(end + 1, text.size()));
      auto read = [&]() -> Result<void> {
        if (!has_magic) return read_magic(line, has_magic);
        return read_line(line);
      }();
      if (read) continue;
      Error error = std::move(read).error();
      error.message = fmt::format("line {}: {}", number, error.message);
      return tl::unexpected(std::move(error));
    }
    if (!has_magic)
      return fail(Code::invalid_argument,
                  fmt::format("it is empty; a plan's first line is '{}'", kMagic));
    return std::move(plan_);
  }

 private:
  static Result<void> read_magic(std::string_view line, bool& has_magic) {
    has_magic = line == kMagic;
    if (has_magic) return {};
    return tl::unexpected(wrong_first_line("plan", line, kMagic));
  }

  Result<void> read_line(std::string_view line) {
    GANTRY_TRY(check_line_end(line));
    for (const char c : line)
      if (static_cast<unsigned char>(c) < ' ' || c == 127)
        return fail(Code::invalid_argument, "it has a control character");
    if (Words words(line); words.passes("about")) {
      plan_.about = words.rest();
      return {};
    }
    Words words(line.substr(0, std::min(line.find('#'), line.size())));
    if (words.is_over()) return {};
    GANTRY_TRY(read_statement(words));
    if (words.is_over()) return {};
    return fail(Code::invalid_argument, quote(words.rest()) + " is too much");
  }

  Result<void> read_statement(Words& words) {
    const std::string_view verb = words.next();
    if (verb == "ranks") return read_into(words, plan_.ranks);
    if (verb == "lanes") return read_into(words, plan_.lanes);
    if (verb == "tensor") return read_tensor(words);
    if (verb == "given") return read_value(words, plan_.given);
    if (verb == "wanted") return read_value(words, plan_.wanted);
    for (unsigned i = 0; i <= static_cast<unsigned>(PlanVerb::barrier); ++i)
      if (verb == to_string(static_cast<PlanVerb>(i)))
        return read_step(words, static_cast<PlanVerb>(i));
    return fail(Code::invalid_argument, quote(verb) + " is nothing that a plan says",
                known_words());
  }
  static std::string known_words() {
    std::string words = "a line begins with about, ranks, lanes, tensor, given, wanted";
    for (unsigned i = 0; i <= static_cast<unsigned>(PlanVerb::barrier); ++i)
      words.append(", ").append(to_string(static_cast<PlanVerb>(i)));
    return words;
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
      return fail(Code::invalid_argument, quote(type) + " is no type",
                  "f64, f32, f16, bf16, i32 or i64");
    tensor.type = *known;
    plan_.tensors.push_back(std::move(tensor));
    return {};
  }

  static Result<std::pair<std::int64_t, std::int64_t>> read_span(std::string_view word) {
    GANTRY_ASSIGN(const auto ends, halves(word, ':'));
    GANTRY_ASSIGN(const auto first, number_of<std::int64_t>(ends.first));
    GANTRY_ASSIGN(const auto last, number_of<std::int64_t>(ends.second));
    if (first < 0 || last < first || last > kMostRows)
      return fail(Code::invalid_argument, quote(word) + " goes from nowhere to nowhere");
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
    GANTRY_ASSIGN(place.rank, number_of<unsigned>(owner.second));
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
    GANTRY_ASSIGN(term.row, number_of<std::int64_t>(offsets.first));
    GANTRY_ASSIGN(term.col, number_of<std::int64_t>(offsets.second));
    if (times == std::string_view::npos) return term;
    if (term.right.empty()) return fail(Code::invalid_argument, quote(name) + " is half a product");
    GANTRY_ASSIGN(const auto sum, read_span(words.next()));
    term.first = sum.first;
    term.last = sum.second;
    return term;
  }

  Result<void> read_step(Words& words, PlanVerb verb) {
    PlanStep step;
    step.verb = verb;
    GANTRY_ASSIGN(const auto who, halves(words.next(), '/'));
    GANTRY_ASSIGN(step.rank, number_of<unsigned>(who.first));
    GANTRY_ASSIGN(step.lane, number_of<unsigned>(who.second));
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
