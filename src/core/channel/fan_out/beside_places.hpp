#pragma once  // channel/fan_out/beside_places.hpp: places of payloads beside their records.

#include <array>
#include <optional>
#include <span>

#include "core/base/assert.hpp"
#include "core/channel/wire/format.hpp"

namespace gantry {

/// The places of a channel and the number of the message that each one holds. All readers read a
/// payload in its one place. Used under the channel's lock; the sender fills the place that free()
/// named without the lock.
///   B1  A place is written only when no reader may read its message any more: none that is served
///       (ConsumerState::oldest_needed()), none that departed (ConsumerState::may_read()).
///   B2  Each place has another message.
class BesidePlaces {
 public:
  using Memory = std::array<std::array<std::byte, kBesideBytes>, kBesidePlaces>;

  /// `memory`: null for a channel without places.
  explicit BesidePlaces(Memory* memory) noexcept : memory_(memory) {}

  [[nodiscard]] ByteSpan bytes(std::uint32_t place) const noexcept { return (*memory_)[place]; }

  /// The next place in turn whose message is older than `needed` and which `is_kept(number)` does
  /// not name. Places rest in between, so that what was just read stays with its readers. B1
  template <class IsKept>
  [[nodiscard]] std::optional<std::uint32_t> free(std::uint64_t needed,
                                                  IsKept is_kept) const noexcept {
    for (std::uint32_t step = 0; step < kBesidePlaces; ++step) {
      const std::uint32_t place = (next_ + step) % kBesidePlaces;
      const std::uint64_t number = numbers_[place];
      if (number < needed && !is_kept(number)) return place;
    }
    return std::nullopt;
  }
  /// The place holds message `number` now.
  void note(std::uint32_t place, std::uint64_t number) noexcept {
    GANTRY_DEBUG_ASSERT(number > numbers_[place]);  // B2
    numbers_[place] = number;
    next_ = place + 1 == kBesidePlaces ? 0 : place + 1;
  }
  [[nodiscard]] std::uint32_t next() const noexcept { return next_; }
  /// True if free() names next(), unless that is kept.
  [[nodiscard]] bool next_is_before(std::uint64_t needed) const noexcept {
    return numbers_[next_] < needed;
  }

 private:
  Memory* memory_;
  std::array<std::uint64_t, kBesidePlaces> numbers_{};  // 0: none yet
  std::uint32_t next_ = 0;
};

}  // namespace gantry
