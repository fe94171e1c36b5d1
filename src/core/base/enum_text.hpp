#pragma once  // base/enum_text.hpp: texts of enumerations.

#include <cstddef>
#include <string_view>

namespace gantry {

/// The text of a value of an enumeration that counts from 0; `texts` has its order. A value beyond
/// it is `unknown`.
template <class Enumeration, std::size_t count>
[[nodiscard]] constexpr std::string_view text_in(const std::string_view (&texts)[count],
                                                 Enumeration value,
                                                 std::string_view unknown = "unknown") noexcept {
  const auto at = static_cast<std::size_t>(value);
  return at < count ? texts[at] : unknown;
}

}  // namespace gantry
