#pragma once  // channel/consumers/consumer_resources.hpp: the consumer as its producer knows it.

#include <gantry/channel.hpp>
#include <optional>

#include "base/event.hpp"
#include "base/wake.hpp"
#include "base/wake_limit.hpp"
#include "channel/wire/connection.hpp"
#include "channel/wire/depth.hpp"
#include "channel/wire/format.hpp"
#include "channel/wire/protocol.hpp"
#include "sync/wait_flag.hpp"
#include "trace/end_trace.hpp"

namespace gantry {

/// Everything that a consumer handed over when it joined. The ConsumerListener makes it; then it is
/// constant, except the wake filter and what is noted of its rings. The pages behind `page` are the
/// consumer's and may hold anything.
struct ConsumerResources {
  Connection connection;
  SharedFd pidfd;          // empty: only the connection and the wake-up socket tell of its death
  AcceptWatch life_watch;  // of the pidfd; ends with this
  WakeSender wake_sender;  // of the wake-up socket on which it sleeps
  WakeReceiver wake_receiver;  // it rings this when we sleep
  AcceptWatch wake_watch;      // of the wake-up socket, while the acceptor heeds it
  bool is_silent =
      false;  // the wake-up socket has lost its other end, and would be readable for ever
  Region memory;
  Metrics metrics;
  pid_t pid = 0;
  uid_t uid = 0;
  std::uint64_t joined_ns = 0;  // monotonic
  SlowConsumer policy = SlowConsumer::block;
  unsigned depth = 0;  // 0: by its policy
  WakeFilter wake_filter;
  trace::EndTrace* trace = nullptr;  // the producer's
  WakeLimit wake_limit;

  /// True if nobody reads any more what it took: no copy is left of our wake-up sender, which a
  /// consumer keeps until it has released everything, and hands on with memory that it forwards.
  [[nodiscard]] bool is_gone() const noexcept { return !wake_receiver.has_other_end(); }

  [[nodiscard]] const ConsumerPage& page() const noexcept {
    return *reinterpret_cast<const ConsumerPage*>(memory.data());
  }
};

}  // namespace gantry
