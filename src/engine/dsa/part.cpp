#include "engine/dsa/part.hpp"

#include <bit>

#include "engine/dsa/address.hpp"

namespace gantry::dsa {
namespace {

// Takes `bytes` that are done off the front of what is left.
void shorten(Part& part, Bytes bytes) noexcept {
  Move& move = part.move;
  move.bytes -= bytes;
  part.certain += bytes;
  if (move.source != nullptr) move.source += bytes;
  move.destination += bytes;
  // The pattern begins anew with each descriptor, so it is turned.
  move.pattern = std::rotr(move.pattern, static_cast<int>(bytes % sizeof move.pattern * 8));
}

// The published rule: what was done is taken off the front. `result` says that it is the tail of
// what was moved, which the device does only where source and destination overlap: never here.
Next after_page_fault(Part& part, const CompletionRecord& record, Next next) noexcept {
  const Bytes done = record.bytes_completed;
  const bool from_the_tail = part.move.kind == Move::Kind::copy && record.result != 0;
  if (done > part.move.bytes || from_the_tail) return Next::by_cpu;
  shorten(part, done);
  return part.move.bytes == 0 ? Next::done : next;
}

}  // namespace

Descriptor describe(const Part& part, const CompletionRecord& record) noexcept {
  const Move& move = part.move;
  const bool fills = move.kind == Move::Kind::fill;
  Flags flags = Flags::completion_valid | Flags::request_completion;
  if (part.cache == CacheUse::reader_soon) flags = flags | Flags::cache_control;
  Descriptor descriptor;
  descriptor.set(fills ? Opcode::memfill : Opcode::memmove, flags);
  descriptor.completion = address_of(&record);
  descriptor.size = static_cast<std::uint32_t>(move.bytes);
  descriptor.source = fills ? move.pattern : address_of(move.source);
  descriptor.destination = address_of(move.destination);
  return descriptor;
}

Next judge(Part& part, const CompletionRecord& record, std::uint8_t status) noexcept {
  switch (status_in(status)) {
    case Status::success:
    case Status::success_with_predicate:
      shorten(part, part.move.bytes);
      return Next::done;
    case Status::page_fault:
      return after_page_fault(part, record, Next::again);
    case Status::page_fault_unresolved:
      return after_page_fault(part, record, Next::by_cpu);
    default:
      return Next::by_cpu;
  }
}

}  // namespace gantry::dsa
