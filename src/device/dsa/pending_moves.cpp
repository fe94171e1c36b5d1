#include "device/dsa/pending_moves.hpp"

#include <algorithm>
#include <bit>

#include "core/base/assert.hpp"
#include "core/engine/execute.hpp"
#include "device/dsa/descriptor.hpp"

namespace gantry::dsa {
namespace {

// Takes `bytes` that are done off the front of what is left.
void shorten(Part& part, Bytes bytes) noexcept {
  Move& move = part.move;
  GANTRY_DEBUG_ASSERT(bytes <= move.bytes);
  move.bytes -= bytes;
  part.certain += bytes;
  if (move.source != nullptr) move.source += bytes;
  move.destination += bytes;
  // The pattern begins anew with each descriptor, so it is turned.
  move.pattern = std::rotr(move.pattern, static_cast<int>(bytes % sizeof move.pattern * 8));
}

// The published rule: what was done is taken off the front. `result` says that it is the tail of
// what was moved, which the device does only where source and destination overlap: never here.
Next after_page_fault(Part& part, const CompletionRecord& record, Next next) noexcept {
  const Bytes done = record.bytes_completed;
  const bool from_the_tail = part.move.kind == Move::Kind::copy && record.result != 0;
  if (done > part.move.bytes || from_the_tail) return Next::by_cpu;
  shorten(part, done);
  return part.move.bytes == 0 ? Next::done : next;
}

constexpr std::uint64_t kLookAhead = 32;  // moves beyond one that cannot go on at present

// Bytes up to the first whole line that is written.
Bytes to_next_line(const Move& move) noexcept {
  return (kLine - address_of(move.destination) % kLine) % kLine;
}

Bytes next_bytes(const PendingMove& pending, const Cut& cut) noexcept {
  const Move& move = pending.move;
  const Bytes left = move.bytes - pending.given;
  if (pending.given == 0 && move.bytes >= cut.align_from)
    if (const Bytes head = to_next_line(move); head != 0) return head;
  return std::min(left, cut.part_bytes);
}

void tell(const PendingMove& pending, Outcome outcome) noexcept {
  if (pending.move.completion == nullptr) return;
  Completion& told = *pending.move.completion;
  told.cause = outcome == Outcome::failed ? pending.cause : Cause::none;
  told.engine = pending.by_cpu > pending.by_device ? CopyEngine::inline_ : CopyEngine::dsa;
  told.cache = pending.cache;
  told.bytes_done = std::min(pending.given, pending.failed_at);
  told.fault_address = outcome == Outcome::failed ? pending.fault_address : 0;
  told.helper_cpu_ns = pending.helper_cpu_ns;
  told.outcome = outcome;
}

void enter_in(const PendingMove& pending, Outcome outcome, EngineReport& report) noexcept {
  const Bytes done = std::min(pending.given, pending.failed_at);
  const CopyEngine by = pending.by_cpu > pending.by_device ? CopyEngine::inline_ : CopyEngine::dsa;
  EngineReport::Path& path = report.by_engine[static_cast<std::size_t>(by)];
  ++path.moves;
  path.bytes += done;
  ++report.moves;
  report.bytes += done;
  report.failed += outcome == Outcome::failed;
  report.streamed += pending.cache == CacheUse::streaming;
}

}  // namespace

Descriptor describe(const Part& part, const CompletionRecord& record) noexcept {
  const Move& move = part.move;
  const bool fills = move.kind == Move::Kind::fill;
  Flags flags = Flags::completion_valid | Flags::request_completion;
  if (part.cache == CacheUse::reader_soon) flags = flags | Flags::cache_control;
  Descriptor descriptor;
  descriptor.set(fills ? Opcode::memfill : Opcode::memmove, flags);
  descriptor.completion = address_of(&record);
  descriptor.size = static_cast<std::uint32_t>(move.bytes);
  descriptor.source = fills ? move.pattern : address_of(move.source);
  descriptor.destination = address_of(move.destination);
  return descriptor;
}

Next judge(Part& part, const CompletionRecord& record, std::uint8_t status) noexcept {
  switch (status_in(status)) {
    case Status::success:
    case Status::success_with_predicate:
      shorten(part, part.move.bytes);
      return Next::done;
    case Status::page_fault:
      return after_page_fault(part, record, Next::again);
    case Status::page_fault_unresolved:
      return after_page_fault(part, record, Next::by_cpu);
    default:
      return Next::by_cpu;
  }
}

void PendingMove::fail(Bytes at, Cause why, std::uintptr_t address) noexcept {
  if (at >= failed_at) return;
  failed_at = at;
  cause = why;
  fault_address = address;
}

PendingMoves::PendingMoves(std::size_t depth, LaneProgress& progress)
    : ring_(depth), progress_(progress) {}

void PendingMoves::add(const Move& move, CacheUse cache) noexcept {
  GANTRY_DEBUG_ASSERT(room() > 0);
  PendingMove& pending = at(last_ + 1);
  pending = PendingMove{};
  pending.move = move;
  pending.cache = cache;
  ++last_;
}

void PendingMoves::cancel() noexcept {
  for (std::uint64_t ticket = first_; ticket <= last_; ++ticket) at(ticket).cancelled = true;
}

bool PendingMoves::next_part(const Cut& cut, Part& part) noexcept {
  const auto is_out = [](const PendingMove& p) { return p.stopped() || p.given == p.move.bytes; };
  next_ = std::max(next_, first_);
  while (next_ <= last_ && is_out(at(next_))) ++next_;
  const std::uint64_t end = std::min(last_, next_ + kLookAhead);
  for (std::uint64_t ticket = next_; ticket <= end; ++ticket) {
    PendingMove& pending = at(ticket);
    if (is_out(pending) || pending.open >= cut.parts) continue;
    const Bytes bytes = next_bytes(pending, cut);
    part = Part{.owner = &pending,
                .offset = pending.given,
                .move = part_of(pending.move, pending.given, bytes),
                .cache = pending.cache,
                .populated = pending.move.resident};
    pending.given += bytes;
    ++pending.open;
    return true;
  }
  return false;
}

void PendingMoves::end(PendingMove& pending, EngineReport& report) noexcept {
  if (pending.cancelled && pending.given != pending.move.bytes)
    pending.fail(pending.given, Cause::cancelled, 0);
  const bool failed = pending.failed_at != PendingMove::kNowhere;
  const Outcome outcome = failed ? Outcome::failed : Outcome::done;
  tell(pending, outcome);
  enter_in(pending, outcome, report);
  progress_.retire(outcome);
}

PendingMoves::Retired PendingMoves::retire(EngineReport& report) noexcept {
  Retired retired;
  while (first_ <= last_ && at(first_).over()) {
    PendingMove& pending = at(first_);
    retired.taken_bytes += pending.move.bytes;
    ++retired.moves;
    end(pending, report);
    ++first_;  // I1
  }
  if (retired.moves > 0) progress_.announce();
  return retired;
}

Bytes PendingMoves::left(std::uint64_t ticket) const noexcept {
  Bytes bytes = 0;
  for (std::uint64_t t = first_; t <= std::min(last_, ticket); ++t) {
    const PendingMove& pending = ring_[t % ring_.size()];
    bytes += pending.move.bytes - std::min(pending.move.bytes, pending.by_device + pending.by_cpu);
  }
  return bytes;
}

void PendingMoves::disown(std::uint64_t last) noexcept {
  for (std::uint64_t ticket = progress_.ended() + 1; ticket <= last; ++ticket) {
    if (Completion* told = at(ticket).move.completion; told != nullptr) {
      *told = Completion{};
      told->cause = Cause::device;
      told->outcome = Outcome::failed;
    }
    progress_.retire(Outcome::failed);
  }
  progress_.announce();
}

}  // namespace gantry::dsa
