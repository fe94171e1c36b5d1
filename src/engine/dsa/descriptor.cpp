#include "engine/dsa/descriptor.hpp"

#include <utility>

namespace gantry::dsa {

std::string_view to_string(Opcode opcode) noexcept {
  switch (opcode) {
    case Opcode::noop:
      return "no operation";
    case Opcode::batch:
      return "batch";
    case Opcode::drain:
      return "drain";
    case Opcode::memmove:
      return "copy";
    case Opcode::memfill:
      return "fill";
    case Opcode::compare:
      return "compare";
    case Opcode::compare_pattern:
      return "compare with a pattern";
    case Opcode::create_delta:
      return "create a delta record";
    case Opcode::apply_delta:
      return "apply a delta record";
    case Opcode::dualcast:
      return "dual copy";
    case Opcode::crc:
      return "CRC";
    case Opcode::copy_crc:
      return "copy and CRC";
    case Opcode::cache_flush:
      return "cache flush";
  }
  return "unknown operation";
}

std::string to_string(Flags flags) {
  using enum Flags;
  static constexpr std::pair<Flags, std::string_view> kNames[] = {
      {fence, "fence"},
      {block_on_fault, "block on fault"},
      {completion_valid, "completion address valid"},
      {request_completion, "completion record requested"},
      {request_interrupt, "interrupt requested"},
      {check_result, "result checked"},
      {cache_control, "cache control"},
      {destination_readback, "destination readback"},
  };
  std::string text;
  const auto add = [&text](std::string_view name) {
    if (!text.empty()) text += ", ";
    text += name;
  };
  for (const auto& [flag, name] : kNames) {
    if (has(flags, flag)) add(name);
    flags = without(flags, flag);
  }
  if (flags != none) add("unknown");
  return text.empty() ? "none" : text;
}

std::string_view to_string(Status status) noexcept {
  switch (status) {
    case Status::none:
      return "not finished";
    case Status::success:
      return "done";
    case Status::success_with_predicate:
      return "done, but the result is not the expected one";
    case Status::page_fault:
      return "a page was not present; only part was done and the rest can be submitted again";
    case Status::page_fault_unresolved:
      return "a page was not present and the kernel could not supply it; only part was done";
    case Status::batch_failed:
      return "an operation of the batch did not succeed";
    case Status::batch_page_fault:
      return "a page of the batch's list was not present; the rest can be submitted again";
    case Status::bad_opcode:
      return "the device or this queue does not know the operation, or not inside a batch";
    case Status::bad_flags:
      return "a flag is not possible with this operation or on this queue";
    case Status::reserved_not_zero:
      return "a reserved field is not zero";
    case Status::size_out_of_range:
      return "the size is zero or above the queue's max_transfer_size";
    case Status::count_out_of_range:
      return "the batch has too few descriptors or more than the queue's max_batch_size";
    case Status::overlap:
      return "the ranges overlap, which this operation forbids";
    case Status::dualcast_misaligned:
      return "the two destinations differ in their offset within a 4 KiB page";
    case Status::list_misaligned:
      return "the batch's list is not aligned to 64 bytes";
    case Status::bad_interrupt_handle:
      return "the interrupt asked for is not the process's";
    case Status::completion_not_translated:
      return "the completion record's address is not mapped or not writable";
    case Status::completion_misaligned:
      return "the completion record is not aligned to 32 bytes";
  }
  return "a status unknown to this version";
}

}  // namespace gantry::dsa
