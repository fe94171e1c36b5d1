#pragma once  // tools/gantry/run/file/substitute.hpp: {key} in a text becomes the setting of that
              // name.

#include <gantry/types.hpp>
#include <utility>
#include <vector>

namespace gantry::run {

struct Setting {
  std::string key;
  std::string value;
};

/// Every {key} of `text` replaced; "{{" and "}}" stand for the braces themselves. The error's
/// message says why, and leaves what and where to the caller.
[[nodiscard]] Result<std::string> substitute(std::string_view text,
                                             const std::vector<Setting>& settings);

}  // namespace gantry::run
