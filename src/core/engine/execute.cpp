#include "core/engine/execute.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "core/base/sizes.hpp"
#include "core/engine/fault_guard.hpp"
#include "core/engine/kernels.hpp"
#include "core/tensor/float_mode.hpp"
#include "core/tensor/reshape_state.hpp"

namespace gantry {
namespace {

static_assert(std::endian::native == std::endian::little);  // patterns: lowest byte first

// One execution. A missing page leaves its functions by a jump (I1 of fault_guard.hpp): they have
// no destructors and no locks, and what must be known afterwards is volatile.
struct Work {
  const Move* move;
  CacheUse cache;
  volatile Bytes done = 0;  // from the front, certain
};

void copy_part(const Work& work, std::byte* to, const std::byte* from, Bytes bytes) noexcept {
  if (work.cache == CacheUse::streaming)
    stream_copy(to, from, bytes);
  else
    std::memcpy(to, from, bytes);
}

void run(void* argument) noexcept {
  Work& work = *static_cast<Work*>(argument);
  const Move& move = *work.move;
  if (move.kind == Move::Kind::copy) {
    copy_part(work, move.destination, move.source, move.bytes);
  } else if (move.kind == Move::Kind::fill) {
    if (work.cache == CacheUse::streaming)
      stream_fill(move.destination, move.pattern, move.bytes);
    else
      cached_fill(move.destination, move.pattern, move.bytes);
  } else {
    move.plan->state().make(move.destination, move.source, move.plan_from, move.bytes,
                            work.cache == CacheUse::streaming);
  }
  work.done = move.bytes;
}

struct Touched {
  std::array<GuardedRange, 2> all{};
  std::size_t count = 0;
};

Touched touched_by(const Move& move) noexcept {
  Touched ranges;
  const auto add = [&](const std::byte* from, bool written) {
    ranges.all[ranges.count++] = {from, move.bytes, written};
  };
  if (move.kind == Move::Kind::reshape) {
    const ByteRange read = move.plan->source_of({move.plan_from, move.bytes});
    ranges.all[ranges.count++] = {move.source + read.from, read.bytes, false};
  } else if (move.reads()) {
    add(move.source, false);
  }
  add(move.destination, true);
  return ranges;
}

// What can be made of a reshape's source before its page at `page`.
Bytes reach_of_reshape(const Move& move, std::uintptr_t page) noexcept {
  const auto source = reinterpret_cast<std::uintptr_t>(move.source);
  const Bytes made = page <= source ? 0 : move.plan->destination_from(page - source);
  return made <= move.plan_from ? 0 : std::min(made - move.plan_from, move.bytes);
}

// How far the pages before the faulting one reach from the front.
Bytes reach(const Move& move, const Touched& ranges, std::uintptr_t fault) noexcept {
  Bytes least = move.bytes;
  for (std::size_t i = 0; i < ranges.count; ++i) {
    const auto from = reinterpret_cast<std::uintptr_t>(ranges.all[i].from);
    if (fault < from || fault - from >= ranges.all[i].bytes) continue;
    const std::uintptr_t page = fault / kSmallestPage * kSmallestPage;
    if (move.kind == Move::Kind::reshape && !ranges.all[i].written) {
      least = std::min(least, reach_of_reshape(move, page));
      continue;
    }
    least = std::min(least, std::max(from, page) - from);
  }
  return least;
}

// The vectors run ahead on several pages, so after a fault the certain part is done once more, by
// itself. Another page of it may be missing, too; it gets shorter each time, so this ends.
Executed slow_after_fault(const Move& whole, CacheUse cache, const Touched& ranges,
                          Fault fault) noexcept {
  Executed answer;
  for (;;) {
    answer.cause = fault.written ? Cause::unwritable : Cause::unreadable;
    answer.fault_address = fault.address;
    const Bytes certain = reach(whole, ranges, fault.address);
    const Move front = part_of(whole, 0, certain);
    Work work{&front, cache};
    const Touched part = touched_by(front);
    if (certain == 0 || catch_fault({part.all.data(), part.count}, run, &work, fault)) {
      answer.bytes_done = certain == 0 ? 0 : Bytes{work.done};
      return answer;
    }
  }
}

}  // namespace

Move part_of(const Move& move, Bytes offset, Bytes bytes) noexcept {
  Move part = move;
  if (move.kind == Move::Kind::reshape)
    part.plan_from += offset;  // the source stays whole
  else if (part.source != nullptr)
    part.source += offset;
  if (part.destination != nullptr) part.destination += offset;
  part.bytes = bytes;
  part.pattern = std::rotr(move.pattern, static_cast<int>(offset % sizeof move.pattern * 8));
  return part;
}

namespace {

Executed slow_execute(const Move& move, CacheUse cache) noexcept {
  Work work{&move, cache};
  const Touched ranges = touched_by(move);
  Fault fault;
  if (!catch_fault({ranges.all.data(), ranges.count}, run, &work, fault))
    return slow_after_fault(move, cache, ranges, fault);
  return {work.done};
}

}  // namespace

Executed execute(const Move& move, CacheUse cache) noexcept {
  if (move.bytes == 0) return {};  // null is allowed then
  if (move.kind == Move::Kind::copy && cache != CacheUse::streaming &&
      copy_guarded(move.destination, move.source, move.bytes)) [[likely]]
    return {move.bytes};
  if (move.kind != Move::Kind::reshape) return slow_execute(move, cache);
  const shape::FloatMode mode;  // outside of what a missing page leaves by a jump
  return slow_execute(move, cache);
}

Executed execute_in_units(const Move& move, CacheUse cache,
                          const std::atomic<bool>& cancelled) noexcept {
  Executed whole;
  do {
    if (cancelled.load(std::memory_order_relaxed)) {  // a request
      whole.cause = Cause::cancelled;
      return whole;
    }
    const Bytes left = move.bytes - whole.bytes_done;
    const Executed unit =
        execute(part_of(move, whole.bytes_done, std::min(kUnitBytes, left)), cache);
    whole.bytes_done += unit.bytes_done;
    whole.cause = unit.cause;
    whole.fault_address = unit.fault_address;
  } while (whole.bytes_done < move.bytes && whole.cause == Cause::none);
  return whole;
}

CacheUse resolve_cache(const Move& move, Bytes streaming_from) noexcept {
  if (move.cache != CacheUse::automatic) return move.cache;
  return move.bytes >= streaming_from ? CacheUse::streaming : CacheUse::reader_soon;
}

}  // namespace gantry
