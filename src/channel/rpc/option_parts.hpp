#pragma once  // channel/rpc/option_parts.hpp: options that an end made of two ends hands to each of
              // them.

#include <gantry/channel/options.hpp>

namespace gantry {

[[nodiscard]] inline EndOptions end_part(const EndOptions& all) {
  return all;
}
/// Without `as`, which is of the user's payloads alone: what the ends say to each other besides
/// travels as it is. Each send of a payload names it.
[[nodiscard]] inline PayloadOptions payload_part(const PayloadOptions& all) {
  PayloadOptions part = all;
  part.as.reset();
  return part;
}
/// Of such a send: SendOptions::as. Lives as long as `all`.
[[nodiscard]] inline const As* wish_of(const PayloadOptions& all) noexcept {
  return all.as ? &*all.as : nullptr;
}

}  // namespace gantry
