#include "engine/dsa/part.hpp"

#include <algorithm>
#include <bit>

#include "engine/dsa/address.hpp"

namespace gantry::dsa {
namespace {

constexpr std::uint64_t kDevicePage = 4096;  // the device's own, whatever the kernel's is

Opcode opcode_of(Move::Kind kind) noexcept {
  switch (kind) {
    case Move::Kind::copy:
      return Opcode::memmove;
    case Move::Kind::fill:
      return Opcode::memfill;
    case Move::Kind::compare:
      return Opcode::compare;
    case Move::Kind::crc32c:
      return Opcode::crc;
    case Move::Kind::copy_crc32c:
      return Opcode::copy_crc;
    case Move::Kind::dual_copy:
      return Opcode::dualcast;
    case Move::Kind::reshape:
      break;  // see device_takes()
  }
  return Opcode::noop;
}

bool has_crc(Move::Kind kind) noexcept {
  return kind == Move::Kind::crc32c || kind == Move::Kind::copy_crc32c;
}

std::uint32_t crc_in(const CompletionRecord& record) noexcept {
  return static_cast<std::uint32_t>(record.extra[0]);
}

// A record that claims the impossible: what happened is unknown.
Verdict after_nonsense(const Part& part) noexcept {
  return {is_repeatable(part.move) ? Verdict::Next::by_cpu : Verdict::Next::lost};
}

Verdict after_success(Part& part, const CompletionRecord& record) noexcept {
  Move& move = part.move;
  if (move.kind == Move::Kind::compare && record.result != 0) {
    if (record.bytes_completed >= move.bytes) return after_nonsense(part);
    return {Verdict::Next::done, part.offset + part.certain + record.bytes_completed};
  }
  if (has_crc(move.kind)) move.seed = crc_in(record);
  part.certain += move.bytes;
  move.bytes = 0;
  return {};
}

// The published rule: what was done is taken off the front, or off the tail if `result` says so.
Verdict after_page_fault(Part& part, const CompletionRecord& record, Verdict::Next next) noexcept {
  const Bytes done = record.bytes_completed;
  if (done > part.move.bytes) return after_nonsense(part);
  if (has_crc(part.move.kind)) part.move.seed = crc_in(record);
  shorten(part, done, part.move.kind == Move::Kind::copy && record.result == 1);
  return {part.move.bytes == 0 ? Verdict::Next::done : next};
}

// True if the device says that it looked at the descriptor and did not begin.
bool is_refusal(Status status) noexcept {
  return status >= Status::bad_opcode && status <= Status::completion_misaligned;
}

}  // namespace

bool device_takes(const Move& move) noexcept {
  if (move.kind == Move::Kind::reshape) return false;
  if (move.kind != Move::Kind::dual_copy) return true;
  const std::uint64_t apart = address_of(move.destination) ^ address_of(move.second_destination);
  return apart % kDevicePage == 0;
}

bool is_repeatable(const Move& move) noexcept {
  if (move.kind != Move::Kind::copy) return true;
  const Address from = address_of(move.source);
  const Address to = address_of(move.destination);
  return from < to ? to - from >= move.bytes : from - to >= move.bytes;
}

Descriptor describe(const Part& part, const CompletionRecord& record) noexcept {
  const Move& move = part.move;
  Flags flags = Flags::completion_valid | Flags::request_completion;
  if (move.writes() && part.cache == CacheUse::reader_soon) flags = flags | Flags::cache_control;
  Descriptor descriptor;
  descriptor.set(opcode_of(move.kind), flags);
  descriptor.completion = address_of(&record);
  descriptor.size = static_cast<std::uint32_t>(move.bytes);
  descriptor.source = move.kind == Move::Kind::fill ? move.pattern : address_of(move.source);
  if (move.kind == Move::Kind::compare)
    descriptor.destination = address_of(move.second_source);
  else if (move.writes())
    descriptor.destination = address_of(move.destination);
  if (has_crc(move.kind)) descriptor.extra[0] = move.seed;
  if (move.kind == Move::Kind::dual_copy) descriptor.extra[0] = address_of(move.second_destination);
  return descriptor;
}

Verdict judge(Part& part, const CompletionRecord& record, std::uint8_t status) noexcept {
  switch (status_in(status)) {
    case Status::success:
    case Status::success_with_predicate:
      return after_success(part, record);
    case Status::page_fault:
      return after_page_fault(part, record, Verdict::Next::again);
    case Status::page_fault_unresolved:
      return after_page_fault(part, record, Verdict::Next::by_cpu);
    default:
      break;
  }
  return is_refusal(status_in(status)) ? Verdict{Verdict::Next::by_cpu} : after_nonsense(part);
}

void shorten(Part& part, Bytes bytes, bool tail) noexcept {
  Move& move = part.move;
  move.bytes -= bytes;
  // If a front-first descriptor did a part of a move that is done from its end, that says nothing
  // yet about the bytes behind it; a complete one does.
  if (tail == part.backwards) part.certain += bytes;
  if (tail) return;
  if (move.kind == Move::Kind::reshape) {  // its source stays whole
    move.plan_from += bytes;
    move.destination += bytes;
    return;
  }
  for (const std::byte** at : {&move.source, &move.second_source})
    if (*at != nullptr) *at += bytes;
  for (std::byte** at : {&move.destination, &move.second_destination})
    if (*at != nullptr) *at += bytes;
  // The pattern begins anew with each descriptor, so it is turned.
  move.pattern = std::rotr(move.pattern, static_cast<int>(bytes % sizeof move.pattern * 8));
}

}  // namespace gantry::dsa
