#pragma once  // channel/producer/producer_core.hpp: the state that the parts of a sending end
              // share.

#include <memory>
#include <mutex>

#include "channel/consumers/consumer_set.hpp"
#include "channel/producer/rotation.hpp"
#include "channel/wire/metrics_page.hpp"
#include "channel/wire/waiter.hpp"
#include "trace/end_trace.hpp"

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

/// State without functions of its own: a Producer::Impl owns it and lends it to its CreditGate, its
/// PayloadAllocator and each SendOperation.
struct ProducerCore {
  using Lock = std::unique_lock<std::mutex>;

  explicit ProducerCore(Pool from) noexcept : pool(std::move(from)) {}

  [[nodiscard]] Lock lock() const { return Lock(consumers->mutex()); }
  [[nodiscard]] ProducerPage& page() noexcept {
    return *reinterpret_cast<ProducerPage*>(memory.data());
  }
  /// Puts the channel's name in front.
  [[nodiscard]] Error named(Error error) const {
    error.message = fmt::format("channel '{}': {}", name, error.message);
    return error;
  }

  /// Under the lock. Then wake those who hold it.
  void tell_landed(const Slot& slot, std::uint64_t word) noexcept {
    page().landing[consumers->slots().index_of(slot)].word.store(word,
                                                                 std::memory_order_seq_cst);  // [L]
  }

  std::string name;
  ProducerOptions options;
  SpinTime spin;
  Pool pool;
  Metrics metrics;
  MetricsPage* counters = nullptr;  // that of `metrics`; written by the sending thread
  Region memory;                    // the producer page
  trace::EndTrace trace;            // the consumers' resources refer to it
  std::unique_ptr<ConsumerSet> consumers;
  Rotation rotation{1, 0};  // under the lock
  LastCopy last_copy;       // under the lock
};

}  // namespace gantry
