#include "channel/producer/conversion.hpp"

#include "base/result.hpp"
#include "engine/shape/plan_source.hpp"

namespace gantry {
namespace {

// What is sent is what is wanted.
bool changes_nothing(const As& as, const ReshapePlan& plan) {
  return !as.plan && plan.source().type == plan.destination().type &&
         plan.source_bytes() == plan.destination_bytes() && plan.kind() != ReshapeClass::permuting;
}

// Of a plan that the user made: it is for what is sent, and for all of it.
Result<void> check_given(const As& wish, Bytes bytes) {
  const ReshapePlan& plan = *wish.plan;
  if (bytes - plan.source_bytes() > shape::gap_behind(plan.source()))
    return fail(Code::invalid_argument,
                fmt::format("{} bytes are sent, the plan reads {}: {}", bytes, plan.source_bytes(),
                            plan.text()),
                "send the plan's source alone, or make a plan for all of it");
  return {};
}

Result<void> settle(Draft::Part& part, const As& wish) {
  const bool is_for_it = part.as && part.as->plan;         // and not for all that the channel sends
  if (part.bytes.empty() && !part.tensor && !is_for_it) {  // there is nothing to convert
    part.as.reset();
    return {};
  }
  GANTRY_ASSIGN(const ReshapePlan plan, wish.plan_for(part.tensor, part.bytes.size()));
  if (wish.plan) GANTRY_TRY(check_given(wish, part.bytes.size()));
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
  part.copied = part.bytes = part.bytes.first(plan.source_bytes());
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
