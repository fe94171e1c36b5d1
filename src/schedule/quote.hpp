#pragma once  // schedule/quote.hpp: what somebody wrote, in an error.

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace gantry {

/// 'text'. Of a long one its beginning and its length: an error has one line, and texts have words
/// of any size.
[[nodiscard]] inline std::string quote(std::string_view text) {
  constexpr std::size_t kMost = 64;
  if (text.size() <= kMost) return fmt::format("'{}'", text);
  std::size_t end = kMost;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;  // UTF-8
  return fmt::format("'{}...' ({} bytes)", text.substr(0, end), text.size());
}

}  // namespace gantry
