#pragma once  // channel/attached.hpp: the consumer as its producer knows it.

#include <algorithm>
#include <gantry/channel.hpp>
#include <optional>

#include "base/bell.hpp"
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

/// Everything a consumer handed over when it joined. Made by the doorman, then constant but for
/// the ringer; the pages behind `page` are the consumer's and may hold anything.
struct Attached {
  Connection connection;
  Fd pidfd;       // empty: only the connection tells of its death
  BellPull pull;  // of the bell on which it sleeps
  Bell bell;      // rung by it when we sleep
  Region memory;
  Metrics metrics;
  pid_t pid = 0;
  uid_t uid = 0;
  std::uint64_t joined_ns = 0;  // monotonic
  SlowReader policy = SlowReader::block;
  unsigned depth = 0;  // 0: as the policy has it
  Ringer ringer;

  [[nodiscard]] const ConsumerPage& page() const noexcept {
    return *reinterpret_cast<const ConsumerPage*>(memory.data());
  }
};

}  // namespace gantry
