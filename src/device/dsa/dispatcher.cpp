#include "device/dsa/dispatcher.hpp"

#include <sys/prctl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/base/assert.hpp"
#include "core/base/clock.hpp"
#include "core/base/os/cpu.hpp"
#include "core/base/os/populate.hpp"
#include "core/base/os/worker_thread.hpp"
#include "core/base/result.hpp"
#include "core/engine/execute.hpp"
#include "device/dsa/descriptor.hpp"

namespace gantry::dsa {
namespace {

// twice what can be in flight: as many again are chores or ready
constexpr std::size_t kParts = 256;
// Published, until there is something learned.
constexpr double kStartNs = 1200;
constexpr double kBytesPerNs = 30;

std::uint64_t count_ns(std::chrono::nanoseconds time) noexcept {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(time.count(), 0));
}

Cut cut_of(const DsaOptions& options, const QueueTraits& traits) {
  const Bytes most = std::max(traits.max_transfer_bytes / kLine * kLine, kLine);
  const Bytes wanted = std::max(options.part_bytes / kLine * kLine, kLine);
  const std::uint32_t half = std::max(traits.entries / 2, 1u);
  return {std::min(wanted, most), std::max(options.align_from, 2 * kLine), std::min(half, 8u)};
}

// Waits between two looks that found nothing: first briefly, then leaving the CPU to others.
void idle_turn(unsigned turns) noexcept {
  if (turns < 200)
    cpu_relax();
  else if (turns < 1000)
    std::this_thread::yield();
  else
    std::this_thread::sleep_for(std::chrono::microseconds(50));
}

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

Dispatcher::Dispatcher(std::unique_ptr<WorkQueue> queue, const DsaOptions& options)
    : options_(options),
      cut_(cut_of(options, queue->traits())),
      queue_(std::move(queue)),
      flights_(queue_->traits()),
      parts_(kParts),
      start_ns_(kStartNs),
      bytes_per_ns_(kBytesPerNs) {
  free_parts_.reserve(kParts);
  for (Part& part : parts_) free_parts_.push_back(&part);
  landed_.reserve(Flights::kMost);
  ready_.reserve(kParts);
  counts_.entrance = queue_->traits().entrance;
  counts_.simulated = queue_->traits().simulated;
}

// A batch answers after the last of its parts, perhaps after the last move was over and its lane
// gone; until then the device may write its record. No lane is here any more.
Dispatcher::~Dispatcher() {
  {
    const std::lock_guard lock(mutex_);
    GANTRY_ASSERT(unfinished_ == 0);
    ending_ = true;
  }
  wake_.notify_all();
  if (helper_.joinable()) helper_.join();
  if (failed_) return;  // closed, or its records left to it
  const Deadline deadline = Deadline::after(options_.time_limit);
  for (unsigned turns = 0; flights_.has_batches(); ++turns) {
    if (deadline.passed()) {
      if (!queue_->close()) flights_.leak();
      return;
    }
    landed_.clear();
    flights_.land(*queue_, landed_);
    idle_turn(turns);
  }
}

void Dispatcher::add(PendingMoves& moves) {
  const std::lock_guard lock(mutex_);
  lanes_.push_back(&moves);
}

// When nothing of the lane is unfinished.
void Dispatcher::remove(PendingMoves& moves) noexcept {
  for (unsigned turns = 0;; ++turns) {
    if (pump()) turns = 0;
    if (const std::lock_guard lock(mutex_); moves.count() == 0) {
      lanes_.erase(std::find(lanes_.begin(), lanes_.end(), &moves));
      return;
    }
    idle_turn(turns);
  }
}

void Dispatcher::take(PendingMoves& moves, std::span<const Move> batch, SubmitMode mode) {
  if (unfinished_ == 0) landed_ns_ = monotonic_ns();
  for (const Move& move : batch) {
    moves.add(move, resolve_cache(move, options_.streaming_from));
    load_ += move.bytes;
  }
  unfinished_ += batch.size();
  changed_ = true;  // an empty move has ended already
  if (watched_ || mode == SubmitMode::queued) kick();
}

// ---- going on ------------------------------------------------------------------------------

bool Dispatcher::pump() noexcept {
  std::unique_lock lock(mutex_);
  return pump_locked(lock);
}

bool Dispatcher::pump_locked(std::unique_lock<std::mutex>& lock) noexcept {
  if (halting_ || unfinished_ == 0) return false;
  const std::uint64_t before = report_.moves + counts_.to_cpu + flights_.counts().descriptors;
  step();
  bool worked = false;
  if (!chores_.empty()) {
    Chore chore = chores_.front();
    chores_.pop_front();
    const bool helping = std::this_thread::get_id() == helper_.get_id();
    lock.unlock();
    const std::uint64_t cpu_ns = helping ? thread_cpu_ns() : 0;
    perform(chore);
    if (helping) chore.helper_cpu_ns = thread_cpu_ns() - cpu_ns;
    lock.lock();
    conclude(chore);
    step();
    worked = true;
  }
  look_at_time(lock);
  return worked || before != report_.moves + counts_.to_cpu + flights_.counts().descriptors;
}

void Dispatcher::cancel(PendingMoves& moves) noexcept {
  const std::lock_guard lock(mutex_);
  moves.cancel();
  changed_ = true;
  if (unfinished_ > 0) kick();
}

// ---- time ----------------------------------------------------------------------------------

void Dispatcher::look_at_time(std::unique_lock<std::mutex>& lock) noexcept {
  if (halting_ || failed_) return;
  if (!broken_.empty()) return halt(lock, broken_);
  if (flights_.count() == 0) return;
  const std::uint64_t oldest = flights_.oldest_ns();
  if (monotonic_ns() < oldest + count_ns(options_.time_limit)) return;
  halt(lock, fmt::format("{} did not answer within {} ms", queue_->traits().name,
                         count_ns(options_.time_limit) / 1'000'000));
}

// The device is used no more. What it had not answered can be done anew once nobody else writes
// there; otherwise it has failed. All of this comes before a ticket ends, since then the memory is
// the caller's again (I2).
void Dispatcher::halt(std::unique_lock<std::mutex>& lock, std::string why) noexcept {
  halting_ = true;
  lock.unlock();
  const bool silent = queue_->close();
  lock.lock();
  land();  // what ended in the meantime
  std::vector<Part*>& unanswered = ready_;
  unanswered.clear();
  flights_.take_back(unanswered);
  if (!silent) flights_.leak();
  failed_ = true;
  counts_.failed = std::move(why);
  halting_ = false;
  for (Part* part : unanswered) {
    if (silent) {
      again_.push_back(part);
    } else {
      ++counts_.lost;
      drop(*part, Cause::device, 0);
    }
  }
  unanswered.clear();
  step();
}

std::chrono::nanoseconds Dispatcher::left(const PendingMoves& moves,
                                          std::uint64_t ticket) const noexcept {
  const std::lock_guard lock(mutex_);
  const Bytes bytes = moves.left(ticket);
  if (bytes == 0) return {};
  const double needed = start_ns_ + static_cast<double>(bytes) / bytes_per_ns_;
  const double passed = static_cast<double>(monotonic_ns() - landed_ns_);
  return std::chrono::nanoseconds(static_cast<std::int64_t>(std::max(needed - passed, 0.0)));
}

// Learns from parts that flew alone and were looked at often enough to know when they landed.
void Dispatcher::learn(const Flights::Landed& landed, Bytes bytes, bool alone) noexcept {
  const std::uint64_t now = monotonic_ns();
  const auto flew = static_cast<double>(landed.flew_ns);
  const bool exact = (now - looked_ns_) * 8 < landed.flew_ns;
  if (!alone || !exact || status_in(landed.status) != Status::success) return;
  const auto lean = [](double& value, double seen, double least, double most) {
    value += (std::clamp(seen, least, most) - value) / 16;
  };
  if (bytes <= 4096)
    lean(start_ns_, flew - static_cast<double>(bytes) / bytes_per_ns_, 100, 1e6);
  else if (bytes >= (Bytes{128} << 10) && flew > start_ns_)
    lean(bytes_per_ns_, static_cast<double>(bytes) / (flew - start_ns_), 0.05, 500);
}

// ---- the helper ----------------------------------------------------------------------------

Result<void> Dispatcher::start_helper() {
  if (helper_.joinable()) return {};
  GANTRY_ASSIGN(helper_, start_thread("the dsa engine's thread", [this] { help(); }));
  return {};
}

void Dispatcher::kick() noexcept {
  if (!options_.helper && !watched_) return;
  wanted_ = true;
  if (!helper_.joinable())
    static_cast<void>(start_helper());  // without it, moves end by poll()
  else if (helper_idle_)
    wake_.notify_one();
}

Result<void> Dispatcher::watch() {
  const std::lock_guard lock(mutex_);
  if (watched_) return {};
  GANTRY_TRY(start_helper());
  watched_ = true;
  if (unfinished_ > 0) kick();
  return {};
}

// Half of the predicted time, so that the device is fed in time and the end is not missed by much.
std::chrono::nanoseconds Dispatcher::nap() const noexcept {
  const double left_ns = start_ns_ + static_cast<double>(load_) / bytes_per_ns_;
  return std::chrono::nanoseconds(
      static_cast<std::int64_t>(std::clamp(left_ns / 2, 5'000.0, 200'000.0)));
}

void Dispatcher::help() noexcept {
  ::prctl(PR_SET_TIMERSLACK, 1000ul);
  std::unique_lock lock(mutex_);
  while (!ending_) {
    if (unfinished_ == 0 || !wanted_) {
      wanted_ = watched_ && unfinished_ > 0;
      report_.helper_cpu_ns = thread_cpu_ns();
      helper_idle_ = true;
      if (!wanted_) wake_.wait(lock);
      helper_idle_ = false;
      continue;
    }
    if (pump_locked(lock) || ending_) continue;
    report_.helper_cpu_ns = thread_cpu_ns();
    const std::chrono::nanoseconds pause = nap();
    const CompletionRecord* record = flights_.oldest_record();
    if (record != nullptr && pause.count() < 20'000 && can_wait_on_memory()) {
      lock.unlock();
      wait_on_memory(record, pause);
      lock.lock();
    } else {
      wake_.wait_for(lock, pause);
    }
  }
}

// ---- what is asked -------------------------------------------------------------------------

Cost Dispatcher::cost() const noexcept {
  const std::lock_guard lock(mutex_);
  return {std::chrono::nanoseconds(static_cast<std::int64_t>(start_ns_)), bytes_per_ns_};
}

CacheUse Dispatcher::cache_for(const Move& move) const noexcept {
  return resolve_cache(move, options_.streaming_from);
}

Bytes Dispatcher::load() const noexcept {
  const std::lock_guard lock(mutex_);
  return load_;
}

EngineReport Dispatcher::report() const noexcept {
  const std::lock_guard lock(mutex_);
  return report_;
}

DsaCounts Dispatcher::counts() const {
  const std::lock_guard lock(mutex_);
  DsaCounts counts = counts_;
  const FlightCounts& flights = flights_.counts();
  counts.descriptors = flights.descriptors;
  counts.batches = flights.batches;
  counts.submissions = flights.submissions;
  counts.full = flights.refusals;
  counts.batch_faults = flights.batch_faults;
  return counts;
}

bool Dispatcher::refuses(Move::Kind kind) const noexcept {
  const std::lock_guard lock(mutex_);
  return (refused_kinds_ >> static_cast<unsigned>(kind) & 1) != 0;
}

// ---- the states of a part: ready, at the device, landed, or a chore for the CPU --------------

void Dispatcher::step() noexcept {
  if (!halting_) land();
  hand_out();
  if (!changed_) return;
  changed_ = false;
  for (PendingMoves* lane : lanes_) {
    const PendingMoves::Retired retired = lane->retire(report_);
    GANTRY_DEBUG_ASSERT(retired.moves <= unfinished_ && retired.taken_bytes <= load_);
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
  GANTRY_DEBUG_ASSERT(part.owner->open > 0);  // I2
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
  while ((failed_ || ready_.size() < room) && chores_.size() < kChoresAhead) {
    Part* part = next_ready();
    if (part == nullptr) break;
    switch (route(*part)) {
      case Route::drop:
        drop(*part, Cause::cancelled, 0);
        break;
      case Route::device:
        GANTRY_ASSERT(ready_.size() < room);
        ready_.push_back(part);
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
  }
  if (!ready_.empty()) submit_ready(ready_);
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
  const gantry::Executed executed = execute(part.move, part.cache);
  chore.done = executed.bytes_done;
  chore.cause = executed.cause;
  chore.fault_address = executed.fault_address;
}

void Dispatcher::conclude(const Chore& chore) noexcept {
  Part& part = *chore.part;
  part.owner->helper_cpu_ns += chore.helper_cpu_ns;
  if (chore.kind == Chore::Kind::populate) {
    ++counts_.populated;
    part.populated = true;
    part.to_cpu = part.to_cpu || !chore.populated;  // it will say what is wrong, and where
    return again_.push_back(&part);
  }
  part.owner->by_cpu += chore.done;
  if (chore.cause == Cause::none) return finish(part);
  part.certain += chore.done;
  drop(part, chore.cause, chore.fault_address);
}

}  // namespace gantry::dsa
