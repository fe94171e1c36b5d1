#pragma once  // tools/gantry/options.hpp: command line options with a unit.

#include <CLI/CLI.hpp>

#include "output.hpp"

namespace gantry::cli {

/// An option whose text `parse` turns into a value; a text that it refuses is wrong usage.
template <class Value>
CLI::Option* add_parsed(CLI::App& app, const std::string& name, Value& value,
                        Result<Value> (*parse)(std::string_view), const std::string& type,
                        const std::string& help) {
  const auto take = [&value, parse, name](const std::string& text) {
    const auto parsed = parse(text);
    if (!parsed) throw CLI::ValidationError(name, to_string(parsed.error()));
    value = *parsed;
  };
  return app.add_option_function<std::string>(name, take, help)->type_name(type);
}

}  // namespace gantry::cli
