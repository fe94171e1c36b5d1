#pragma once  // command_line/json_text.hpp: JSON as text, whatever its strings hold.

#include <nlohmann/json.hpp>
#include <string>

namespace gantry::cli {

/// Bytes that are no UTF-8 become U+FFFD: names of files may have any, and dump() alone throws.
/// `indent`: -1 is one line.
template <class Json>
[[nodiscard]] std::string json_text(const Json& json, int indent = -1) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace gantry::cli
