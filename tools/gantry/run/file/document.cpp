#include "run/file/document.hpp"

#include <fmt/format.h>

#include <algorithm>
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
  if (!parsed) {
    const toml::parse_error& error = parsed.error();
    return tl::unexpected(source.error(position(error.source()), "not a pipeline file",
                                       error.description(), "the file must be TOML 1.0"));
  }
  return convert(parsed.table());
}

}  // namespace gantry::run
