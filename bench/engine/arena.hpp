#pragma once  // bench/engine/arena.hpp: the two buffers between which every subject moves.

#include <algorithm>
#include <bit>

#include "../support/system/buffer.hpp"
#include "reader.hpp"

namespace gantry::bench {

/// Pieces of the two buffers and the order of visiting them: far apart from one to the next, so
/// that no prefetcher guesses, and each once before one of them comes again.
struct Walk {
  Bytes bytes = 0;           ///< Of a piece.
  Bytes step = 0;            ///< From one piece to the next of the walk.
  Bytes mask = 0;            ///< What keeps an offset within the buffers; 0: always the same piece.
  std::uint64_t pieces = 1;  ///< Different ones.
  std::uint64_t moves = 1;

  /// Over as many pieces of `bytes` as `window` holds, at least one and at most `most`; once over
  /// each. `window` and `most` are powers of two; a size that is none takes the room of the next.
  [[nodiscard]] static Walk over(Bytes window, Bytes bytes, Bytes most = kMostPieces) noexcept {
    constexpr Bytes kFar = 0x9E3779B1;  // odd, so that it meets all; 2^32 over the golden ratio
    const Bytes pitch = std::bit_ceil(bytes);
    const Bytes pieces = pitch < window ? std::min(window / pitch, most) : 1;
    return {bytes, kFar * pitch, (pieces - 1) * pitch, pieces, pieces};
  }
  static constexpr Bytes kMostPieces = Bytes{1} << 16;  // more than a core's caches have lines
  [[nodiscard]] Walk with_moves(std::uint64_t count) const noexcept {
    Walk walk = *this;
    walk.moves = count;
    return walk;
  }
  [[nodiscard]] Bytes next(Bytes at) const noexcept { return (at + step) & mask; }
};

/// A source that changes before each turn, and a destination that is read whole after it.
class Arena {
 public:
  /// Every page of both present. `bytes` is a power of two.
  explicit Arena(Bytes bytes);

  [[nodiscard]] Bytes bytes() const noexcept { return destination_.bytes().size(); }
  [[nodiscard]] const std::byte* source() const noexcept { return source_.bytes().data(); }
  [[nodiscard]] std::byte* destination() const noexcept { return destination_.bytes().data(); }

  /// New values for the first, the last and one random word of each piece that `walk` visits.
  void change(const Walk& walk) noexcept;
  /// Errors: `peer_misbehaved` when a piece that `walk` visits is not as its source is, by the sums
  /// of all words; those of the destination are read by `reader`.
  [[nodiscard]] Result<void> verify(const Walk& walk, Reader& reader) const;

 private:
  std::uint64_t random() noexcept;

  Buffer source_;
  Buffer destination_;
  std::uint64_t state_ = 0x9e3779b97f4a7c15;  // any value but 0
};

}  // namespace gantry::bench
