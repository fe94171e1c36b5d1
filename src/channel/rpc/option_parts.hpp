#pragma once  // channel/rpc/option_parts.hpp: options that an end made of two ends hands to each of
              // them.

#include <gantry/channel/options.hpp>

namespace gantry {

[[nodiscard]] inline EndOptions end_part(const EndOptions& all) {
  return all;
}
[[nodiscard]] inline PayloadOptions payload_part(const PayloadOptions& all) {
  return all;
}

}  // namespace gantry
