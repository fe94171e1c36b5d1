#pragma once  // schedule/collective/builtin.hpp: the programs that come with the library.

#include <span>
#include <string_view>

namespace gantry::collective {

/// The texts of programs/*.gcoll, which the build puts into the library.
[[nodiscard]] std::span<const std::string_view> builtin_programs() noexcept;

}  // namespace gantry::collective
