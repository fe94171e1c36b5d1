#pragma once  // channel/consumer/consumer_core.hpp: what the parts of a receiving end work on.

#include <atomic>
#include <optional>

#include "core/base/os/fork.hpp"
#include "core/base/text_lines.hpp"
#include "core/base/wake.hpp"
#include "core/channel/wire/connection.hpp"
#include "core/channel/wire/format.hpp"
#include "core/channel/wire/metrics_page.hpp"
#include "core/channel/wire/step.hpp"
#include "core/sync/wait_flag.hpp"
#include "core/trace/end_trace.hpp"

namespace gantry {

/// True of a message of the protocol above, which the counters leave out.
using IsProtocol = bool (*)(const MessageInfo&) noexcept;

/// Pages, connection and options of a receiving end, and what broke it. A Consumer::Impl owns one
/// and lends it to its parts. Threads: the receiving one. What ReceivedPayloads does on any thread
/// uses what stays as it was after joining: the pages, the wake-up sender, the fork guard.
class ConsumerCore {
 public:
  [[nodiscard]] const ProducerPage& page() const noexcept {
    return *reinterpret_cast<const ProducerPage*>(producer_memory.data());
  }
  [[nodiscard]] const RingPage& ring_page() const noexcept {
    return *reinterpret_cast<const RingPage*>(ring_memory.data());
  }
  [[nodiscard]] ConsumerPage& own_page() noexcept {
    return *reinterpret_cast<ConsumerPage*>(own_memory.data());
  }

  /// It waits for a credit, or for a message that it passed on.
  [[nodiscard]] bool producer_sleeps() const noexcept {
    return (page().producer_sleeps.read() & 1u) != 0;
  }
  [[nodiscard]] Result<void> check_process() const;  ///< Not a fork's copy.

  /// Wakes the producer if it sleeps: after each store that it may wait for.
  void ring_producer() noexcept {
    if (wake_filter.must_wake(page().producer_sleeps)) {
      producer_wake->ring();
      if (trace::is_on()) [[unlikely]]
        trace.woke(producer_pid);
    }
    GANTRY_STEP(producer_rung);
  }

  [[nodiscard]] tl::unexpected<Error> refuse(Code code, std::string what,
                                             std::string hint = {}) const {
    return prefixed({code, std::move(what), std::move(hint)}, "channel '{}'", name);
  }
  /// The stream cannot go on without what was lost. The first reason stays; it is the answer.
  Error break_stream(const Error& reason);
  /// The producer wrote what no honest one does.
  Error misbehaved(std::string_view what);
  /// The producer cut this end off: nothing more is handed out.
  void note_cut_off();
  /// A producer that cut this end off keeps all that this end may still take, until this says that
  /// it takes no more. A dead producer does not care.
  void confirm_end() noexcept;
  /// It died or hung up.
  void note_producer_gone() noexcept {
    if (!producer_gone) GANTRY_PROBE(peer_gone, name.c_str(), producer_pid);
    producer_gone = true;
  }
  /// The producer's process runs.
  [[nodiscard]] bool producer_lives() const noexcept;

  ForkGuard fork_guard;
  std::string name;
  ConsumerOptions options;
  Connection connection;
  SharedFd producer_life;  // a pidfd; empty: only the connection tells of its death
  pid_t producer_pid = 0;
  std::shared_ptr<const WakeSender> producer_wake;  // shared by what was forwarded
  WakeFilter wake_filter;
  Region producer_memory;
  Region ring_memory;
  Region own_memory;
  Metrics metrics;
  MetricsPage* counters = nullptr;  // that of `metrics`
  trace::EndTrace trace;
  bool is_called = false;            // the producer came to this end: the name is an inbox's
  IsProtocol is_protocol = nullptr;  // of one that was called; null: all are the user's
  bool wait_is_counted = false;      // the one for the next message: it slept
  bool has_left = false;
  bool producer_gone = false;   // it died or hung up; what it published may still be there
  std::optional<Error> broken;  // why nothing of the producer is believed, or can be, any more
};

}  // namespace gantry
