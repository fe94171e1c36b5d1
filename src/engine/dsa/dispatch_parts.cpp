// The dispatcher's states of a part: ready, at the device, landed, or a chore for the CPU.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/assert.hpp"
#include "base/clock.hpp"
#include "base/populate.hpp"
#include "base/result.hpp"
#include "engine/dsa/dispatcher.hpp"
#include "engine/execute.hpp"

namespace gantry::dsa {
namespace {

constexpr std::uint32_t kSuspicion = 32;  // parts populated in advance after a page fault
constexpr std::size_t kChoresAhead = 32;  // no more are made: the CPU is slower than the device

bool is_head(const Part& part, const Cut& cut) noexcept {
  return part.offset == 0 && part.faults == 0 && part.move.bytes < kLine &&
         part.owner->move.bytes >= cut.align_from;
}

bool populate_all(const Move& move) noexcept {
  const auto made = [&move](const std::byte* at, PageAccess access) {
    // MADV_POPULATE_* changes nothing that the caller sees.
    return at == nullptr || populate({const_cast<std::byte*>(at), move.bytes}, access) == 0;
  };
  return made(move.source, PageAccess::read) && made(move.destination, PageAccess::write);
}

}  // namespace

void Dispatcher::step() noexcept {
  if (!halting_) land();
  hand_out();
  if (!changed_) return;
  changed_ = false;
  for (PendingMoves* lane : lanes_) {
    const PendingMoves::Retired retired = lane->retire(report_);
    unfinished_ -= retired.moves;
    load_ -= retired.taken_bytes;
  }
}

// ---- back from the device ------------------------------------------------------------------

void Dispatcher::land() noexcept {
  if (flights_.count() == 0) return;
  landed_.clear();
  const bool alone = flights_.count() == 1;
  flights_.land(*queue_, landed_);
  if (!landed_.empty()) landed_ns_ = monotonic_ns();
  for (const Flights::Landed& landed : landed_) {
    const Bytes bytes = landed.part->move.bytes;
    learn(landed, bytes, alone);
    settle(landed);
  }
  looked_ns_ = monotonic_ns();
}

void Dispatcher::settle(const Flights::Landed& landed) noexcept {
  Part& part = *landed.part;
  if (landed.status == 0) return again_.push_back(&part);  // its batch ended before it
  const Bytes before = part.move.bytes;
  const Next next = judge(part, landed.record, landed.status);
  part.owner->by_device += before - part.move.bytes;
  const Status status = status_in(landed.status);
  if (status == Status::page_fault || status == Status::page_fault_unresolved) {
    ++counts_.page_faults;
    ++part.faults;
    part.populated = false;
    part.owner->faulted = true;
    suspicion_ = kSuspicion;
  }
  if (status == Status::bad_opcode) refused_kinds_ |= 1u << static_cast<unsigned>(part.move.kind);
  switch (next) {
    case Next::done:
      return finish(part);
    case Next::again:
      part.to_cpu = part.faults > options_.fault_limit;
      return again_.push_back(&part);
    case Next::by_cpu:
      counts_.refused += status != Status::page_fault_unresolved;
      part.to_cpu = true;
      return again_.push_back(&part);
  }
}

void Dispatcher::finish(Part& part) noexcept {
  --part.owner->open;
  changed_ = true;
  free_parts_.push_back(&part);
}

void Dispatcher::drop(Part& part, Cause cause, std::uintptr_t address) noexcept {
  part.owner->fail(part.offset + part.certain, cause, address);
  finish(part);
}

// ---- to the device -------------------------------------------------------------------------

// Parts that came back go first; then each lane in turn.
Part* Dispatcher::next_ready() noexcept {
  if (!again_.empty()) {
    Part* part = again_.front();
    again_.pop_front();
    return part;
  }
  if (free_parts_.empty()) return nullptr;
  for (std::size_t tried = 0; tried < lanes_.size(); ++tried) {
    PendingMoves& lane = *lanes_[turn_++ % lanes_.size()];
    Part* part = free_parts_.back();
    if (!lane.next_part(cut_, *part)) continue;
    free_parts_.pop_back();
    return part;
  }
  return nullptr;
}

Dispatcher::Route Dispatcher::route(const Part& part) const noexcept {
  const Move& move = part.move;
  // Parts before the place where the move stopped still count: they end what is certain.
  const PendingMove& owner = *part.owner;
  if (owner.cancelled || part.offset + part.certain >= owner.failed_at) return Route::drop;
  const bool refused = (refused_kinds_ >> static_cast<unsigned>(move.kind) & 1) != 0;
  if (failed_ || refused || part.to_cpu || is_head(part, cut_) || !device_takes(move))
    return Route::cpu;
  if (part.populated) return Route::device;
  const bool wanted = part.faults > 0 || part.owner->faulted || suspicion_ > 0 ||
                      options_.populate == DsaOptions::Populate::always;
  return wanted ? Route::populate : Route::device;
}

void Dispatcher::hand_out() noexcept {
  if (halting_) return;
  const std::size_t room = failed_ ? 0 : flights_.room();
  ready_.clear();
  while ((failed_ || ready_.size() < room) && chores_.size() < kChoresAhead)
    if (!collect(ready_, room)) break;
  if (!ready_.empty()) submit_ready(ready_);
}

// False: nothing to hand out.
bool Dispatcher::collect(std::vector<Part*>& ready, std::size_t room) noexcept {
  Part* part = next_ready();
  if (part == nullptr) return false;
  switch (route(*part)) {
    case Route::drop:
      drop(*part, Cause::cancelled, 0);
      break;
    case Route::device:
      GANTRY_ASSERT(ready.size() < room);
      ready.push_back(part);
      break;
    case Route::populate:
      if (part->faults == 0 && suspicion_ > 0) --suspicion_;
      chores_.push_back({.part = part, .kind = Chore::Kind::populate});
      break;
    case Route::cpu:
      is_head(*part, cut_) ? ++counts_.heads : ++counts_.to_cpu;
      chores_.push_back({.part = part, .kind = Chore::Kind::cpu});
      break;
  }
  return true;
}

void Dispatcher::submit_ready(std::span<Part* const> ready) noexcept {
  const Taken taken = flights_.submit(*queue_, ready);
  if (taken.count > 0) full_since_ns_ = 0;
  if (taken.count < ready.size()) not_accepted(ready.subspan(taken.count), taken.error);
}

void Dispatcher::not_accepted(std::span<Part* const> rest, int error) noexcept {
  if (error == EINVAL || error == EFAULT) {
    ++counts_.refused;
    rest.front()->to_cpu = true;
  } else if (error != 0 && error != EAGAIN) {
    broken_ = fmt::format("submitting to {} failed: {}", queue_->traits().name,
                          std::generic_category().message(error));
  } else if (flights_.count() == 0) {
    // Full, but not with our descriptors: others may keep it so for ever.
    const std::uint64_t now = monotonic_ns();
    if (full_since_ns_ == 0) full_since_ns_ = now;
    const auto limit = static_cast<std::uint64_t>(options_.full_limit.count());
    rest.front()->to_cpu = now - full_since_ns_ >= limit;
  }
  for (std::size_t i = rest.size(); i-- > 0;) again_.push_front(rest[i]);
}

// ---- by the CPU ----------------------------------------------------------------------------

void Dispatcher::perform(Chore& chore) const noexcept {
  const Part& part = *chore.part;
  if (chore.kind == Chore::Kind::populate) {
    chore.populated = populate_all(part.move);
    return;
  }
  const gantry::Executed executed = execute(part.move, part.cache, true);
  chore.done = executed.bytes_done;
  chore.cause = executed.cause;
  chore.fault_address = executed.fault_address;
}

void Dispatcher::conclude(const Chore& chore) noexcept {
  Part& part = *chore.part;
  part.owner->helper_cpu_ns += chore.helper_cpu_ns;
  if (chore.kind == Chore::Kind::cpu) return conclude_cpu(chore);
  ++counts_.populated;
  part.populated = true;
  part.to_cpu = part.to_cpu || !chore.populated;  // it will say what is wrong, and where
  again_.push_back(&part);
}

void Dispatcher::conclude_cpu(const Chore& chore) noexcept {
  Part& part = *chore.part;
  part.owner->by_cpu += chore.done;
  if (chore.cause == Cause::none) return finish(part);
  part.certain += chore.done;
  drop(part, chore.cause, chore.fault_address);
}

}  // namespace gantry::dsa
