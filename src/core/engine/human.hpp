#pragma once  // engine/human.hpp: formats sizes and times for people, for explanations.

#include <gantry/types.hpp>

namespace gantry {

[[nodiscard]] std::string human_bytes(Bytes bytes);  ///< "4 MiB", "1.5 KiB"
[[nodiscard]] std::string human_time(double ns);     ///< "18.2 us"

}  // namespace gantry
