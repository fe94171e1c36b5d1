#pragma once  // channel/producer/producer_core.hpp: the state that the parts of a sending end
              // share.

#include <memory>
#include <mutex>
#include <utility>

#include "core/base/os/fork.hpp"
#include "core/channel/fan_out/credits.hpp"
#include "core/channel/fan_out/publisher.hpp"
#include "core/channel/producer/rotation.hpp"
#include "core/channel/wire/metrics_page.hpp"
#include "core/channel/wire/protocol.hpp"
#include "core/channel/wire/waiter.hpp"
#include "core/trace/end_trace.hpp"
#include "core/trace/is_on_in_short.hpp"

namespace gantry {

/// The newest payload that an engine copied, for display.
struct LastCopy {
  std::byte* to = nullptr;  // of the last move; both may be gone
  const std::byte* from = nullptr;
  Bytes moved = 0;    // a chunk, or all of it
  Bytes payload = 0;  // bytes of the message that were copied; 0: there was none
  SendMode mode = SendMode::whole;
  CopyEngine engine = CopyEngine::inline_;
  CacheUse cache = CacheUse::automatic;
  std::optional<ReshapePlan> reshape{};  // by which `moved` bytes were made
};

/// A Producer::Impl owns it and lends it to its parts, which share this state and the accounting of
/// what was sent.
struct ProducerCore {
  using Lock = std::unique_lock<KeptMutex>;
  /// Which thread can give loans back: the caller alone, so that to wait for them is an error; or
  /// others, too.
  enum class Lent : std::uint8_t { by_caller, by_others };

  explicit ProducerCore(Pool from) noexcept : pool(std::move(from)) {}

  [[nodiscard]] Lock lock() const { return Lock(consumers->mutex()); }
  /// The same for the caller's thread, which keeps the lock: KeptMutex.
  [[nodiscard]] Lock lock_and_keep() const {
    consumers->mutex().lock_and_keep();
    return {consumers->mutex(), std::adopt_lock};
  }
  /// The caller's thread is about to send: from its first message on it keeps the lock.
  void keep_lock() {
    if (!std::exchange(keeps_lock, true)) static_cast<void>(lock_and_keep());
  }
  /// Under the lock.
  [[nodiscard]] Credits credits() const noexcept { return Credits(*consumers); }
  [[nodiscard]] ProducerPage& page() noexcept {
    return *reinterpret_cast<ProducerPage*>(memory.data());
  }
  /// Puts the kind and the name in front.
  [[nodiscard]] Error named(Error error) const {
    error.message =
        fmt::format("{} '{}': {}", reader == "queue" ? reader : "channel", name, error.message);
    return error;
  }
  [[nodiscard]] tl::unexpected<Error> refuse(Code code, std::string what,
                                             std::string hint = {}) const {
    return tl::unexpected(named({code, std::move(what), std::move(hint)}));
  }
  [[nodiscard]] SendMode mode_of(const SendOptions& asked) const noexcept {
    return asked.mode == SendMode::automatic ? options.mode : asked.mode;
  }

  /// Under the lock. Then wake those who hold it. A message that was given up is not kept.
  void tell_landed(Slot& slot, std::uint64_t word) noexcept {
    if ((word & LandingWord::kAborted) != 0) consumers->kept().take_back(slot);
    page().landing[consumers->slots().index_of(slot)].word.store(word,
                                                                 std::memory_order_seq_cst);  // [L]
  }

  /// More of a message has landed, but not all. Without the lock, and nobody is woken: the sender's
  /// next copy does not wait until this one has left the CPU.
  void tell_landed_quietly(const Slot& slot, Bytes bytes) noexcept {
    page().landing[consumers->slots().index_of(slot)].word.store(bytes,
                                                                 std::memory_order_release);  // [L]
  }

  // ---- accounting, by the sending thread

  /// A message that went in its record. The protocol's own are left out of the counters.
  void note_small_sent(std::uint64_t number, Bytes bytes, bool counts = true) noexcept {
    GANTRY_PROBE(send, name.c_str(), number, bytes);
    if (counts) {
      counters->message(bytes);
      counters->copy(CopyEngine::inline_, bytes, 0);
    }
    if (trace::is_on_in_short()) [[unlikely]]
      trace.sent_small(number, bytes);
  }
  /// Bytes of a message were copied since `started`. Returns the ticks that this took.
  std::uint64_t note_copied(CopyEngine engine, std::uint64_t started, Bytes bytes,
                            std::uint64_t number, std::uint64_t chunks) noexcept {
    const std::uint64_t took = read_ticks() - started;
    counters->copy(engine, bytes, took);
    GANTRY_PROBE(copy, name.c_str(), bytes, static_cast<int>(engine), took);
    if (trace::is_on()) [[unlikely]]
      trace.copied(started, took, number, bytes, engine, chunks);
    return took;
  }
  /// The sender is done with a message, which counts since it was published. `began` and `ended`
  /// are ticks; `began` is 0 if it is not known, `ended` is 0 for now.
  void note_sent(std::uint64_t began, std::uint64_t number, Bytes bytes,
                 std::uint64_t ended = 0) noexcept {
    GANTRY_PROBE(send, name.c_str(), number, bytes);
    if (trace::is_on() && began != 0) [[unlikely]]
      trace.sent(began, ended != 0 ? ended : read_ticks(), number, bytes);
  }

  std::string name;
  std::string_view reader = "consumer";  // in errors
  Purpose calls = Purpose::deliver;      // what it says to the owner of a name
  ProducerOptions options;
  Lent lent = Lent::by_caller;
  SpinTime spin;
  Pool pool;
  Metrics metrics;
  MetricsPage* counters = nullptr;  // that of `metrics`; written by the sending thread
  Region memory;                    // the producer page
  trace::EndTrace trace;            // the consumers' resources refer to it
  std::unique_ptr<Publisher> publisher;
  ConsumerSet* consumers = nullptr;  // the publisher's
  Rotation rotation{1, 0};           // under the lock
  LastCopy last_copy;                // under the lock
  bool keeps_lock = false;           // of the caller
  std::string engine_name;
  std::unique_ptr<Lane> lane;  // copies for send()
  std::uint64_t opened_ns = 0;
  ForkGuard fork_guard;
};

}  // namespace gantry
