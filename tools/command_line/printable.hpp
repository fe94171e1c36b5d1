#pragma once  // tools/command_line/printable.hpp: text of others, on its way to a terminal.

#include <string>
#include <string_view>

namespace gantry::cli {

/// One line of UTF-8 that a terminal takes for nothing but text: line ends and tabulators become
/// spaces, other control characters, those of C1 as well (0x80 to 0x9f and U+0080 to U+009F), and
/// what is not UTF-8 become '?'.
[[nodiscard]] std::string printable(std::string_view text);

}  // namespace gantry::cli
