#include "channel/producer/conversion.hpp"

#include "base/result.hpp"

namespace gantry {
namespace {

// What is sent is what is wanted.
bool changes_nothing(const As& as, const ReshapePlan& plan) {
  return !as.plan && plan.source().type == plan.destination().type &&
         plan.source_bytes() == plan.destination_bytes() && plan.kind() != ReshapeClass::permuting;
}

Result<void> settle(Draft::Part& part, const As& wish) {
  if (part.bytes.empty() && !part.tensor) {  // there is nothing to convert
    part.as.reset();
    return {};
  }
  GANTRY_ASSIGN(const ReshapePlan plan, wish.plan_for(part.tensor, part.bytes.size()));
  if (changes_nothing(wish, plan)) {
    if (!part.tensor) part.tensor = plan.source();
    part.as.reset();
    return {};
  }
  if (part.moved || part.forwarded)
    return fail(Code::invalid_argument,
                fmt::format("a {} of {} cannot become {}: it is not copied",
                            part.moved ? "block" : "message that travels on",
                            to_string(plan.source().type), to_string(plan.destination().type)),
                "send its bytes with Draft::copy(), which converts while it copies");
  part.as = As(plan);
  return {};
}

}  // namespace

Result<void> settle_conversions(std::span<Draft::Part> parts, const As* wish) {
  for (Draft::Part& part : parts) {
    if (!part.as && wish == nullptr) continue;
    const As as = part.as ? *part.as : *wish;
    GANTRY_TRY(settle(part, as));
  }
  return {};
}

}  // namespace gantry
