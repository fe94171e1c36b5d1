#include "support/dsa/model_operations.hpp"

#include <algorithm>
#include <cstring>

#include "support/dsa/model_checks.hpp"

namespace gantry::dsa {
namespace {

constexpr Bytes kPieceBytes = Bytes{64} << 10;  // a multiple of the pattern's eight bytes

// The source is tried again to tell which of the two sides it was.
Executed copied_until(Address destination, Address source, Bytes done, Bytes wanted) noexcept {
  Executed executed{.bytes = done};
  if (done == wanted) return executed;
  const bool read = is_readable(source + done);
  executed.fault = Operand{read ? destination + done : source + done, read};
  return executed;
}

}  // namespace

Operands operands_of(const Descriptor& descriptor) noexcept {
  const Operand read{descriptor.source, false};
  const Operand written{descriptor.destination, true};
  switch (descriptor.opcode()) {
    case Opcode::memmove:
      return {{read, written}, 2};
    case Opcode::memfill:
      return {{written}, 1};
    default:
      return {};
  }
}

Operations::Operations() : piece_(kPieceBytes) {}

Executed Operations::execute(const Descriptor& descriptor, const std::optional<Stop>& stop) {
  const Bytes size = descriptor.size;
  if (!stop) return run(descriptor, size);
  const Bytes allowed = std::min(stop->after, size - 1);
  const bool backward = descriptor.opcode() == Opcode::memmove &&
                        descriptor.destination > descriptor.source &&
                        overlaps(descriptor.source, descriptor.destination, size);
  const Bytes left = backward ? size - allowed : 0;
  // From the tail even if that part alone does not overlap: the answer says so.
  Executed executed =
      backward ? move_backward(descriptor.destination + left, descriptor.source + left, allowed)
               : run(descriptor, allowed);
  executed.result = backward ? 1 : executed.result;
  if (executed.fault) return executed;
  executed.fault = stop->at;
  executed.fault->address += backward ? left - 1 : allowed;
  return executed;
}

Executed Operations::run(const Descriptor& descriptor, Bytes bytes) {
  switch (descriptor.opcode()) {
    case Opcode::memmove:
      return move(descriptor.destination, descriptor.source, bytes);
    case Opcode::memfill:
      return fill(descriptor.destination, descriptor.source, bytes);
    default:
      return {.bytes = bytes};
  }
}

// Whoever goes on after a fault relies on what was not done being as it was, so the order of an
// overlapping move is the one that never writes over what is still to be read.
Executed Operations::move(Address destination, Address source, Bytes bytes) {
  if (!overlaps(source, destination, bytes))
    return copied_until(destination, source, copy_mapped(destination, source, bytes), bytes);
  return destination > source ? move_backward(destination, source, bytes)
                              : move_forward(destination, source, bytes);
}

Executed Operations::move_forward(Address destination, Address source, Bytes bytes) {
  const Address piece = address_of(piece_.data());
  for (Bytes done = 0; done < bytes;) {
    const Address from = source + done;
    const Address to = destination + done;
    const Bytes wanted = std::min({bytes - done, left_in_page(from), left_in_page(to)});
    if (copy_mapped(piece, from, wanted) != wanted || copy_mapped(to, piece, wanted) != wanted)
      return copied_until(destination, source, done, bytes);
    done += wanted;
  }
  return {.bytes = bytes};
}

Executed Operations::move_backward(Address destination, Address source, Bytes bytes) {
  const Address piece = address_of(piece_.data());
  for (Bytes left = bytes; left > 0;) {
    const Bytes wanted = std::min(
        {left, left_before_in_page(source + left), left_before_in_page(destination + left)});
    const Address from = source + left - wanted;
    const Address to = destination + left - wanted;
    const bool read = copy_mapped(piece, from, wanted) == wanted;
    if (!read || copy_mapped(to, piece, wanted) != wanted)
      return {.bytes = bytes - left,
              .result = 1,
              .fault = Operand{(read ? destination : source) + left - 1, read}};
    left -= wanted;
  }
  return {.bytes = bytes};
}

Executed Operations::fill(Address destination, std::uint64_t pattern, Bytes bytes) {
  const Bytes piece = std::min((bytes + 7) / 8 * 8, kPieceBytes);
  for (Bytes i = 0; i < piece; i += sizeof pattern)
    std::memcpy(piece_.data() + i, &pattern, sizeof pattern);
  for (Bytes done = 0; done < bytes;) {
    const Bytes wanted = std::min(bytes - done, kPieceBytes);
    const Bytes got = copy_mapped(destination + done, address_of(piece_.data()), wanted);
    done += got;
    if (got < wanted) return {.bytes = done, .fault = Operand{destination + done, true}};
  }
  return {.bytes = bytes};
}

}  // namespace gantry::dsa
