#include "oracle/payload.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace gantry::oracle {
namespace {

constexpr Bytes kWord = sizeof(std::uint64_t);

// The multiplicative inverse modulo 2^64, by Newton: each step doubles the bits that are right.
constexpr std::uint64_t inverse_of(std::uint64_t odd) noexcept {
  std::uint64_t inverse = odd;
  for (int i = 0; i < 6; ++i) inverse *= 2 - odd * inverse;
  return inverse;
}

struct Origin {
  Id id;
  Bytes offset = 0;
};

// Where these bytes are from: any message, any offset. Nothing when they are no message's.
std::optional<Origin> origin_of(ConstByteSpan bytes) noexcept {
  constexpr std::uint64_t kWords = std::uint64_t{1} << 20;
  for (Bytes skipped = 0; skipped < kWord && skipped + kWord <= bytes.size(); ++skipped) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + skipped, kWord);
    const std::uint64_t mixed = word * inverse_of(0xbf58476d1ce4e5b9);
    for (std::uint64_t index = 0; index < kWords; ++index) {
      const std::uint64_t packed = (mixed - index) * inverse_of(0x9e3779b97f4a7c15) - 1;
      if (packed <= 0xffffffff && index * kWord >= skipped)
        return Origin{Id::unpack(static_cast<std::uint32_t>(packed)), index * kWord - skipped};
    }
  }
  return std::nullopt;
}

std::byte byte_of(Id id, Bytes offset) noexcept {
  return static_cast<std::byte>(word_of(id, offset / kWord) >> offset % kWord * 8);
}

}  // namespace

std::string to_string(Id id) {
  return fmt::format("{}{}.{}.{}", id.stream >= Id::kReply ? "reply " : "message ",
                     id.stream % Id::kReply, id.epoch, id.number);
}

void fill(ByteSpan bytes, Id id, Bytes offset) noexcept {
  Bytes at = 0;
  for (; at < bytes.size() && (offset + at) % kWord != 0; ++at)
    bytes[at] = byte_of(id, offset + at);
  for (; at + kWord <= bytes.size(); at += kWord) {
    const std::uint64_t word = word_of(id, (offset + at) / kWord);
    std::memcpy(bytes.data() + at, &word, kWord);
  }
  for (; at < bytes.size(); ++at) bytes[at] = byte_of(id, offset + at);
}

std::optional<Bytes> first_wrong(ConstByteSpan bytes, Id id, Bytes offset) noexcept {
  const auto wrong_among = [&](Bytes from, Bytes to) -> std::optional<Bytes> {
    for (Bytes at = from; at < to; ++at)
      if (bytes[at] != byte_of(id, offset + at)) return offset + at;
    return std::nullopt;
  };
  const Bytes head = std::min(bytes.size(), (kWord - offset % kWord) % kWord);
  if (const auto wrong = wrong_among(0, head)) return wrong;
  Bytes at = head;
  for (; at + kWord <= bytes.size(); at += kWord) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, kWord);
    if (word != word_of(id, (offset + at) / kWord)) return wrong_among(at, at + kWord);
  }
  return wrong_among(at, bytes.size());
}

std::string describe_wrong(ConstByteSpan bytes, Id id, Bytes offset, Bytes wrong) {
  const Bytes at = wrong - offset;
  std::string text =
      fmt::format("byte {} of {} is {:#04x}, not {:#04x}", wrong, to_string(id),
                  static_cast<unsigned>(bytes[at]), static_cast<unsigned>(byte_of(id, wrong)));
  if (const auto origin = origin_of(bytes.subspan(at)))
    text += fmt::format("; from there on it is {} from byte {} on", to_string(origin->id),
                        origin->offset);
  else if (bytes[at] == std::byte{0})
    text += "; there are zeros";
  return text;
}

}  // namespace gantry::oracle
