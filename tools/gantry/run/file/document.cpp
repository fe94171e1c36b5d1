#include "run/file/document.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <tuple>

// The packaged library throws; compiled in here, the parser returns its errors.
#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

namespace gantry::run {
namespace {

Position position(const toml::source_region& region) {
  return {std::max(1u, static_cast<unsigned>(region.begin.line)),
          std::max(1u, static_cast<unsigned>(region.begin.column))};
}

Node convert(const toml::node& from);

void convert_table(const toml::table& from, Node& to) {
  to.kind = Node::Kind::table;
  for (const auto& [key, value] : from)
    to.entries.push_back({std::string(key.str()), position(key.source()), convert(value)});
  // toml++ sorts by key; to a reader of the file its order matters.
  std::ranges::sort(to.entries, [](const Entry& a, const Entry& b) {
    return std::tie(a.at.line, a.at.column) < std::tie(b.at.line, b.at.column);
  });
}

void convert_array(const toml::array& from, Node& to) {
  to.kind = Node::Kind::array;
  for (const auto& item : from) to.entries.push_back({{}, position(item.source()), convert(item)});
}

void convert_scalar(const toml::node& from, Node& to) {
  if (const auto* string = from.as_string()) {
    to.kind = Node::Kind::string;
    to.text = string->get();
  } else if (const auto* integer = from.as_integer()) {
    to.kind = Node::Kind::integer;
    to.integer = integer->get();
    to.text = fmt::format("{}", to.integer);
  } else if (const auto* real = from.as_floating_point()) {
    to.kind = Node::Kind::real;
    to.text = fmt::format("{}", real->get());
  } else if (const auto* boolean = from.as_boolean()) {
    to.kind = Node::Kind::boolean;
    to.text = fmt::format("{}", boolean->get());
  }
}

Node convert(const toml::node& from) {
  Node to;
  to.at = position(from.source());
  if (const auto* table = from.as_table()) {
    convert_table(*table, to);
  } else if (const auto* array = from.as_array()) {
    convert_array(*array, to);
  } else {
    convert_scalar(from, to);
  }
  return to;
}

// ---- what is no TOML -------------------------------------------------------------------------

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  const std::size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) + 1 - begin);
}

std::string_view line_of(std::string_view text, unsigned number) {
  for (; number > 1 && !text.empty(); --number)
    text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
  return trimmed(text.substr(0, text.find('\n')));
}

// What would be right in place of `value`; empty if that is not known.
std::string right_value(std::string_view key, std::string_view value) {
  if (value.empty()) return fmt::format("write a value behind it: {} = \"...\"", key);
  if (value == "True" || value == "False") return "write true or false";
  const char first = value.front();
  const bool is_quoted = first == '"' || first == '\'';
  if (is_quoted && std::ranges::count(value, first) % 2 != 0)
    return fmt::format("end the text with another {} on its line", first);
  if (first == '[' && std::ranges::count(value, '[') > std::ranges::count(value, ']'))
    return "end the list with ]";
  if (first == '[' && value.find_first_of("\"'") == std::string_view::npos)
    return "put each text of the list in quotes: [\"program\", \"argument\"]";
  const bool is_word = std::isalpha(static_cast<unsigned char>(first)) != 0 || first == '/' ||
                       first == '.' || first == '{';
  return is_word ? fmt::format("put the text in quotes: {} = \"{}\"", key, value) : "";
}

std::string right_line(std::string_view line) {
  const std::size_t equals = line.find('=');
  if (line.starts_with('[') && line.find(']') == std::string_view::npos)
    return fmt::format("end the table's name with ]: {}]", line);
  if (equals != std::string_view::npos)
    return right_value(trimmed(line.substr(0, equals)), trimmed(line.substr(equals + 1)));
  if (line.empty() || line.starts_with('[')) return {};
  if (const std::size_t colon = line.find(':'); colon != std::string_view::npos)
    return fmt::format("write = in place of the colon: {} ={}", trimmed(line.substr(0, colon)),
                       line.substr(colon + 1));
  return "write KEY = VALUE, or [TABLE]";
}

Error no_toml(const toml::parse_error& error, std::string_view text, const Source& source) {
  const Position at = position(error.source());
  const std::string_view line = line_of(text, at.line);
  const std::string right = right_line(line);
  return source.error(at, "not a pipeline file",
                      line.empty() ? std::string(error.description())
                                   : fmt::format("{}, in the line '{}'", error.description(), line),
                      right + (right.empty() ? "" : "; ") + "the file must be TOML 1.0");
}

}  // namespace

std::string_view to_string(Node::Kind kind) noexcept {
  switch (kind) {
    case Node::Kind::table:
      return "a table";
    case Node::Kind::array:
      return "a list";
    case Node::Kind::string:
      return "a string";
    case Node::Kind::integer:
      return "a whole number";
    case Node::Kind::real:
      return "a number";
    case Node::Kind::boolean:
      return "true or false";
    case Node::Kind::other:
      break;
  }
  return "a date or time";
}

Error Source::error(Position at, std::string_view what, std::string_view why,
                    std::string hint) const {
  return {Code::invalid_argument,
          fmt::format("{}:{}:{}: {}: {}", path, at.line, at.column, what, why), std::move(hint)};
}

Result<Node> parse_document(std::string_view text, const Source& source) {
  const toml::parse_result parsed = toml::parse(text, source.path);
  if (!parsed) return tl::unexpected(no_toml(parsed.error(), text, source));
  return convert(parsed.table());
}

}  // namespace gantry::run
