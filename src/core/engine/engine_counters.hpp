#pragma once  // engine/engine_counters.hpp: what every engine counts and learns, and the outcome of
              // a move.

#include <gantry/engine.hpp>

#include "core/engine/execute.hpp"

namespace gantry {

/// Counters of an engine. Any thread. Relaxed: each is a sum by itself.
class EngineCounters {
 public:
  /// Counts a move that ended; `completion.engine` executed it.
  void count(const Completion& completion) noexcept;
  /// As count(), where one thread at a time counts: without an atomic read-modify-write.
  void count_alone(const Completion& completion) noexcept {
    count_alone(completion.engine, completion.bytes_done);
    if (completion.outcome == Outcome::failed) add(failed_, 1);
    if (completion.cache == CacheUse::streaming) add(streamed_, 1);
  }
  /// The same of one that ended well, with stores that the cache keeps.
  void count_alone(CopyEngine engine, Bytes bytes) noexcept {
    Path& path = paths_[static_cast<std::size_t>(engine)];
    add(path.moves, 1);
    add(path.bytes, bytes);
  }
  /// Takes over what another has counted.
  void add(const EngineCounters& other) noexcept;
  void add_helper_cpu(std::uint64_t ns) noexcept {
    helper_cpu_ns_.fetch_add(ns, std::memory_order_relaxed);
  }
  void add_helped(Bytes bytes) noexcept {
    helped_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  }
  [[nodiscard]] EngineReport report() const noexcept {
    EngineReport report;
    add_to(report);
    return report;
  }
  void add_to(EngineReport& report) const noexcept;

 private:
  struct Path {
    std::atomic<std::uint64_t> moves{0};
    std::atomic<std::uint64_t> bytes{0};
  };
  static void add(std::atomic<std::uint64_t>& to, std::uint64_t more) noexcept {
    to.store(to.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
  }
  Path paths_[kCopyEngines];
  std::atomic<std::uint64_t> failed_{0};
  std::atomic<std::uint64_t> streamed_{0};
  std::atomic<std::uint64_t> helper_cpu_ns_{0};
  std::atomic<std::uint64_t> helped_bytes_{0};
};

/// The latest rate, in bytes a nanosecond. Any thread; a lost update costs one sample.
class LearnedRate {
 public:
  explicit LearnedRate(double bytes_per_ns = 8) noexcept : rate_(bytes_per_ns) {}
  [[nodiscard]] double get() const noexcept { return rate_.load(std::memory_order_relaxed); }
  void learn(Bytes bytes, std::uint64_t ns) noexcept {
    if (bytes == 0 || ns == 0) return;
    const double seen = static_cast<double>(bytes) / static_cast<double>(ns);
    rate_.store(get() * 0.875 + seen * 0.125, std::memory_order_relaxed);
  }

 private:
  std::atomic<double> rate_;
};

/// Writes each field where it is wanted: a Completion put together elsewhere and copied would wait
/// for its parts to leave the store buffer, longer than a small move takes.
void complete(Completion& completion, const Executed& executed, CopyEngine engine,
              CacheUse cache) noexcept;
[[nodiscard]] Completion completion_of(const Executed& executed, CopyEngine engine,
                                       CacheUse cache) noexcept;
/// The outcome of a move that did not begin.
[[nodiscard]] Completion not_begun(const Move& move, CopyEngine engine, Cause cause) noexcept;

}  // namespace gantry
