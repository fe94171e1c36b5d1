#pragma once  // channel/rpc/option_parts.hpp: what an end that is two hands to each of them.

#include <gantry/channel/options.hpp>

namespace gantry {

[[nodiscard]] inline const EndOptions& end_part(const EndOptions& all) noexcept {
  return all;
}
[[nodiscard]] inline const PayloadOptions& payload_part(const PayloadOptions& all) noexcept {
  return all;
}

}  // namespace gantry
