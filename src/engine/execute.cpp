#include "engine/execute.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/crc32c.hpp"
#include "base/sizes.hpp"
#include "engine/fault_guard.hpp"
#include "engine/kernels.hpp"
#include "engine/shape/make_part.hpp"
#include "engine/shape/rows.hpp"

namespace gantry {
namespace {

static_assert(std::endian::native == std::endian::little);  // patterns: lowest byte first

constexpr Bytes kPassBytes = Bytes{32} << 10;  // what a second look finds in the first-level cache

// One execution. A missing page leaves its functions by a jump (I1 of fault_guard.hpp): they have
// no destructors and no locks, and what must be known afterwards is volatile.
struct Work {
  const Move* move;
  CacheUse cache;
  volatile Bytes done = 0;  // from the front, certain
  bool equal = true;
  std::uint32_t crc32c = 0;
};

void copy_part(const Work& work, std::byte* to, const std::byte* from, Bytes bytes) noexcept {
  if (work.cache == CacheUse::streaming)
    stream_copy(to, from, bytes);
  else
    std::memcpy(to, from, bytes);
}

Bytes first_difference(const std::byte* one, const std::byte* other, Bytes bytes) noexcept {
  return static_cast<Bytes>(std::mismatch(one, one + bytes, other).first - one);
}

// In pieces, so that what has been copied is read, or copied again, from the cache.
void run_pieces(Work& work) noexcept {
  const Move& move = *work.move;
  for (Bytes at = 0; at < move.bytes;) {
    const Bytes piece = std::min(move.bytes - at, kPassBytes);
    const std::byte* from = move.source + at;
    switch (move.kind) {
      case Move::Kind::compare:
        if (std::memcmp(from, move.second_source + at, piece) != 0) {
          work.equal = false;
          work.done = at + first_difference(from, move.second_source + at, piece);
          return;
        }
        break;
      case Move::Kind::copy_crc32c:
        work.crc32c = crc32c({from, piece}, work.crc32c);
        copy_part(work, move.destination + at, from, piece);
        break;
      case Move::Kind::crc32c:
        work.crc32c = crc32c({from, piece}, work.crc32c);
        break;
      case Move::Kind::dual_copy:
        copy_part(work, move.destination + at, from, piece);
        copy_part(work, move.second_destination + at, from, piece);
        break;
      case Move::Kind::copy:
      case Move::Kind::fill:
      case Move::Kind::reshape:
        break;  // not done in pieces
    }
    at += piece;
    work.done = at;
  }
}

bool overlaps(const Move& move) noexcept {
  if (move.kind != Move::Kind::copy || !move.may_overlap) return false;
  const auto to = reinterpret_cast<std::uintptr_t>(move.destination);
  const auto from = reinterpret_cast<std::uintptr_t>(move.source);
  return (to > from ? to - from : from - to) < move.bytes;
}

// Bytes from the address to the end of its page; backwards: from the page's begin to the address.
Bytes within_page(const std::byte* at, bool backwards) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(at);
  return backwards ? (address - 1) % kSmallestPage + 1 : kSmallestPage - address % kSmallestPage;
}

// Copies pieces that no page border cuts: one whose page is missing has not begun. An overlapping
// copy cannot be done a second time, since it writes over what it has read.
void run_overlapping(Work& work) noexcept {
  const Move& move = *work.move;
  const bool backwards = move.backwards();
  for (Bytes done = 0; done < move.bytes;) {
    const Bytes at = backwards ? move.bytes - done : done;
    const Bytes piece = std::min({move.bytes - done, within_page(move.source + at, backwards),
                                  within_page(move.destination + at, backwards)});
    const Bytes from = backwards ? at - piece : at;
    std::memmove(move.destination + from, move.source + from, piece);
    done += piece;
    work.done = done;
  }
}

void run(void* argument) noexcept {
  Work& work = *static_cast<Work*>(argument);
  const Move& move = *work.move;
  if (overlaps(move)) return run_overlapping(work);
  if (move.kind == Move::Kind::copy) {
    copy_part(work, move.destination, move.source, move.bytes);
  } else if (move.kind == Move::Kind::fill) {
    if (work.cache == CacheUse::streaming)
      stream_fill(move.destination, move.pattern, move.bytes);
    else
      cached_fill(move.destination, move.pattern, move.bytes);
  } else if (move.kind == Move::Kind::reshape) {
    shape::make_part(move.plan->state(), move.destination, move.source, move.plan_from, move.bytes,
                     work.cache == CacheUse::streaming);
  } else {
    return run_pieces(work);
  }
  work.done = move.bytes;
}

struct Touched {
  std::array<GuardedRange, 3> all{};
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
  if (move.kind == Move::Kind::compare) add(move.second_source, false);
  if (move.writes()) add(move.destination, true);
  if (move.kind == Move::Kind::dual_copy) add(move.second_destination, true);
  return ranges;
}

// What can be made of a reshape's source before its page at `page`.
Bytes reach_of_reshape(const Move& move, std::uintptr_t page) noexcept {
  const auto source = reinterpret_cast<std::uintptr_t>(move.source);
  const Bytes made = page <= source ? 0 : move.plan->destination_from(page - source);
  return made <= move.plan_from ? 0 : std::min(made - move.plan_from, move.bytes);
}

// How far the pages before the faulting one reach from the front (backwards: from the end).
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
    const Bytes here = move.backwards()
                           ? from + move.bytes - std::min(from + move.bytes, page + kSmallestPage)
                           : std::max(from, page) - from;
    least = std::min(least, here);
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
    work.crc32c = whole.seed;
    const Touched part = touched_by(front);
    if (certain == 0 || catch_fault({part.all.data(), part.count}, run, &work, fault)) {
      answer.bytes_done = certain == 0 ? 0 : Bytes{work.done};
      answer.equal = work.equal;
      answer.crc32c = work.crc32c;
      if (!work.equal) answer.cause = Cause::none;  // a difference was found before the bad page
      return answer;
    }
  }
}

}  // namespace

bool is_sequential(const Move& move) noexcept {
  return move.may_overlap || move.kind == Move::Kind::crc32c ||
         move.kind == Move::Kind::copy_crc32c;
}

Move part_of(const Move& move, Bytes offset, Bytes bytes) noexcept {
  Move part = move;
  const Bytes at = move.backwards() ? move.bytes - offset - bytes : offset;
  if (move.kind == Move::Kind::reshape)
    part.plan_from += at;  // the source stays whole
  else if (part.source != nullptr)
    part.source += at;
  if (part.second_source != nullptr) part.second_source += at;
  if (part.destination != nullptr) part.destination += at;
  if (part.second_destination != nullptr) part.second_destination += at;
  part.bytes = bytes;
  part.pattern = std::rotr(move.pattern, static_cast<int>(at % sizeof move.pattern * 8));
  return part;
}

namespace {

Executed slow_execute(const Move& move, CacheUse cache, bool catch_faults) noexcept {
  Work work{&move, cache};
  work.crc32c = move.seed;
  if (!catch_faults) {
    run(&work);
  } else {
    const Touched ranges = touched_by(move);
    Fault fault;
    if (!catch_fault({ranges.all.data(), ranges.count}, run, &work, fault)) {
      if (overlaps(move))
        return {work.done, fault.written ? Cause::unwritable : Cause::unreadable, fault.address};
      return slow_after_fault(move, cache, ranges, fault);
    }
  }
  return {work.done, Cause::none, 0, work.equal, work.crc32c};
}

}  // namespace

Executed execute(const Move& move, CacheUse cache, bool catch_faults) noexcept {
  if (move.bytes == 0) return {0, Cause::none, 0, true, move.seed};  // null is allowed then
  const bool is_plain = move.kind == Move::Kind::copy && !move.may_overlap;
  if (catch_faults && is_plain && cache != CacheUse::streaming &&
      copy_guarded(move.destination, move.source, move.bytes)) [[likely]]
    return {move.bytes, Cause::none, 0, true, move.seed};
  if (move.kind != Move::Kind::reshape) return slow_execute(move, cache, catch_faults);
  const shape::FloatMode mode;  // outside of what a missing page leaves by a jump
  return slow_execute(move, cache, catch_faults);
}

Executed execute_part(const Move& whole, Bytes offset, Bytes bytes, std::uint32_t crc32c,
                      CacheUse cache, bool catch_faults) noexcept {
  Move part = part_of(whole, offset, bytes);
  part.seed = crc32c;
  Executed executed = execute(part, cache, catch_faults);
  if (executed.cause != Cause::none && whole.backwards() != part.backwards())
    executed.bytes_done = 0;
  return executed;
}

Executed execute_in_units(const Move& move, CacheUse cache, bool catch_faults,
                          const CancelRequests& requests) noexcept {
  Executed whole{0, Cause::none, 0, true, move.seed};
  do {
    if (requests.any()) {
      whole.cause = Cause::cancelled;
      return whole;
    }
    const Executed unit =
        execute_part(move, whole.bytes_done, std::min(kUnitBytes, move.bytes - whole.bytes_done),
                     whole.crc32c, cache, catch_faults);
    whole.bytes_done += unit.bytes_done;
    whole.cause = unit.cause;
    whole.fault_address = unit.fault_address;
    whole.equal = unit.equal;
    whole.crc32c = unit.crc32c;
  } while (whole.bytes_done < move.bytes && whole.equal && whole.cause == Cause::none);
  return whole;
}

CacheUse resolve_cache(const Move& move, Bytes streaming_from) noexcept {
  if (move.cache != CacheUse::automatic) return move.cache;
  return move.bytes >= streaming_from ? CacheUse::streaming : CacheUse::reader_soon;
}

}  // namespace gantry
