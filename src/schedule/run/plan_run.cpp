#include "schedule/run/plan_run.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "base/assert.hpp"
#include "base/cpu.hpp"
#include "base/result.hpp"
#include "link/turn.hpp"

namespace gantry {
namespace {

constexpr std::size_t kUnderWay = 64;  // transfers of a link, so that answers come between them
constexpr unsigned kStepBits = 32;
// What it takes to wake a rank that sleeps.
constexpr std::chrono::microseconds kPollFor{50};

Bytes bytes_of(const Plan& plan, const PlanStep& transfer) noexcept {
  return static_cast<Bytes>(transfer.to.rect.rows * transfer.to.rect.cols) *
         (plan.tensors[transfer.to.tensor].type.bits / kBitsOfByte);
}

// Ranks of one machine, each of which has a CPU: who polls takes it from none of them.
bool has_cpu_to_poll(Group::Impl& group) noexcept {
  for (unsigned peer = 0; peer < group.ranks(); ++peer)
    if (peer != group.rank() && group.link(peer).kind() != LinkKind::shared) return false;
  return static_cast<long>(group.ranks()) <= ::sysconf(_SC_NPROCESSORS_ONLN);
}

}  // namespace

void RankComputing::cancel() noexcept {
  if (device) device->cancel();
  if (host) host->thread().cancel();
  if (ended) ended->forget();
}

std::chrono::nanoseconds RankComputing::take_busy_time() noexcept {
  std::chrono::nanoseconds sum{};
  if (device) sum += device->thread().take_busy_time();
  if (host) sum += host->thread().take_busy_time();
  return sum;
}

PlanRunLoop::PlanRunLoop(const PreparedPlan& prepared, Group::Impl& group, RankComputing& computing)
    : prepared_(prepared),
      script_(prepared.script),
      group_(group),
      computing_(computing),
      has_ended_(script_.items().size()),
      has_come_(prepared.plan.steps.size()),
      peers_(group.ranks()),
      items_left_(script_.items().size()),
      arrivals_left_(static_cast<std::uint32_t>(script_.arrivals().size())),
      peers_left_(group.ranks() - 1),
      polls_(has_cpu_to_poll(group)),
      trace_(prepared.plan, group.trace()) {
  for (const auto& item : script_.items()) awaits_.push_back(item.awaits);
  for (std::uint32_t step = 0; step < prepared.plan.steps.size(); ++step)
    if (script_.comes(step)) ++peers_[prepared.plan.steps[step].rank].arrivals_left;
}

std::uint64_t PlanRunLoop::signal_of(std::uint32_t step) const noexcept {
  return group_.operation() << kStepBits | step;
}

// ---- steps -----------------------------------------------------------------------------------

void PlanRunLoop::count_down(std::uint32_t item) {
  GANTRY_ASSERT(awaits_[item] > 0);  // I1
  if (--awaits_[item] == 0) ready_.push_back(item);
}

void PlanRunLoop::end(std::uint32_t item, const EndedStep* times) {
  const auto& what = script_.items()[item];
  if (what.queue != Queue::meet) trace_.ended(what.step, times);
  settle(item, true);
}

// Those that wait for its hand-over, or for its end.
void PlanRunLoop::settle(std::uint32_t item, bool has_ended) {
  for (const auto& next : script_.items()[item].next)
    if (next.at_hand_over != has_ended) count_down(next.item);
  if (!has_ended) return;
  has_ended_[item] = true;
  --items_left_;
  ++run_.steps;
}

void PlanRunLoop::run_ready() {
  while (!ready_.empty()) {
    const std::uint32_t item = ready_.front();
    ready_.pop_front();
    hand_over(item);
  }
}

void PlanRunLoop::hand_over(std::uint32_t item) {
  const auto& what = script_.items()[item];
  RankPageStep shown = page_step(what.step);
  shown.kind = static_cast<std::uint8_t>(RankPage::Kind::moves);
  group_.report().hand_over(shown);
  trace_.handed_over(what.step);
  switch (what.queue) {
    case Queue::compute:
      if (computing_.host->does_at_once(what.step)) {
        settle(item, false);
        end(item);
        return;
      }
      computing_.host->push(item, what.step);
      break;
    case Queue::device:
      computing_.device->push(item, what.step);
      break;
    case Queue::out:
    case Queue::in:
      queue(item);
      break;
    case Queue::meet:
      for (unsigned peer = 0; peer < peers_.size(); ++peer)
        if (peer != script_.rank())
          peers_[peer].waiting.push_back(
              {prepared_.places.bell(peer, signal_of(what.step)), false, {}});
      end(item);
      break;
    case Queue::met:
      end(item);
  }
  settle(item, false);
}

void PlanRunLoop::queue(std::uint32_t item) {
  const auto& what = script_.items()[item];
  const PlanStep& step = prepared_.plan.steps[what.step];
  const std::uint64_t signal = signal_of(what.step);
  const bool moves = step.verb != PlanVerb::signal;
  Queued queued{
      moves ? prepared_.places.transfer(step, signal) : prepared_.places.bell(what.peer, signal),
      step.verb == PlanVerb::get, item};
  const Bytes bytes = queued.transfer.rows * queued.transfer.row_bytes;
  queued.is_get = queued.is_get && bytes > 0;
  (step.verb == PlanVerb::get ? run_.received : run_.sent) += bytes;
  peers_[what.peer].waiting.push_back(queued);
}

// ---- the links -------------------------------------------------------------------------------

Error PlanRunLoop::told(unsigned peer, Error error) const {
  if (group_.has_been_told() || group_.link(peer).state()) return error;
  // Whoever notices the link's end first, it is that rank's.
  error = group_.error_of(peer);
  error.message = fmt::format("{}; rank {} {}", error.message, script_.rank(), what_it_waits_for());
  return error;
}

Result<void> PlanRunLoop::hear_ready(unsigned peer) {
  if (peers_[peer].is_ready) return {};
  GANTRY_ASSIGN(const auto message, group_.take(peer, RankMessage::Kind::ready));
  if (!message) return {};
  if (message->word != prepared_.word()) {
    const bool is_same_text = (message->word ^ prepared_.hash) <= group_.operation();
    return fail(
        Code::invalid_argument,
        group_.pair_with(peer) + (is_same_text ? " run the same plan as prepared by different calls"
                                               : " run different plans"),
        "every rank runs what it prepared in the same order");
  }
  peers_[peer].is_ready = true;
  --peers_left_;
  return {};
}

void PlanRunLoop::hear_signals(unsigned peer) {
  for (;;) {
    const auto signal = group_.link(peer).receive_signal(Deadline::now());
    if (!signal) return;  // what ended the link is told by listen()
    const auto step = static_cast<std::uint32_t>(*signal);
    const bool is_ours = *signal == signal_of(step) && step < has_come_.size() &&
                         script_.comes(step) && prepared_.plan.steps[step].rank == peer &&
                         !has_come_[step];
    if (!is_ours) {
      ++run_.dropped_signals;
      continue;
    }
    has_come_[step] = true;
    --arrivals_left_;
    --peers_[peer].arrivals_left;
    trace_.arrived(step);
    const PlanStep& what = prepared_.plan.steps[step];
    if (what.verb == PlanVerb::put) run_.received += bytes_of(prepared_.plan, what);
    if (what.verb == PlanVerb::get) run_.sent += bytes_of(prepared_.plan, what);
    for (const std::uint32_t item : script_.waiting_for(step)) count_down(item);
  }
}

Result<void> PlanRunLoop::end_transfers(unsigned peer) {
  auto& under_way = peers_[peer].under_way;
  Link& link = group_.link(peer);
  for (auto at = under_way.begin(); at != under_way.end();) {
    const Outcome outcome = link.outcome(at->ticket);
    if (outcome == Outcome::failed) {
      auto why = link.wait(at->ticket, Deadline::now());
      return why ? fail(Code::system, "a transfer failed") : why;
    }
    if (outcome == Outcome::pending) {
      ++at;
      continue;
    }
    if (at->item) end(*at->item);
    at = under_way.erase(at);
  }
  return {};
}

Result<void> PlanRunLoop::send_waiting(unsigned peer) {
  Peer& to = peers_[peer];
  Link& link = group_.link(peer);
  while (to.is_ready && !to.waiting.empty() && to.under_way.size() < kUnderWay) {  // I2
    const Queued& next = to.waiting.front();
    const auto ticket = next.is_get ? link.get(next.transfer) : link.put(next.transfer);
    if (!ticket && ticket.error().code == Code::busy) return {};
    if (!ticket) return tl::unexpected(ticket.error());
    to.under_way.push_back({*ticket, next.item});
    to.waiting.pop_front();
  }
  return {};
}

Result<void> PlanRunLoop::turn_with(unsigned peer, bool has_moved) {
  if (!has_moved) return send_waiting(peer);
  hear_signals(peer);
  auto heard = group_.listen(peer);
  if (group_.has_been_told()) return heard;
  GANTRY_TRY(hear_ready(peer));
  GANTRY_TRY(end_transfers(peer));
  run_ready();
  // A rank whose part is over may leave.
  if (!heard && needs(peer)) return heard;
  return send_waiting(peer);
}

bool PlanRunLoop::needs(unsigned peer) const noexcept {
  const Peer& other = peers_[peer];
  return !other.is_ready || other.arrivals_left > 0 || !other.waiting.empty() ||
         !other.under_way.empty();
}

Result<bool> PlanRunLoop::end_computing() {
  if (computing_.ended == nullptr) return false;
  ended_.clear();
  computing_.ended->take(ended_);
  for (const auto& one : ended_) {
    if (one.error) {
      Error error = *one.error;
      error.message =
          fmt::format("rank {}: {}: {}", script_.rank(),
                      name_of_step(prepared_.plan, script_.items()[one.item].step), error.message);
      return tl::unexpected(std::move(error));
    }
    end(one.item, &one);
  }
  run_ready();
  return !ended_.empty();
}

Result<bool> PlanRunLoop::turn() {
  GANTRY_ASSIGN(bool has_moved, end_computing());
  for (unsigned peer = 0; peer < peers_.size(); ++peer) {
    if (peer == script_.rank()) continue;
    LinkTurn turn(group_.link(peer));
    // A link that has ended moves no more.
    const bool looks = turn.has_moved() || !group_.link(peer).state();
    has_moved = has_moved || turn.has_moved();
    if (auto done = turn_with(peer, looks); !done)
      return tl::unexpected(told(peer, std::move(done).error()));
    has_moved = turn.end() || has_moved;
  }
  run_ready();
  return has_moved;
}

// ---- the run ---------------------------------------------------------------------------------

bool PlanRunLoop::is_over() const noexcept {
  if (items_left_ > 0 || arrivals_left_ > 0 || peers_left_ > 0) return false;
  return std::ranges::all_of(
      peers_, [](const Peer& peer) { return peer.waiting.empty() && peer.under_way.empty(); });
}

std::string PlanRunLoop::what_it_waits_for() const {
  const Plan& plan = prepared_.plan;
  for (std::uint32_t step = 0; step < plan.steps.size(); ++step)
    if (script_.comes(step) && !has_come_[step])
      return fmt::format("waited for {}", name_of_step(plan, step));
  for (std::uint32_t item = 0; item < has_ended_.size(); ++item)
    if (!has_ended_[item])
      return fmt::format("had not ended {}", name_of_step(plan, script_.items()[item].step));
  return "waited for the others to begin";
}

Result<void> PlanRunLoop::announce() {
  for (unsigned peer = 0; peer < peers_.size(); ++peer) {
    if (peer == script_.rank()) continue;
    auto said = group_.say(peer, {RankMessage::Kind::ready, group_.operation(), prepared_.word()});
    if (!said) return tl::unexpected(told(peer, std::move(said).error()));
  }
  return {};
}

void PlanRunLoop::wait_for_news(Deadline deadline) {
  const auto now = Deadline::Clock::now();
  trace::look(now);
  if (polls_ && now - moved_at_ < kPollFor) return cpu_relax();
  if (!is_shown_) show();
  group_.sleep(computing_.ended != nullptr ? computing_.ended->descriptor() : -1, deadline);
}

Result<PlanRun> PlanRunLoop::go(Deadline deadline) {
  const auto began = Deadline::Clock::now();
  trace::look(began);
  moved_at_ = began;
  GANTRY_TRY(announce());
  for (std::uint32_t item = 0; item < awaits_.size(); ++item)
    if (awaits_[item] == 0) ready_.push_back(item);
  run_ready();
  for (bool is_first = true;; is_first = false) {
    // What had been said before this run began moves nothing now.
    if (is_first)
      for (unsigned peer = 0; peer < peers_.size(); ++peer)
        if (peer != script_.rank())
          if (auto done = turn_with(peer, true); !done)
            return tl::unexpected(told(peer, std::move(done).error()));
    trace_.turn_begins();
    GANTRY_ASSIGN(const bool has_moved, turn());
    trace_.turned(has_moved, [this] { return awaited_step(); });
    if (has_moved) group_.report().count_ended(run_.steps);
    is_shown_ = is_shown_ && !has_moved;
    if (is_over()) break;
    GANTRY_TRY(group_.check_interrupt());
    if (deadline.passed())
      return fail(Code::timed_out,
                  fmt::format("rank {} {} when time was up", script_.rank(), what_it_waits_for()));
    if (!has_moved) wait_for_news(deadline);
    if (has_moved && polls_) moved_at_ = Deadline::Clock::now();
  }
  run_.elapsed = Deadline::Clock::now() - began;
  run_.computing = computing_.take_busy_time();
  return run_;
}

}  // namespace gantry
