#pragma once  // channel/producer/conversion.hpp: what parts of a message become on their way.

#include <gantry/channel/message.hpp>
#include <gantry/channel/options.hpp>
#include <span>

namespace gantry {

/// How a part is converted; null: it is copied as it is. Known after settle_conversions().
[[nodiscard]] inline const ReshapePlan* plan_of(const Draft::Part& part) noexcept {
  return part.as && part.as->plan ? &*part.as->plan : nullptr;
}
/// Its bytes and its tensor in the message.
[[nodiscard]] inline Bytes size_of(const Draft::Part& part) noexcept {
  const ReshapePlan* plan = plan_of(part);
  return plan != nullptr ? plan->destination_bytes() : part.bytes.size();
}
[[nodiscard]] inline std::optional<Tensor> tensor_of(const Draft::Part& part) {
  const ReshapePlan* plan = plan_of(part);
  return plan != nullptr ? plan->destination() : part.tensor;
}
/// The wish that counts: the send's, or else the channel's.
[[nodiscard]] inline const As* wish_of(const SendOptions& options,
                                       const std::optional<As>& channel) noexcept {
  return options.as != nullptr ? options.as : channel ? &*channel : nullptr;
}

/// Gives each part that is to become something else its plan. A second time it changes nothing.
/// Errors: As::plan_for(); `invalid_argument` for a block or a message that travels on and is of
/// another type, since neither is copied.
[[nodiscard]] Result<void> settle_conversions(std::span<Draft::Part> parts, const As* wish);

}  // namespace gantry
