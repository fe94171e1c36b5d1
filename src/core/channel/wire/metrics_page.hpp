#pragma once  // channel/wire/metrics_page.hpp: the counters of one end, in shared memory.

#include <array>
#include <gantry/runtime.hpp>

#include "core/base/clock.hpp"
#include "core/base/os/fd.hpp"
#include "core/channel/wire/meter.hpp"
#include "core/sync/counter.hpp"
#include "core/sync/histogram.hpp"
#include "core/sync/wait_ticks.hpp"

namespace gantry {

/// One end writes it; anyone it was handed to reads it. For display only: nothing is decided by it.
struct MetricsPage {
  static constexpr std::uint64_t kMagic = 0x34525445'4d544e47;  // "GNTMETR4"

  std::uint64_t magic;
  ClockPair start;  // turns ticks into nanoseconds
  alignas(64) Counter opened;
  Counter connected;  // kConnected, kEnded or kBroken; 0: not yet
  Counter messages;
  Counter bytes;
  Counter last_ticks;  // when the newest message was taken, or asked for; 0: never
  std::array<Counter, kCopyEngines> copies;
  std::array<Counter, kCopyEngines> copied_bytes;
  Counter copy_ticks;
  Counter cpu_ns;
  WaitTicks waits;
  Counter handoff_ticks;
  Histogram handoff_times;
  Counter left_ns;  // when a stage gave the end up, by the monotonic clock; 0: it did not

  static constexpr std::uint64_t kConnected = 1;  // it has met its peer
  static constexpr std::uint64_t kEnded = 2;      // and the stream came to its regular end
  static constexpr std::uint64_t kBroken = 3;     // and has seen that the peer left before that

  // The functions of Meter, here so that they are inlined where the whole way of a message takes a
  // tenth of a microsecond.
  void message(Bytes payload_bytes) noexcept {
    messages.add(1);
    bytes.add(payload_bytes);
  }
  void copy(CopyEngine engine, Bytes payload_bytes, std::uint64_t ticks) noexcept {
    const auto index = static_cast<std::size_t>(engine);
    copies[index].add(1);
    copied_bytes[index].add(payload_bytes);
    if (ticks != 0) copy_ticks.add(ticks);
  }
  void handoff(std::uint64_t ticks, std::uint64_t weight) noexcept {
    handoff_ticks.add(ticks * weight);
    handoff_times.record(ticks, weight);
  }
};
static_assert(sizeof(MetricsPage) <= 4096);

inline constexpr Bytes kMetricsBytes = 4096;

/// Makes Metrics for the rest of this layer.
class MetricsMaker {
 public:
  /// Makes a page of the calling end's own, which nobody else can ever write.
  [[nodiscard]] static Result<Metrics> make_own();
  /// Reads a page that may be another process's, with nonsense as 0. `ns_per_tick` is this
  /// machine's; the page's own value is not trusted.
  [[nodiscard]] static MetricsReport report(const MetricsPage& page, double ns_per_tick);
  using Handoffs = decltype(ConsumerStatus::handoffs);
  /// Likewise, how many took how long.
  [[nodiscard]] static Handoffs handoffs(const MetricsPage& page);
  [[nodiscard]] static MetricsPage* page(const Metrics& metrics) noexcept {
    return reinterpret_cast<MetricsPage*>(metrics.meter());
  }
  /// As Region::close_descriptor().
  static void close_descriptor(Metrics& metrics) noexcept;
  /// A page of the end's own, or the one given by `descriptor`.
  [[nodiscard]] static Result<Metrics> make_for_end(int descriptor);

 private:
  friend class Metrics;
  [[nodiscard]] static Result<Metrics> make(bool for_others);
  [[nodiscard]] static Result<Metrics> map(Fd memory, bool writable);
};

}  // namespace gantry
