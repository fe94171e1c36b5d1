#pragma once  // channel/fan_out/announced_slabs.hpp: which memory each consumer knows, on the
              // producer's side.

#include <array>
#include <gantry/memory.hpp>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "core/base/result.hpp"
#include "core/channel/wire/format.hpp"
#include "core/channel/wire/inheritance.hpp"
#include "core/channel/wire/protocol.hpp"

namespace gantry {

/// A consumer must have a slab's descriptor before it sees a message in it. Slabs are the pool's
/// own, by its numbers, or another channel's whose messages are passed on. Used under the channel's
/// lock; nothing here waits.
///   I1  A consumer is told of a slab before it gets the first message in it, and only of such
///   slabs:
///       a newcomer to a channel with many slabs hears only of those that it needs.
///   I2  `slab_gone` goes to exactly those consumers that were told of the slab.
///   I3  No consumer has more than kMostUnheard unconfirmed packets before it, so that its socket
///   has
///       room for them. A joining one, which does nothing but listen, may have as many as its
///       socket takes.
///   I4  The pool counts a slab that it has dropped as lingering until every consumer that was told
///       of it confirmed that it is gone, or left. By I3 a consumer that confirms nothing makes no
///       more than kMostUnheard of them linger.
class AnnouncedSlabs {
 public:
  static constexpr std::uint64_t kMostUnheard = 128;

  explicit AnnouncedSlabs(const Pool& pool) : pool_(pool) {}

  // ---- consumers come and go; `consumer` is a number below kMaxConsumers

  /// From here on `consumer` is told through `socket`. It knows no slab yet.
  void add(unsigned consumer, int socket);
  /// Tells a joining consumer of all `slabs` at once. Errors: `peer_gone`; `out_of_memory` when its
  /// socket, or this user's limit of descriptors in flight, does not take so many.
  [[nodiscard]] Result<void> introduce(unsigned consumer, std::span<const std::uint32_t> slabs);
  /// The consumer left or died; it has no claim to any slab any more.
  void remove(unsigned consumer) noexcept;

  // ---- telling

  /// The consumers that know all of `slabs`, as bits.
  [[nodiscard]] std::uint64_t who_know(std::span<const std::uint32_t> slabs) const noexcept;
  /// Tells `consumer` of those `slabs` that it does not know. False: it must first confirm what it
  /// was told before; see heard(). One that hung up counts as told, since what it gets goes to
  /// nobody. Errors: `out_of_memory` when the system has no room for descriptors in flight.
  [[nodiscard]] Result<bool> tell(unsigned consumer, std::span<const std::uint32_t> slabs);

  /// The number of another channel's slab, for as long as that slab lives.
  [[nodiscard]] std::uint32_t adopt(const std::shared_ptr<const Region>& region,
                                    std::shared_ptr<const detail::Inheritance> inherited);

  // ---- slabs go

  /// True if `consumer` has not confirmed everything that was sent to it.
  [[nodiscard]] bool is_unheard(unsigned consumer) const noexcept {
    return told_[consumer].sent != told_[consumer].heard;
  }
  /// `consumer` has taken in `packets` packets. False: that is impossible.
  [[nodiscard]] bool heard(unsigned consumer, std::uint64_t packets) noexcept;
  /// Packets about slabs that it has taken in.
  [[nodiscard]] std::uint64_t confirmed(unsigned consumer) const noexcept {
    return told_[consumer].heard;
  }
  /// Tells of the slabs that the pool has dropped meanwhile. Cheap if there are none.
  void keep_up() noexcept {
    if (owes_farewells_ || pool_.dropped_slabs() != seen_drops_) drop_the_gone();
  }
  /// Slabs so far whose memory was dropped and that nobody maps any more.
  [[nodiscard]] std::uint64_t returned() const noexcept { return returned_; }
  /// True if one of `consumers` has yet to let go of dropped slabs.
  [[nodiscard]] bool awaits_return(std::uint64_t consumers) const noexcept;

 private:
  static constexpr std::uint32_t kForeign = std::uint32_t{1} << 31;

  struct Announced {
    std::weak_ptr<const Region> region;  // expired: gone
    std::shared_ptr<const void> charge;  // of the pool's own; null: another channel's
    std::shared_ptr<const detail::Inheritance> inherited;  // of another channel's
    std::uint64_t known = 0;  // consumers that were told of it, but not that it is gone
    // consumers that were told that it is gone and have not confirmed it
    std::uint64_t leaving = 0;
    [[nodiscard]] bool is_let_go() const noexcept {
      return region.expired() && (known | leaving) == 0;
    }
  };
  using Slabs = std::map<std::uint32_t, Announced>;
  struct Farewell {
    std::uint64_t packet;
    std::uint32_t slab;
  };
  struct Told {
    int socket = -1;
    std::uint64_t sent = 0;           // packets about slabs
    std::uint64_t heard = 0;          // of these, confirmed
    std::vector<Farewell> farewells;  // has room for all that may be on the way
    [[nodiscard]] bool has_room() const noexcept { return sent - heard < kMostUnheard; }
  };
  enum class Sent { yes, gone, later, no_room };

  [[nodiscard]] bool has_lenders(std::uint32_t slab) const noexcept;
  static void add_inherited(std::vector<int>& fds, const Announced& slab);
  [[nodiscard]] Announced* find_or_add(std::uint32_t slab);
  [[nodiscard]] Result<bool> tell_one(unsigned consumer, std::uint32_t slab);
  [[nodiscard]] Result<void> tell_batch(unsigned consumer, std::span<const std::uint32_t> slabs);
  [[nodiscard]] static Sent send(Told& told, const WirePacket& packet,
                                 std::span<const int> fds = {}) noexcept;
  void drop_the_gone() noexcept;
  void say_farewell(std::uint32_t number, Announced& slab) noexcept;
  Slabs::iterator forget(Slabs::iterator slab) noexcept;

  const Pool& pool_;
  Slabs slabs_;
  std::array<Told, kMaxConsumers> told_;
  std::uint64_t seen_drops_ = 0;
  bool owes_farewells_ = false;  // to a consumer that had no room
  std::uint64_t returned_ = 0;
  std::uint32_t next_foreign_ = kForeign;
};

}  // namespace gantry
