#include "instructions.hpp"

#include <fmt/format.h>

#include <array>

#include "../support/process/callgrind.hpp"
#include "../support/program/sizes.hpp"
#include "../support/system/numbers.hpp"
#include "movers.hpp"

namespace gantry::bench {

// Counting is on while the calling thread is in one of these two; callgrind knows them by name.
extern "C" {

[[gnu::noinline, gnu::used]] std::uint64_t gantry_bench_counted_submit(Lane* lane, const Move* move,
                                                                       SubmitMode use) {
  const auto ticket = lane->submit(*move, use);
  return ticket ? static_cast<std::uint64_t>(*ticket) : 0;
}

[[gnu::noinline, gnu::used]] bool gantry_bench_counted_wait(Lane* lane, std::uint64_t ticket) {
  return lane->wait(Ticket{ticket}, Deadline::never()) == Outcome::done;
}

[[gnu::noinline, gnu::used]] void gantry_bench_counted_memcpy(void* to, const void* from,
                                                              Bytes bytes) {
  std::memcpy(to, from, bytes);
}
}

namespace {

constexpr std::array kCountedSizes = {Bytes{64}, Bytes{4} << 10, Bytes{64} << 10, Bytes{1} << 20,
                                      Bytes{64} << 20};
constexpr Bytes kMostBytes = Bytes{128} << 20;  // of all the moves of one run together
constexpr Bytes kMostCountedMoves = 100;

struct Counted {
  std::string engine;
  Bytes bytes = 0;
  Bytes moves = 0;
};

// ---- in the process under callgrind ----------------------------------------------------------

/// One move, its end awaited uncounted where it comes without the caller.
bool move_once(Lane& lane, const Move& move, bool ends_unpolled) {
  const std::uint64_t ticket = gantry_bench_counted_submit(&lane, &move, SubmitMode::queued);
  if (ticket == 0) return false;
  if (ends_unpolled) static_cast<void>(lane.wait(Ticket{ticket}, patience(), WaitStrategy::sleep));
  return gantry_bench_counted_wait(&lane, ticket);
}

Result<void> move_all(const Counted& what) {
  Arena arena(std::bit_ceil(what.bytes));
  const Walk walk = Walk::over(1, what.bytes);
  if (what.engine == kMemcpy) {
    for (Bytes i = 0; i < what.moves; ++i)
      gantry_bench_counted_memcpy(arena.destination(), arena.source(), what.bytes);
    return {};
  }
  auto runtime = Runtime::create();
  if (!runtime) return Unexpected(runtime.error());
  auto engine = runtime->engine(what.engine);
  if (!engine) return Unexpected(engine.error());
  auto lane = (*engine)->open_lane();
  if (!lane) return Unexpected(lane.error());
  const Move move = piece_move(arena, walk, 0);
  const bool ends_unpolled =
      (*engine)->capabilities().moves_itself &&
      (*lane)->explain(move, SubmitMode::queued).engine != CopyEngine::inline_;
  for (Bytes i = 0; i < what.moves; ++i)
    if (!move_once(**lane, move, ends_unpolled))
      return Unexpected({Code::system, "a move failed under callgrind", ""});
  return {};
}

// ---- in the process that starts it ----------------------------------------------------------

/// Instructions a move.
Result<double> count(const Counted& what, const std::string& folder, int interrupt_descriptor) {
  auto total = count_own(
      "gantry_bench_counted_", folder,
      {std::string(kCounted), what.engine, std::to_string(what.bytes), std::to_string(what.moves)},
      interrupt_descriptor);
  if (!total) return total;
  return *total / static_cast<double>(what.moves);
}

}  // namespace

int run_counted(std::span<char* const> arguments) {
  if (arguments.size() != 3) return 2;
  const Counted what{arguments[0], number_of<Bytes>(arguments[1]).value_or(0),
                     number_of<Bytes>(arguments[2]).value_or(0)};
  const auto done = move_all(what);
  if (!done) std::fputs((to_string(done.error()) + "\n").c_str(), stderr);
  return done ? 0 : 1;
}

Result<void> count_instructions(const Settings& settings, Report& report,
                                int interrupt_descriptor) {
  const auto scratch = ScratchDirectory::create();
  if (!scratch) return Unexpected(scratch.error());
  const std::array engines = {kMemcpy, kInlineEngine, kThreadEngine, kAutoEngine};
  const auto sizes = settings.own_sizes(kCountedSizes);
  cli::Progress progress("bench " + report.bench, engines.size() * sizes.size());
  for (const Bytes bytes : sizes) {
    const std::string name = fmt::format("instructions/{}", format_size(bytes));
    for (const std::string_view engine : engines) {
      progress.step(name);
      const Counted what{std::string(engine), bytes,
                         std::clamp(kMostBytes / bytes, Bytes{2}, kMostCountedMoves)};
      const std::string subject =
          engine == kMemcpy ? std::string(kMemcpy) : fmt::format("gantry/{}", engine);
      if (auto reported = report_once(report, name, subject, bytes, "instructions",
                                      count(what, scratch->path(), interrupt_descriptor));
          !reported)
        return reported;
    }
  }
  return {};
}

}  // namespace gantry::bench
