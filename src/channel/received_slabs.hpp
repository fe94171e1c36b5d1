#pragma once  // channel/received_slabs.hpp: the producer's slabs as mapped by the consumer.

#include <atomic>
#include <gantry/memory.hpp>
#include <map>
#include <memory>

#include "channel/protocol.hpp"

namespace gantry {

/// A slab of the producer, mapped read-only.
struct ReceivedSlab {
  explicit ReceivedSlab(Region mapped) : region(std::make_shared<Region>(std::move(mapped))) {}

  /// The bytes of [offset, offset + size) are in our page tables afterwards.
  [[nodiscard]] Result<void> make_present(Bytes offset, Bytes size);

  std::shared_ptr<Region> region;
  Bytes touched = 0;  // present below this
  // [U] messages in it that are in the user's hands: raised by the receiving thread alone, lowered
  // by any; it stays mapped while this is not 0.
  std::atomic<unsigned> held{0};
};

/// What the producer has announced over the socket. One thread.
class ReceivedSlabs {
 public:
  /// The slab, reading the socket for it if it must: it was announced before the message in it was
  /// published. Errors: `peer_misbehaved` when it was not, and those of hear().
  [[nodiscard]] Result<ReceivedSlab*> find(std::uint32_t number, int socket, Deadline deadline);

  /// Takes in at least one packet, waiting for it until `deadline`, and all that are there.
  /// Errors: `timed_out`, `peer_gone`, `peer_misbehaved`; `system` and `out_of_memory` are this
  /// process's own trouble.
  [[nodiscard]] Result<void> hear(int socket, Deadline deadline);

  /// One packet of the kinds `slab`, `slab_gone` and, once, `line`; any other is
  /// `peer_misbehaved`.
  [[nodiscard]] Result<void> learn(Received& received);

  [[nodiscard]] Bytes mapped_bytes() const noexcept;

  /// The socket that came by `line`; empty when none did, or it was taken.
  [[nodiscard]] Fd take_line() noexcept { return std::move(line_); }

 private:
  std::map<std::uint32_t, ReceivedSlab> slabs_;
  Fd line_;
  bool line_came_ = false;
};

}  // namespace gantry
