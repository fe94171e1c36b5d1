#pragma once  // bench/support/system/numbers.hpp: a number that is the whole of a text.

#include <charconv>
#include <optional>
#include <string_view>

namespace gantry::bench {

template <class Number>
[[nodiscard]] std::optional<Number> number_of(std::string_view text) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [rest, failed] = std::from_chars(text.data(), end, number);
  return failed == std::errc() && rest == end ? std::optional(number) : std::nullopt;
}

}  // namespace gantry::bench
