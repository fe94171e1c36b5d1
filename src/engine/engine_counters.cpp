#include "engine/engine_counters.hpp"

#include "base/result.hpp"

namespace gantry {

void EngineCounters::count(const Completion& completion) noexcept {
  Path& path = paths_[static_cast<std::size_t>(completion.engine)];
  path.moves.fetch_add(1, std::memory_order_relaxed);
  path.bytes.fetch_add(completion.bytes_done, std::memory_order_relaxed);
  if (completion.outcome == Outcome::failed) failed_.fetch_add(1, std::memory_order_relaxed);
  if (completion.cache == CacheUse::streaming) streamed_.fetch_add(1, std::memory_order_relaxed);
}

EngineReport EngineCounters::report() const noexcept {
  EngineReport report;
  for (std::size_t i = 0; i < kCopyEngines; ++i) {
    report.by_engine[i] = {paths_[i].moves.load(std::memory_order_relaxed),
                           paths_[i].bytes.load(std::memory_order_relaxed)};
    report.moves += report.by_engine[i].moves;
    report.bytes += report.by_engine[i].bytes;
  }
  report.failed = failed_.load(std::memory_order_relaxed);
  report.streamed = streamed_.load(std::memory_order_relaxed);
  report.helper_cpu_ns = helper_cpu_ns_.load(std::memory_order_relaxed);
  report.helped_bytes = helped_bytes_.load(std::memory_order_relaxed);
  return report;
}

Completion completion_of(const Executed& executed, const Move& move, CopyEngine engine,
                         CacheUse cache) noexcept {
  Completion completion;
  completion.outcome = executed.cause == Cause::none ? Outcome::done : Outcome::failed;
  completion.cause = executed.cause;
  completion.engine = engine;
  completion.cache = cache;
  completion.bytes_done = executed.bytes_done;
  completion.fault_address = executed.fault_address;
  completion.equal =
      move.kind == Move::Kind::compare && executed.cause == Cause::none && executed.equal;
  completion.crc32c = executed.crc32c;
  return completion;
}

Completion not_begun(const Move& move, CopyEngine engine, Cause cause) noexcept {
  Completion completion;
  completion.outcome = Outcome::failed;
  completion.cause = cause;
  completion.engine = engine;
  completion.cache = resolve_cache(move, move.bytes + 1);
  return completion;
}

tl::unexpected<Error> fail_stopped(std::string_view engine) {
  return fail(Code::closed, fmt::format("the {} engine was stopped", engine));
}

}  // namespace gantry
