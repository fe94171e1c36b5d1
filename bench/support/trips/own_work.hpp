#pragma once  // bench/support/trips/own_work.hpp: what a sender has to do besides sending.

#include <array>
#include <cstdint>

namespace gantry::bench {

/// Arithmetic over a few KiB that stay in the nearest cache; in pieces of some tens of
/// microseconds.
class OwnWork {
 public:
  void do_piece() noexcept;
  /// Kept, so that no compiler leaves the work out.
  [[nodiscard]] std::uint64_t result() const noexcept { return words_[0]; }

 private:
  std::array<std::uint64_t, 512> words_{1};
};

}  // namespace gantry::bench
