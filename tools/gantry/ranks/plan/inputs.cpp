#include "ranks/plan/inputs.hpp"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <set>

#include "errors.hpp"

namespace gantry::cli {
namespace {

constexpr std::string_view kOperatorMagic = "gantry-operator 1";
constexpr std::size_t kLargestFile = std::size_t{256} << 20;

struct NamedType {
  std::string_view name;
  DataType type;
};
constexpr std::array<NamedType, 6> kTypes{{{"f64", {DataType::floating, 64, 1}},
                                           {"f32", {DataType::floating, 32, 1}},
                                           {"f16", {DataType::floating, 16, 1}},
                                           {"bf16", {DataType::bfloat, 16, 1}},
                                           {"i32", {DataType::signed_int, 32, 1}},
                                           {"i64", {DataType::signed_int, 64, 1}}}};

tl::unexpected<Error> wrong(std::string message, std::string hint = {}) {
  return tl::unexpected(Error{Code::invalid_argument, std::move(message), std::move(hint)});
}

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  while (!line.empty()) {
    const std::size_t end = std::min(line.find(' '), line.size());
    if (end > 0) words.push_back(line.substr(0, end));
    line.remove_prefix(std::min(end + 1, line.size()));
  }
  return words;
}

/// A line of an operator's file.
bool take_words(const std::vector<std::string_view>& words, OperatorInput& input) {
  const auto is_number = [](std::string_view word, auto& number) {
    return read_number(word, number) == std::errc();
  };
  if (words[0] == "split") {
    for (std::size_t i = 1; i < words.size(); ++i)
      if (!is_number(words[i], input.split.emplace_back())) return false;
    return true;
  }
  if (words.size() != 2) return false;
  if (words[0] == "operator") return input.kind = words[1], true;
  if (words[0] == "type") return input.type = words[1], true;
  if (words[0] == "m") return is_number(words[1], input.m.emplace());
  if (words[0] == "n") return is_number(words[1], input.n.emplace());
  if (words[0] == "k") return is_number(words[1], input.k.emplace());
  if (words[0] == "ranks") return is_number(words[1], input.ranks.emplace());
  return false;
}

Result<OperatorInput> read_operator_file(const std::string& path) {
  const auto text =
      read_text(path, "an operator as a file, or by options: --operator KIND --m ...");
  if (!text) return tl::unexpected(text.error());
  OperatorInput input;
  std::set<std::string_view> seen;
  std::string_view rest = *text;
  for (unsigned number = 1; !rest.empty() || number == 1; ++number) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.ends_with('\r'))
      return wrong(fmt::format("{}: line {}: it ends in a carriage return", path, number),
                   "lines end in a line feed alone");
    if (number == 1 && line != kOperatorMagic)
      return wrong(fmt::format("{}: no operator", path),
                   fmt::format("its first line is '{}'", kOperatorMagic));
    const auto words = words_of(line.substr(0, line.find('#')));
    if (number == 1 || words.empty()) continue;
    if (!seen.insert(words[0]).second)
      return wrong(fmt::format("{}: line {}: '{}' is set already", path, number, words[0]));
    if (take_words(words, input)) continue;
    return wrong(
        fmt::format("{}: line {}: '{}' is nothing that an operator says", path, number, line),
        "operator KIND, m, n, k, ranks, type, or split with rows");
  }
  return input;
}

bool is_verb(std::string_view word) {
  for (unsigned verb = 0; verb <= static_cast<unsigned>(PlanVerb::barrier); ++verb)
    if (word == to_string(static_cast<PlanVerb>(verb))) return true;
  return false;
}

/// In a text that is a plan.
std::vector<std::size_t> lines_of_steps(std::string_view text) {
  std::vector<std::size_t> lines;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const auto words = words_of(line.substr(0, line.find('#')));
    if (!words.empty() && is_verb(words[0])) lines.push_back(number);
  }
  return lines;
}

}  // namespace

Error of_file(const std::string& path, Error error) {
  error.message = fmt::format("{}: {}", path, error.message);
  return error;
}

Result<DataType> read_type(const std::string& name) {
  for (const NamedType& one : kTypes)
    if (one.name == name) return one.type;
  return wrong(fmt::format("type '{}': there is no such type", name),
               "f64, f32, f16, bf16, i32 or i64");
}

Result<std::string> read_text(const std::string& path, std::string hint) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"),
                                                             &std::fclose);
  if (!file) return tl::unexpected(system_error(path, errno, std::move(hint)));
  std::string text;
  std::array<char, 1 << 16> block{};
  while (const std::size_t got = std::fread(block.data(), 1, block.size(), file.get())) {
    text.append(block.data(), got);
    if (text.size() > kLargestFile)
      return tl::unexpected(
          Error{Code::too_large, fmt::format("{}: larger than 256 MiB", path), {}});
  }
  if (std::ferror(file.get()) != 0)
    return tl::unexpected(system_error(path, errno, std::move(hint)));
  return text;
}

Error PlanFile::wrong(Error error) const {
  constexpr std::string_view kStep = "step ";  // as name_of_step() says it
  const std::size_t at = error.message.find(kStep);
  if (at == std::string::npos) return of_file(path, std::move(error));
  std::size_t step = step_lines.size();
  const char* const end = error.message.data() + error.message.size();
  std::from_chars(error.message.data() + at + kStep.size(), end, step);
  if (step >= step_lines.size()) return of_file(path, std::move(error));
  return of_file(fmt::format("{}:{}", path, step_lines[step]), std::move(error));
}

Result<PlanFile> read_plan(const std::string& path) {
  const auto text = read_text(path, "a plan as text; gantry plan make writes one");
  if (!text) return tl::unexpected(text.error());
  auto plan = parse_plan(*text);
  if (!plan) return tl::unexpected(of_file(path, plan.error()));
  return PlanFile{path, std::move(*plan), lines_of_steps(*text)};
}

Result<ScheduleCosts> read_costs(const std::string& name) {
  if (name.starts_with("published/")) return published_costs(name);
  const auto text = read_text(name, "published/mi300x-8, or a file of costs");
  if (!text) return tl::unexpected(text.error());
  return parse_costs(*text).map_error([&](Error error) { return of_file(name, std::move(error)); });
}

void OperatorInput::add_to(const Command& command) {
  const auto from = command.add_option("FILE", file, "An operator as a file, instead of options");
  from->check([](const std::string& text) {
    return parse_overlap_kind(text) ? fmt::format("'{0}' is no file: --operator {0}", text) : "";
  });
  command.add_option("--operator", kind, "all-gather-gemm, gemm-reduce-scatter or all-to-all-gemm")
      ->type_name("KIND")
      ->excludes(from);
  for (const auto& [name, size, what] :
       {std::tuple{"--m", &m, "Rows of A"}, std::tuple{"--n", &n, "Columns of B"},
        std::tuple{"--k", &k, "Columns of A"}})
    add_number<std::int64_t>(command, name, *size, what)->excludes(from);
  add_number<unsigned>(command, "--ranks", ranks, "How many share the product")->excludes(from);
  command.add_option("--type", type, "f64, f32, f16, bf16, i32 or i64 (default bf16)")
      ->type_name("TYPE")
      ->excludes(from);
}

std::string OperatorInput::what_is_missing() const {
  std::string missing;
  for (const auto& [is_there, name] :
       {std::pair(!kind.empty(), "kind"), std::pair(m.has_value(), "m"),
        std::pair(n.has_value(), "n"), std::pair(k.has_value(), "k"),
        std::pair(ranks.has_value(), "number of ranks")})
    if (!is_there) missing += fmt::format("{}{}", missing.empty() ? "" : ", no ", name);
  return missing;
}

Result<OverlapOperator> OperatorInput::read() const {
  if (!file.empty()) {
    const auto input = read_operator_file(file);
    if (!input) return tl::unexpected(input.error());
    return input->read().map_error([&](Error error) { return of_file(file, std::move(error)); });
  }
  OverlapOperator op{.split = split};
  if (!kind.empty()) {
    const auto known = parse_overlap_kind(kind);
    if (!known) return tl::unexpected(known.error());
    op.kind = *known;
  }
  if (const std::string missing = what_is_missing(); !missing.empty())
    return wrong(fmt::format("an operator has a kind, m, n, k and ranks; there is no {}", missing),
                 "--operator all-gather-gemm --m 8192 --n 8192 --k 8192 --ranks 8, or a file with "
                 "a line for each");
  op.m = *m;
  op.n = *n;
  op.k = *k;
  op.ranks = *ranks;
  const auto element = read_type(type.empty() ? "bf16" : type);
  if (!element) return tl::unexpected(element.error());
  op.type = *element;
  const std::size_t pairs = std::size_t{op.ranks} * op.ranks;
  if (!split.empty() && split.size() != pairs)
    return wrong(fmt::format("rows for {} pairs of ranks; there are {}", split.size(), pairs));
  return op;
}

std::string text_of(const OverlapOperator& op) {
  std::string_view type = "?";
  for (const NamedType& one : kTypes)
    if (one.type == op.type) type = one.name;
  return fmt::format("{} of {} x {} x {} {} on {} ranks", to_string(op.kind), op.m, op.n, op.k,
                     type, op.ranks);
}

}  // namespace gantry::cli
