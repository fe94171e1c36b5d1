#include "core/engine/engine_counters.hpp"

#include "core/base/result.hpp"

namespace gantry {

void EngineCounters::count(const Completion& completion) noexcept {
  Path& path = paths_[static_cast<std::size_t>(completion.engine)];
  path.moves.fetch_add(1, std::memory_order_relaxed);
  path.bytes.fetch_add(completion.bytes_done, std::memory_order_relaxed);
  if (completion.outcome == Outcome::failed) failed_.fetch_add(1, std::memory_order_relaxed);
  if (completion.cache == CacheUse::streaming) streamed_.fetch_add(1, std::memory_order_relaxed);
}

void EngineCounters::add_to(EngineReport& report) const noexcept {
  for (std::size_t i = 0; i < kCopyEngines; ++i) {
    const std::uint64_t moves = paths_[i].moves.load(std::memory_order_relaxed);
    const std::uint64_t bytes = paths_[i].bytes.load(std::memory_order_relaxed);
    report.by_engine[i].moves += moves;
    report.by_engine[i].bytes += bytes;
    report.moves += moves;
    report.bytes += bytes;
  }
  report.failed += failed_.load(std::memory_order_relaxed);
  report.streamed += streamed_.load(std::memory_order_relaxed);
  report.helper_cpu_ns += helper_cpu_ns_.load(std::memory_order_relaxed);
  report.helped_bytes += helped_bytes_.load(std::memory_order_relaxed);
}

void EngineCounters::add(const EngineCounters& other) noexcept {
  const auto add_one = [](std::atomic<std::uint64_t>& to, const std::atomic<std::uint64_t>& from) {
    to.fetch_add(from.load(std::memory_order_relaxed), std::memory_order_relaxed);
  };
  for (std::size_t i = 0; i < kCopyEngines; ++i) {
    add_one(paths_[i].moves, other.paths_[i].moves);
    add_one(paths_[i].bytes, other.paths_[i].bytes);
  }
  add_one(failed_, other.failed_);
  add_one(streamed_, other.streamed_);
  add_one(helper_cpu_ns_, other.helper_cpu_ns_);
  add_one(helped_bytes_, other.helped_bytes_);
}

Completion completion_of(const Executed& executed, CopyEngine engine, CacheUse cache) noexcept {
  Completion completion;
  complete(completion, executed, engine, cache);
  return completion;
}

void complete(Completion& completion, const Executed& executed, CopyEngine engine,
              CacheUse cache) noexcept {
  completion.outcome = executed.cause == Cause::none ? Outcome::done : Outcome::failed;
  completion.cause = executed.cause;
  completion.engine = engine;
  completion.cache = cache;
  completion.bytes_done = executed.bytes_done;
  completion.fault_address = executed.fault_address;
  completion.helper_cpu_ns = 0;
}

Completion not_begun(const Move& move, CopyEngine engine, Cause cause) noexcept {
  Completion completion;
  completion.outcome = Outcome::failed;
  completion.cause = cause;
  completion.engine = engine;
  completion.cache = resolve_cache(move, move.bytes + 1);
  return completion;
}

}  // namespace gantry
