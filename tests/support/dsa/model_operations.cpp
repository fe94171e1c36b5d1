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

constexpr auto kTables = [] {
  std::array<std::array<std::uint32_t, 256>, 8> tables{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? 0x82f6'3b78u : 0);
    tables[0][i] = crc;
  }
  for (std::size_t t = 1; t < 8; ++t)
    for (std::size_t i = 0; i < 256; ++i)
      tables[t][i] = tables[t - 1][i] >> 8 ^ tables[0][tables[t - 1][i] & 0xff];
  return tables;
}();

}  // namespace

// Eight bytes a turn by eight tables: the model should not be much slower than what it models.
std::uint32_t crc32c(std::uint32_t seed, ConstByteSpan bytes) noexcept {
  std::uint32_t crc = ~seed;
  std::size_t at = 0;
  const auto byte = [&](std::size_t i) { return std::to_integer<std::uint32_t>(bytes[at + i]); };
  for (; bytes.size() - at >= 8; at += 8) {
    const std::uint32_t low = crc ^ (byte(0) | byte(1) << 8 | byte(2) << 16 | byte(3) << 24);
    crc = kTables[7][low & 0xff] ^ kTables[6][low >> 8 & 0xff] ^ kTables[5][low >> 16 & 0xff] ^
          kTables[4][low >> 24] ^ kTables[3][byte(4)] ^ kTables[2][byte(5)] ^ kTables[1][byte(6)] ^
          kTables[0][byte(7)];
  }
  for (; at < bytes.size(); ++at) crc = crc >> 8 ^ kTables[0][(crc ^ byte(0)) & 0xff];
  return ~crc;
}

Operands operands_of(const Descriptor& descriptor) noexcept {
  const Operand read{descriptor.source, false};
  const Operand written{descriptor.destination, true};
  switch (descriptor.opcode()) {
    case Opcode::memmove:
    case Opcode::copy_crc:
      return {{read, written}, 2};
    case Opcode::memfill:
      return {{written}, 1};
    case Opcode::compare:
      return {{read, Operand{descriptor.destination, false}}, 2};
    case Opcode::dualcast:
      return {{read, written, Operand{descriptor.extra[0], true}}, 3};
    case Opcode::crc:
      return {{read}, 1};
    default:
      return {};
  }
}

Operations::Operations() : first_(kPieceBytes), second_(kPieceBytes) {}

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
  const bool differs = descriptor.opcode() == Opcode::compare && executed.result == 1;
  if (executed.fault || differs) return executed;
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
    case Opcode::compare:
      return compare(descriptor.source, descriptor.destination, bytes);
    case Opcode::dualcast:
      return dualcast(descriptor.destination, descriptor.extra[0], descriptor.source, bytes);
    case Opcode::crc:
    case Opcode::copy_crc:
      return checksum(descriptor, bytes);
    default:
      return {.bytes = bytes};  // a cache flush changes nothing that a program could see
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
  const Address piece = address_of(first_.data());
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
  const Address piece = address_of(first_.data());
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
    std::memcpy(first_.data() + i, &pattern, sizeof pattern);
  for (Bytes done = 0; done < bytes;) {
    const Bytes wanted = std::min(bytes - done, kPieceBytes);
    const Bytes got = copy_mapped(destination + done, address_of(first_.data()), wanted);
    done += got;
    if (got < wanted) return {.bytes = done, .fault = Operand{destination + done, true}};
  }
  return {.bytes = bytes};
}

Executed Operations::compare(Address first, Address second, Bytes bytes) {
  for (Bytes done = 0; done < bytes;) {
    const Bytes wanted = std::min(bytes - done, kPieceBytes);
    const Bytes of_first = copy_mapped(address_of(first_.data()), first + done, wanted);
    const Bytes of_second = copy_mapped(address_of(second_.data()), second + done, wanted);
    const auto both = static_cast<std::ptrdiff_t>(std::min(of_first, of_second));
    const auto differs = std::mismatch(first_.begin(), first_.begin() + both, second_.begin());
    done += static_cast<Bytes>(differs.first - first_.begin());
    if (differs.first - first_.begin() < both) return {.bytes = done, .result = 1};
    if (of_first < wanted || of_second < wanted)
      return {.bytes = done,
              .fault = Operand{(of_first <= of_second ? first : second) + done, false}};
  }
  return {.bytes = bytes};
}

Executed Operations::dualcast(Address first, Address second, Address source, Bytes bytes) {
  const Executed one = move(first, source, bytes);
  const Executed two = move(second, source, one.bytes);  // never more than the other received
  return two.fault ? two : one;
}

Executed Operations::checksum(const Descriptor& descriptor, Bytes bytes) {
  const Address piece = address_of(first_.data());
  Executed executed{.crc = static_cast<std::uint32_t>(descriptor.extra[0])};
  while (executed.bytes < bytes && !executed.fault) {
    const Address from = descriptor.source + executed.bytes;
    const Address to = descriptor.destination + executed.bytes;
    const Bytes wanted = std::min(bytes - executed.bytes, kPieceBytes);
    const Bytes read = copy_mapped(piece, from, wanted);
    const Bytes done = descriptor.opcode() == Opcode::crc ? read : copy_mapped(to, piece, read);
    executed.crc = crc32c(executed.crc, ConstByteSpan(first_).first(done));
    executed.bytes += done;
    if (done < read)
      executed.fault = Operand{to + done, true};
    else if (read < wanted)
      executed.fault = Operand{from + read, false};
  }
  return executed;
}

}  // namespace gantry::dsa
