#pragma once  // bench/peers/built.hpp: which other systems were built, and where they lie.

#include <optional>
#include <string>
#include <string_view>

namespace gantry::bench {

/// Where the programs of peers lie, and the libraries: beside the running program.
[[nodiscard]] std::string peer_path(const std::string& file);

/// Why that file cannot take part, if it was not built for want of `packages`.
[[nodiscard]] std::optional<std::string> lack_of_peer(const std::string& file,
                                                      std::string_view packages);

}  // namespace gantry::bench
