#pragma once  // channel/attached.hpp: the consumer as its producer knows it.

#include <algorithm>
#include <gantry/channel.hpp>
#include <optional>

#include "base/bell.hpp"
#include "base/event.hpp"
#include "channel/connection.hpp"
#include "channel/format.hpp"
#include "channel/protocol.hpp"
#include "sync/doorbell.hpp"

namespace gantry {

/// Messages that a consumer may have unreleased, which asked for so many (0: for none in
/// particular), of a producer with so many slots.
[[nodiscard]] inline unsigned depth_for(SlowReader policy, unsigned asked,
                                        unsigned credits) noexcept {
  if (policy == SlowReader::block) return credits;
  return asked == 0 ? std::max(credits / 2, 1u) : std::min(asked, credits);
}

/// Everything a consumer handed over when it joined. Made by the ConsumerListener, then constant
/// but for the ringer; the pages behind `page` are the consumer's and may hold anything.
struct Attached {
  Connection connection;
  SharedFd pidfd;          // empty: only the connection and the bell tell of its death
  AcceptWatch life_watch;  // of the pidfd; ends with this
  BellPull pull;           // of the bell on which it sleeps
  Bell bell;               // rung by it when we sleep
  AcceptWatch bell_watch;  // of the bell, while the acceptor heeds it
  bool is_silent = false;  // the bell has no other end any more, and would be readable for ever
  Region memory;
  Metrics metrics;
  pid_t pid = 0;
  uid_t uid = 0;
  std::uint64_t joined_ns = 0;  // monotonic
  SlowReader policy = SlowReader::block;
  unsigned depth = 0;  // 0: as the policy has it
  Ringer ringer;

  /// Nobody reads any more what it had taken: no copy is left of the pull, which a consumer keeps
  /// until it has released everything, and hands on with memory that it forwards.
  [[nodiscard]] bool is_gone() const noexcept { return !bell.has_other_end(); }

  [[nodiscard]] const ConsumerPage& page() const noexcept {
    return *reinterpret_cast<const ConsumerPage*>(memory.data());
  }
};

}  // namespace gantry
