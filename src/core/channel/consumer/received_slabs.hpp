#pragma once  // channel/consumer/received_slabs.hpp: the producer's slabs as mapped by the
              // consumer.

#include <array>
#include <atomic>
#include <gantry/memory.hpp>
#include <gantry/runtime.hpp>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "core/base/assert.hpp"
#include "core/channel/consumer/receive_quota.hpp"
#include "core/channel/wire/inheritance.hpp"
#include "core/channel/wire/protocol.hpp"

namespace gantry {

/// A slab is registered whole, once, for reading: it is mapped read-only. A registrar that refuses
/// it concerns nobody but those who ask for its keys. Dropped before the slab is unmapped.
/// Threads: the receiving one makes them before any message in the slab is handed out; from then on
/// they stay as they are, and any thread asks for keys.
class SlabRegistrations {
 public:
  using Registrars = std::span<const std::shared_ptr<Registrar>>;

  /// Of ConsumerOptions::registrars; `end` names the end. Error: `invalid_argument`.
  [[nodiscard]] static Result<void> check(Registrars registrars, std::string_view end);

  /// Registering makes the slab's pages on this process's account, so `quota` is asked first. What
  /// this throws leaves nothing registered.
  void make(const Region& slab, Registrars registrars, SenderQuota& quota);
  [[nodiscard]] bool are_made() const noexcept { return !entries_.empty(); }

  /// The key of the whole slab. Errors: why that registrar refused it; `invalid_argument` for one
  /// that the consumer did not name, and in a fork()ed child.
  [[nodiscard]] Result<DeviceKey> key_for(const Registrar& registrar) const;

  /// Adds this slab to what is told of each registrar, in the order of make(). Once they are made.
  void add_to(std::span<ReceivedRegistration> told) const;

 private:
  struct Entry {
    const Registrar* registrar = nullptr;
    Registration registration;
    Error refusal;  // if there is no registration
  };
  SenderQuota::Charge charge_;  // of the slab's bytes, whether or not a registrar took it
  std::vector<Entry> entries_;
};

/// Pages of 4 KiB, by number; costs what is in it, however large the slab claims to be.
class PageSet {
 public:
  /// The first of [first, end) that is not in it; `end` when all are.
  [[nodiscard]] Bytes first_missing(Bytes first, Bytes end) const noexcept;
  void add(Bytes first, Bytes end);

 private:
  static constexpr Bytes kBits = 64;
  static constexpr Bytes kWords = 64;
  using Chunk = std::array<std::uint64_t, kWords>;
  [[nodiscard]] static std::uint64_t bits_of(Bytes first, Bytes end) noexcept;
  [[nodiscard]] static Bytes next_word(Bytes page) noexcept { return (page / kBits + 1) * kBits; }
  std::map<Bytes, Chunk> chunks_;
};

/// A slab of the producer, mapped read-only.
struct ReceivedSlab {
  explicit ReceivedSlab(Region mapped) : region(std::make_shared<Region>(std::move(mapped))) {}

  /// For a message in it. The receiving thread, which alone unmaps. [U]
  void hold() noexcept { held.fetch_add(1, std::memory_order_relaxed); }
  /// All reads of that message are over. Any thread. [U]
  void let_go() noexcept {
    const unsigned before = held.fetch_sub(1, std::memory_order_release);
    GANTRY_ASSERT(before != 0);
  }

  std::shared_ptr<Region> region;
  SenderQuota::Charge place;                             // among the sender's slabs
  SenderQuota::Charge mapping;                           // of its bytes
  std::shared_ptr<const detail::Inheritance> inherited;  // for as long as it is mapped
  // [U] messages in it that are in the user's hands, or being looked at: raised by the receiving
  // thread alone, lowered by any; it stays mapped while this is not 0.
  std::atomic<unsigned> held{0};
  PageSet present;                  // written, as we know
  SlabRegistrations registrations;  // last: gone before the region is
};

/// The slabs of the message that is being looked at. Each is held from when it is found, so that
/// whatever the socket says while the others are looked for, it stays mapped. The receiving thread.
class PinnedSlabs {
 public:
  PinnedSlabs() = default;
  ~PinnedSlabs() { clear(); }
  PinnedSlabs(const PinnedSlabs&) = delete;
  PinnedSlabs& operator=(const PinnedSlabs&) = delete;

  void add(ReceivedSlab& slab);
  void clear() noexcept;
  [[nodiscard]] std::span<ReceivedSlab* const> slabs() const noexcept { return slabs_; }

 private:
  std::vector<ReceivedSlab*> slabs_;
};

/// What the producer has announced over the socket. One thread.
///   I1  A slab in which a message is held, or being looked at, stays mapped: to say that it is
///   gone
///       is misbehaviour.
///   I2  What the producer sent costs no more than its quota allows.
///   I3  No page of a slab is made on our account, but for kMostHoles bytes: what the producer
///   never
///       wrote is refused before it is touched. Registering a slab makes all its pages: who asks
///       for that has its quota for it.
class ReceivedSlabs {
 public:
  /// A page here and there that a message holds and nobody wrote.
  static constexpr Bytes kMostHoles = Bytes{256} << 10;

  ReceivedSlabs() = default;
  /// `registrars` must outlive it.
  explicit ReceivedSlabs(std::shared_ptr<SenderQuota> quota,
                         SlabRegistrations::Registrars registrars = {}) noexcept
      : quota_(std::move(quota)), registrars_(registrars) {}

  /// The slab, reading the socket for it if it must: it was announced before the message in it was
  /// published. Errors: `peer_misbehaved` when it was not, and those of hear().
  [[nodiscard]] Result<ReceivedSlab*> find(std::uint32_t number, int socket, Deadline deadline);

  /// The bytes of [offset, offset + size) are written and, up to 64 MiB, in our page tables
  /// afterwards, and the registrars know the slab, or have refused it. Errors: `peer_misbehaved`
  /// for what was never written; `system` and `out_of_memory`.
  [[nodiscard]] Result<void> make_present(ReceivedSlab& slab, Bytes offset, Bytes size);

  /// Takes in at least one packet, waiting for it until `deadline`, and all that are there.
  /// Errors: `timed_out`, `peer_gone`, `peer_misbehaved`; `too_large` when there is more than the
  /// quota allows; `system` and `out_of_memory` are this process's own trouble.
  [[nodiscard]] Result<void> hear(int socket, Deadline deadline);

  /// One packet of the kinds `slab`, `slabs`, `slab_gone` and, once, `control`; any other is
  /// `peer_misbehaved`.
  [[nodiscard]] Result<void> learn(Received& received);

  /// Packets about slabs that were taken in.
  [[nodiscard]] std::uint64_t heard() const noexcept { return heard_; }
  [[nodiscard]] Bytes mapped_bytes() const noexcept;
  /// One for each registrar.
  [[nodiscard]] std::vector<ReceivedRegistration> registrations() const;

  /// The socket that came by `control`; empty when none did, or it was taken.
  [[nodiscard]] ReceivedFd take_control_end() noexcept { return std::move(control_end_); }

 private:
  [[nodiscard]] Result<void> learn_slab(std::uint32_t number, Fd& memory, Bytes size,
                                        std::shared_ptr<const detail::Inheritance> inherited = {});
  [[nodiscard]] Result<void> learn_one(Received& received);
  [[nodiscard]] Result<void> learn_slabs(Received& received);
  [[nodiscard]] Result<void> drop(std::uint32_t number);

  std::shared_ptr<SenderQuota> quota_;
  SlabRegistrations::Registrars registrars_;
  std::map<std::uint32_t, ReceivedSlab> slabs_;
  std::uint64_t heard_ = 0;
  Bytes holes_ = 0;
  ReceivedFd control_end_;
  bool control_came_ = false;
};

}  // namespace gantry
