#pragma once  // tools/gantry/run/file/substitute.hpp: replaces {key} in a text by the setting of
              // that name.

#include <gantry/types.hpp>
#include <utility>
#include <vector>

namespace gantry::run {

struct Setting {
  std::string key;
  std::string value;
};

/// Replaces every {key} of `text`; "{{" and "}}" stand for the braces themselves. The error's
/// message gives only the reason; the caller adds what and where.
[[nodiscard]] Result<std::string> substitute(std::string_view text,
                                             const std::vector<Setting>& settings);

}  // namespace gantry::run
