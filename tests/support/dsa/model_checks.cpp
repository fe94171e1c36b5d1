#include "support/dsa/model_checks.hpp"

namespace gantry::dsa {
namespace {

using enum Flags;

// What may be said about any operation. FENCE is for batches, see allowed_flags().
constexpr Flags kCommon = completion_valid | request_completion | request_interrupt;
constexpr Flags kWriter = kCommon | block_on_fault | cache_control | destination_readback;

struct Rule {
  Flags allowed;
  Flags needed;          // an operation whose result stands in the record cannot do without one
  unsigned extra_bytes;  // how many of the operation's own 24 bytes mean something
  bool moves;            // `size` is a number of bytes
  bool may_be_in_batch;
};

constexpr Flags kRecord = completion_valid | request_completion;

const Rule* rule_for(Opcode opcode) noexcept {
  static constexpr Rule kNoop{kCommon, none, 0, false, true};
  static constexpr Rule kDrain{kCommon, none, 0, false, false};
  static constexpr Rule kBatch{kCommon | block_on_fault, none, 0, false, false};
  static constexpr Rule kMove{kWriter, none, 0, true, true};
  static constexpr Rule kCompare{kCommon | block_on_fault | check_result, kRecord, 1, true, true};
  static constexpr Rule kDualcast{kWriter, none, 8, true, true};
  static constexpr Rule kCrc{kCommon | block_on_fault, kRecord, 4, true, true};
  static constexpr Rule kCopyCrc{kWriter, kRecord, 4, true, true};
  static constexpr Rule kFlush{kCommon | block_on_fault | cache_control, none, 0, true, true};
  switch (opcode) {
    case Opcode::noop:
      return &kNoop;
    case Opcode::batch:
      return &kBatch;
    case Opcode::drain:
      return &kDrain;
    case Opcode::memmove:
    case Opcode::memfill:
      return &kMove;
    case Opcode::compare:
      return &kCompare;
    case Opcode::dualcast:
      return &kDualcast;
    case Opcode::crc:
      return &kCrc;
    case Opcode::copy_crc:
      return &kCopyCrc;
    case Opcode::cache_flush:
      return &kFlush;
    case Opcode::compare_pattern:
    case Opcode::create_delta:
    case Opcode::apply_delta:
      break;  // real operations, which this model's queue is not configured for
  }
  return nullptr;
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
  Flags bad = without(flags, allowed) | without(rule.needed, flags);
  if (has(flags, request_completion) && !has(flags, completion_valid))
    bad = bad | request_completion;
  return bad;
}

bool reserved_is_zero(const Descriptor& descriptor, const Rule& rule) noexcept {
  constexpr std::uint32_t kOwnerReserved = 0x7ff0'0000;
  if ((descriptor.owner & kOwnerReserved) != 0 || descriptor.reserved != 0) return false;
  const unsigned used_bits = rule.extra_bytes * 8;
  const std::uint64_t unused = used_bits == 64 ? 0 : descriptor.extra[0] >> used_bits;
  return unused == 0 && descriptor.extra[1] == 0 && descriptor.extra[2] == 0;
}

Status check_batch(const Descriptor& descriptor, const Limits& limits) noexcept {
  const std::uint32_t least = limits.version == 1 ? 2 : 1;
  if (descriptor.size < least || descriptor.size > limits.max_batch)
    return Status::count_out_of_range;
  return descriptor.source % alignof(Descriptor) == 0 ? Status::success : Status::list_misaligned;
}

Status check_ranges(const Descriptor& descriptor) noexcept {
  const Address source = descriptor.source;
  const Address first = descriptor.destination;
  const Address second = descriptor.extra[0];
  const Bytes bytes = descriptor.size;
  if (descriptor.opcode() == Opcode::copy_crc && overlaps(source, first, bytes))
    return Status::overlap;
  if (descriptor.opcode() != Opcode::dualcast) return Status::success;
  if (overlaps(source, first, bytes) || overlaps(source, second, bytes) ||
      overlaps(first, second, bytes))
    return Status::overlap;
  return (first ^ second) % 4096 == 0 ? Status::success : Status::dualcast_misaligned;
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
  if (!reserved_is_zero(descriptor, *rule)) return {Status::reserved_not_zero};
  // User queues have no interrupt handles to give, so none is right.
  if (has(descriptor.flags(), request_interrupt)) return {Status::bad_interrupt_handle};
  if (descriptor.opcode() == Opcode::batch) return {check_batch(descriptor, limits)};
  if (!rule->moves) return {};
  if (descriptor.size == 0 || descriptor.size > limits.max_transfer_bytes)
    return {Status::size_out_of_range};
  return {check_ranges(descriptor)};
}

}  // namespace gantry::dsa
