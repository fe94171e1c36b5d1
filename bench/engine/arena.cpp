#include "arena.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "../support/system/posix.hpp"

namespace gantry::bench {
namespace {

constexpr Bytes kWord = sizeof(std::uint64_t);

/// Weighted by the place in the walk: pieces that were mixed up are noticed.
std::uint64_t sum_of(const Walk& walk, const std::byte* front) noexcept {
  std::uint64_t sum = 0;
  Bytes at = 0;
  for (std::uint64_t i = 0; i < std::min(walk.moves, walk.pieces); ++i, at = walk.next(at))
    sum += (2 * i + 1) * checksum({front + at, walk.bytes});
  return sum;
}

}  // namespace

Arena::Arena(Bytes bytes) : source_(bytes), destination_(bytes) {
  for (Bytes at = 0; at + kWord <= bytes; at += kWord) {
    const std::uint64_t value = random();
    std::memcpy(source_.bytes().data() + at, &value, kWord);
  }
}

void Arena::change(const Walk& walk) noexcept {
  const auto put = [&](Bytes at) {
    const std::uint64_t value = random();
    std::memcpy(source_.bytes().data() + at, &value, kWord);
  };
  const Bytes last = walk.bytes - kWord;
  Bytes at = 0;
  for (std::uint64_t i = 0; i < std::min(walk.moves, walk.pieces); ++i, at = walk.next(at)) {
    put(at);
    put(at + last);
    put(at + random() % (last + 1));
  }
}

Result<void> Arena::verify(const Walk& walk, Reader& reader) const {
  reader.start([&] { return sum_of(walk, destination()); });
  const std::uint64_t wanted = sum_of(walk, source());
  const std::uint64_t read = reader.finish().sum;
  if (read == wanted) return {};
  return Unexpected({Code::peer_misbehaved,
                     fmt::format("wrong data after moves of {} bytes: the sum of what was read is "
                                 "{:#x}, not {:#x}",
                                 walk.bytes, read, wanted),
                     ""});
}

std::uint64_t Arena::random() noexcept {  // xorshift64: a few cycles, no state to fetch
  state_ ^= state_ << 13;
  state_ ^= state_ >> 7;
  state_ ^= state_ << 17;
  return state_;
}

}  // namespace gantry::bench
