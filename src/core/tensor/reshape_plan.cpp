#include <gantry/types.hpp>

#include "core/base/result.hpp"
#include "core/tensor/float_mode.hpp"
#include "core/tensor/plan_source.hpp"
#include "core/tensor/reshape_state.hpp"

namespace gantry {

std::string ReshapeError::text() const {
  std::string text = "exact";
  if (kind == Kind::ulps) text = fmt::format("{} ulp", amount);
  if (kind == Kind::steps) text = fmt::format("{} of the group's scale", amount);
  if (kind == Kind::binades) text = fmt::format("{} ulp of the element times its scale", amount);
  return saturates ? text + ", saturates" : text;
}

std::string_view to_string(ReshapeClass kind) noexcept {
  constexpr std::string_view kTexts[kReshapeClasses] = {"narrowing", "widening", "permuting"};
  return static_cast<std::size_t>(kind) < kReshapeClasses ? kTexts[static_cast<std::size_t>(kind)]
                                                          : "unknown";
}

const Tensor& ReshapePlan::source() const noexcept {
  return state_->from;
}
const Tensor& ReshapePlan::destination() const noexcept {
  return state_->to;
}
Bytes ReshapePlan::source_bytes() const noexcept {
  return state_->from_bytes;
}
Bytes ReshapePlan::destination_bytes() const noexcept {
  return state_->to_bytes;
}
Bytes ReshapePlan::unit() const noexcept {
  return state_->unit;
}
ByteRange ReshapePlan::source_of(ByteRange destination) const noexcept {
  return state_->source_of(destination);
}
Bytes ReshapePlan::destination_from(Bytes source_prefix) const noexcept {
  return state_->destination_from(source_prefix);
}
const ReshapeError& ReshapePlan::error() const noexcept {
  return state_->error;
}
ReshapeClass ReshapePlan::kind() const noexcept {
  return state_->kind;
}

std::string ReshapePlan::text() const {
  return fmt::format("{} to {}, {}, {}", shape::text_of(state_->from), shape::text_of(state_->to),
                     to_string(state_->kind), state_->error.text());
}

bool ReshapePlan::convert(ByteSpan to, ConstByteSpan source, Bytes from,
                          Bytes source_from) const noexcept {
  if (from > destination_bytes() || to.size() > destination_bytes() - from) return false;
  const ByteRange needed = source_of({from, to.size()});
  if (needed.bytes > 0 && (needed.from < source_from || needed.end() - source_from > source.size()))
    return false;
  if (to.empty()) return true;
  // Where the whole source would begin; bytes before `source` are not read.
  const auto front = reinterpret_cast<std::uintptr_t>(source.data()) - source_from;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): it was one
  const auto* const whole = reinterpret_cast<const std::byte*>(front);
  const shape::FloatMode mode;
  state_->make(to.data(), whole, from, to.size(), false);
  return true;
}

std::string As::text() const {
  if (plan) return plan->text();
  return from ? fmt::format("{} -> {}", to_string(*from), to_string(to)) : to_string(to);
}

}  // namespace gantry
