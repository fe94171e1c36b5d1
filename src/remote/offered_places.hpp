#pragma once  // remote/offered_places.hpp: memory of a receiving side that waits for payload.

#include <gantry/link.hpp>
#include <gantry/memory.hpp>
#include <map>

#include "remote/session.hpp"

namespace gantry {

/// Places that the sending side may put payload into without being asked: a message that takes one
/// is here half a round trip earlier. They are as large as the last message that could have used
/// one, and hold memory, but no credit.
///   I1  Nothing is read or handed on from a place before its export has ended.
class OfferedPlaces {
 public:
  static constexpr std::ptrdiff_t kMost = 2;  // more leave the caches: docs/results/link.md
  static constexpr Bytes kMostBytes = Bytes{16} << 20;  // of one

  /// Says what places there are for messages of `bytes` (not 0), as far as `pool` has memory to
  /// spare.
  /// Smaller ones are withdrawn.
  [[nodiscard]] Result<void> offer(Link& link, Pool pool, Bytes bytes, RemoteSpeech& speech);
  /// Withdraws those that no message has taken. True: there were some.
  bool withdraw_free() noexcept;
  /// The sending side says that a message of `bytes` goes there. False: it does not, since the
  /// place is taken, too small, or was withdrawn meanwhile.
  [[nodiscard]] bool begin(std::uint64_t place, Bytes bytes) noexcept;
  /// Takes in what has landed. Errors: `peer_misbehaved`, the link's end.
  [[nodiscard]] Result<bool> hear(Link& link);
  [[nodiscard]] bool has_landed(std::uint64_t place) const noexcept;
  /// Needs has_landed().
  [[nodiscard]] Block take(std::uint64_t place);
  /// The link has ended, or was closed.
  void clear() noexcept { places_.clear(); }

 private:
  struct Place {
    Block block;
    Export exported;  // goes before the block
    bool is_begun = false;
    bool has_landed = false;
  };

  std::map<std::uint64_t, Place> places_;
  std::uint64_t last_ = 0;
};

}  // namespace gantry
