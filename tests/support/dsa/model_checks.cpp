#include "support/dsa/model_checks.hpp"

namespace gantry::dsa {
namespace {

using enum Flags;

// What may be said about any operation. FENCE is for batches, see allowed_flags().
constexpr Flags kCommon = completion_valid | request_completion | request_interrupt;
constexpr Flags kWriter = kCommon | block_on_fault | cache_control | destination_readback;

struct Rule {
  Flags allowed;
  bool moves;  // `size` is a number of bytes
  bool may_be_in_batch;
};

const Rule* rule_for(Opcode opcode) noexcept {
  static constexpr Rule kNoop{kCommon, false, true};
  static constexpr Rule kBatch{kCommon | block_on_fault, false, false};
  static constexpr Rule kMove{kWriter, true, true};
  switch (opcode) {
    case Opcode::noop:
      return &kNoop;
    case Opcode::batch:
      return &kBatch;
    case Opcode::memmove:
    case Opcode::memfill:
      return &kMove;
  }
  return nullptr;  // others are real, too, but this model's queue is not configured for them
}

Status check_completion(const Descriptor& descriptor) noexcept {
  if (!has(descriptor.flags(), completion_valid)) return Status::success;
  if (descriptor.completion % alignof(CompletionRecord) != 0) return Status::completion_misaligned;
  const std::uint16_t zero = 0;
  const Address reserved = descriptor.completion + offsetof(CompletionRecord, reserved);
  return copy_mapped(reserved, address_of(&zero), sizeof zero) == sizeof zero
             ? Status::success
             : Status::completion_not_translated;
}

Flags bad_flags_of(const Descriptor& descriptor, const Rule& rule, Place place) noexcept {
  const Flags flags = descriptor.flags();
  const Flags allowed = place == Place::batch ? rule.allowed | fence : rule.allowed;
  Flags bad = without(flags, allowed);
  if (has(flags, request_completion) && !has(flags, completion_valid))
    bad = bad | request_completion;
  return bad;
}

bool reserved_is_zero(const Descriptor& descriptor) noexcept {
  constexpr std::uint32_t kOwnerReserved = 0x7ff0'0000;
  return (descriptor.owner & kOwnerReserved) == 0 && descriptor.reserved == 0 &&
         descriptor.extra == std::array<std::uint64_t, 3>{};
}

Status check_batch(const Descriptor& descriptor, const Limits& limits) noexcept {
  const std::uint32_t least = limits.version == 1 ? 2 : 1;
  if (descriptor.size < least || descriptor.size > limits.max_batch)
    return Status::count_out_of_range;
  return descriptor.source % alignof(Descriptor) == 0 ? Status::success : Status::list_misaligned;
}

}  // namespace

Checked check(const Descriptor& descriptor, const Limits& limits, Place place) noexcept {
  if (const Status status = check_completion(descriptor); status != Status::success)
    return {status};
  const Rule* rule = rule_for(descriptor.opcode());
  if (rule == nullptr || (place == Place::batch && !rule->may_be_in_batch))
    return {Status::bad_opcode};
  if (const Flags bad = bad_flags_of(descriptor, *rule, place); bad != none)
    return {Status::bad_flags, bad};
  if (!reserved_is_zero(descriptor)) return {Status::reserved_not_zero};
  // User queues have no interrupt handles to give, so none is right.
  if (has(descriptor.flags(), request_interrupt)) return {Status::bad_interrupt_handle};
  if (descriptor.opcode() == Opcode::batch) return {check_batch(descriptor, limits)};
  if (!rule->moves) return {};
  if (descriptor.size == 0 || descriptor.size > limits.max_transfer_bytes)
    return {Status::size_out_of_range};
  return {};
}

}  // namespace gantry::dsa
