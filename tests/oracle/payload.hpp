#pragma once  // oracle/payload.hpp: whose message it is, and what each of its bytes must be.

#include <cstring>
#include <optional>
#include <string>

#include "fault/payload.hpp"

namespace gantry::oracle {

/// A message: which sender, which life of that sender, which of its messages. Travels as
/// MessageInfo::type.
struct Id {
  static constexpr unsigned kStreams = 32, kEpochs = 32;
  static constexpr unsigned kReply = 16;  ///< A reply's stream is its client's and this.

  unsigned stream = 0;
  unsigned epoch = 0;
  std::uint32_t number = 0;  ///< From 0.

  [[nodiscard]] constexpr std::uint32_t pack() const noexcept {
    return stream << 27 | epoch << 22 | number;
  }
  [[nodiscard]] static constexpr Id unpack(std::uint32_t word) noexcept {
    return {word >> 27, word >> 22 & 31, word & 0x3fffff};
  }
};
[[nodiscard]] std::string to_string(Id id);

/// Word `index` of the payload. Byte o is byte o % 8 of word o / 8, little endian.
[[nodiscard]] inline std::uint64_t word_of(Id id, std::size_t index) noexcept {
  return fault::payload_word(id.pack() + std::uint64_t{1}, index);
}

/// `bytes` lie at `offset` in the payload.
void fill(ByteSpan bytes, Id id, Bytes offset = 0) noexcept;

/// The offset in the payload of the first byte that is not as it must be.
[[nodiscard]] std::optional<Bytes> first_wrong(ConstByteSpan bytes, Id id,
                                               Bytes offset = 0) noexcept;

/// What lies at `wrong` instead, and whose bytes these are if they are any message's.
[[nodiscard]] std::string describe_wrong(ConstByteSpan bytes, Id id, Bytes offset, Bytes wrong);

}  // namespace gantry::oracle
