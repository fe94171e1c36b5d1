#include "movers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

namespace gantry::bench {
namespace {

constexpr std::uint64_t kMostLoopMoves = 1 << 22;
constexpr std::uint64_t kBatches = 3;  // of a turn, so that one disturbance is one of them

/// For the compiler: somebody may look at memory now, so that none of the copies can be left out.
inline void keep_copies() noexcept {
  asm volatile("" : : : "memory");
}

// The loops of those who copy without an engine, each on a boundary of its own (see
// CMakeLists.txt), so that where the linker put it makes no difference. Everything they need is in
// registers, as it would be in a program's own, whatever the barrier says of memory.

template <class Copy>
[[gnu::noinline]] void copy_again(std::uint64_t moves, std::byte* to, const std::byte* from,
                                  Bytes bytes, Copy copy) noexcept {
  for (; moves > 0; --moves) {
    copy(to, from, bytes);
    keep_copies();
  }
}

template <class Copy>
[[gnu::noinline]] void copy_pieces(Walk walk, std::byte* to, const std::byte* from,
                                   Copy copy) noexcept {
  Bytes at = 0;
  for (std::uint64_t left = walk.moves; left > 0; --left, at = walk.next(at)) {
    copy(to + at, from + at, walk.bytes);
    keep_copies();
  }
}

template <class Copy>
Mover loop_of(Arena& arena, Copy copy) {
  return [&arena, copy](const Walk& walk) -> Result<void> {
    if (walk.pieces == 1)
      copy_again(walk.moves, arena.destination(), arena.source(), walk.bytes, copy);
    else
      copy_pieces(walk, arena.destination(), arena.source(), copy);
    return {};
  };
}

std::chrono::nanoseconds turn_time(Bytes bytes) noexcept {
  constexpr Bytes kSmall = Bytes{64} << 10;
  return std::chrono::milliseconds(bytes <= kSmall ? 6 : 20);
}

/// One subject of a case of copying: how many moves fill its turn, and its turns.
class Turns {
 public:
  Turns(Environment& environment, const Walk& walk, Mover mover)
      : environment_(environment), walk_(walk), mover_(std::move(mover)) {}

  Result<void> take(Series& series) {
    if (batches_ == 0)
      if (auto fitted = fit(); !fitted) return fitted;
    environment_.arena().change(walk_);
    if (batches_ > 1)
      if (auto warmed = mover_(walk_.with_moves(whole_rounds(walk_.moves / 10))); !warmed)
        return warmed;
    std::vector<Spent> batches;
    for (std::uint64_t i = 0; i < batches_; ++i) {
      const Stopwatch watch;
      if (auto moved = mover_(walk_); !moved) return moved;
      batches.push_back(watch.spent());
    }
    if (auto right = environment_.arena().verify(walk_, environment_.reader()); !right)
      return right;
    add_to(series, batches);
    return {};
  }

 private:
  /// Whole ones: all subjects go over the same memory, however long they take.
  [[nodiscard]] std::uint64_t whole_rounds(std::uint64_t moves) const noexcept {
    return std::max<std::uint64_t>(1, moves / walk_.pieces) * walk_.pieces;
  }

  /// How many moves fill a batch: more and more of them, until they are a fair sample.
  Result<void> fit() {
    const double turn_ns = Stopwatch::ns(turn_time(walk_.bytes));
    const double batch_ns = turn_ns / kBatches;
    while (true) {
      const Stopwatch watch;
      if (auto moved = mover_(walk_); !moved) return moved;
      const double wall_ns = std::max(1.0, watch.spent().wall_ns);
      const auto moves = static_cast<double>(walk_.moves);
      if (wall_ns >= batch_ns / 10 || walk_.moves >= kMostLoopMoves) {
        const double fitting = std::min(moves * batch_ns / wall_ns, double{kMostLoopMoves});
        walk_.moves = whole_rounds(static_cast<std::uint64_t>(fitting));
        batches_ = wall_ns < turn_ns ? kBatches : 1;
        return {};
      }
      walk_.moves *= 4;
    }
  }

  void add_to(Series& series, const std::vector<Spent>& batches) const {
    const auto each = [&](double Spent::* time) {
      std::vector<double> times;
      for (const Spent& batch : batches)
        times.push_back(batch.*time / static_cast<double>(walk_.moves));
      return median(times);
    };
    const auto bytes = static_cast<double>(walk_.bytes);
    const double wall_ns = each(&Spent::wall_ns);
    const double caller_ns = each(&Spent::caller_ns);
    const double helper_ns = each(&Spent::helper_ns);
    series.add(kLatencyP50, "ns", wall_ns);
    series.add(kThroughput, "GB/s", bytes / wall_ns);  // bytes a ns are GB a second
    series.add(kCpuPerGb, "s/GB", (caller_ns + helper_ns) / bytes);
    series.add(kCallerCpuPerGb, "s/GB", caller_ns / bytes);
    series.add(kHelperCpuPerGb, "s/GB", helper_ns / bytes);
  }

  Environment& environment_;
  Walk walk_;
  Mover mover_;
  std::uint64_t batches_ = 0;  // of a turn; 0: not known yet, nor how many moves one has
};

}  // namespace

Result<std::shared_ptr<Lane>> lane_of(Engine& engine) {
  auto lane = engine.open_lane();
  if (!lane) return Unexpected(lane.error());
  return std::shared_ptr<Lane>(std::move(*lane));
}

Result<void> await(Lane& lane, Ticket ticket, WaitStrategy waiting, Deadline deadline) {
  const Outcome outcome = lane.wait(ticket, deadline, waiting);
  if (outcome == Outcome::done) return {};
  return Unexpected(
      {Code::system,
       fmt::format("move {}: {}", static_cast<std::uint64_t>(ticket), to_string(outcome)), ""});
}

Move piece_move(Arena& arena, const Walk& walk, Bytes at) noexcept {
  return Move::copy({arena.destination() + at, walk.bytes}, {arena.source() + at, walk.bytes});
}

Mover memcpy_mover(Arena& arena) {
  return loop_of(arena,
                 [](void* to, const void* from, Bytes bytes) { std::memcpy(to, from, bytes); });
}

Mover copier_mover(Arena& arena, Bytes streaming_from) {
  return loop_of(arena, Copier(streaming_from));
}

Result<Mover> waited_mover(Arena& arena, Engine& engine) {
  auto lane = lane_of(engine);
  if (!lane) return Unexpected(lane.error());
  return [&arena, lane = std::move(*lane)](const Walk& walk) -> Result<void> {
    const Deadline deadline = patience();
    Bytes at = 0;
    for (std::uint64_t left = walk.moves; left > 0; --left, at = walk.next(at)) {
      const auto ticket = lane->submit(piece_move(arena, walk, at), SubmitMode::synchronous);
      if (!ticket) return Unexpected(ticket.error());
      if (lane->wait(*ticket, deadline) != Outcome::done) return await(*lane, *ticket);
    }
    return {};
  };
}

Result<Mover> queued_mover(Arena& arena, Engine& engine, unsigned in_flight) {
  auto lane = lane_of(engine);
  if (!lane) return Unexpected(lane.error());
  return [&arena, in_flight, lane = std::move(*lane)](const Walk& walk) -> Result<void> {
    const Deadline deadline = patience();
    Bytes at = 0;
    for (std::uint64_t left = walk.moves; left >= in_flight; left -= in_flight) {
      Result<Ticket> ticket = Ticket{};
      for (unsigned i = 0; i < in_flight; ++i, at = walk.next(at)) {
        ticket = lane->submit(piece_move(arena, walk, at), SubmitMode::queued);
        if (!ticket) return Unexpected(ticket.error());
      }
      if (lane->wait(*ticket, deadline) != Outcome::done) return await(*lane, *ticket);
    }
    return {};
  };
}

Entrant mover_entrant(Environment& environment, std::string subject, const Walk& walk,
                      Mover mover) {
  auto turns = std::make_shared<Turns>(environment, walk, std::move(mover));
  return {std::move(subject), [turns](Series& series) { return turns->take(series); }};
}

}  // namespace gantry::bench
