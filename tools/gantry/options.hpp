#pragma once  // tools/gantry/options.hpp: command line options with a unit.

#include "tools/command_line/command.hpp"

#include "output.hpp"

namespace gantry::cli {

/// An option whose text `parse` turns into a value; a text that it refuses is wrong usage.
template <class Value>
Option add_parsed(const Command& app, const std::string& name, Value& value,
                  Result<Value> (*parse)(std::string_view), const std::string& type,
                  const std::string& help) {
  const auto take = [&value, parse, name](const std::string& text) {
    const auto parsed = parse(text);
    if (!parsed) refuse_word(name, to_string(parsed.error()));
    value = *parsed;
  };
  return app.add_function(name, take, help)->type_name(type);
}

}  // namespace gantry::cli
