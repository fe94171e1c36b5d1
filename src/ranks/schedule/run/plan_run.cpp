#include "ranks/schedule/run/plan_run.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <deque>

#include "core/base/assert.hpp"
#include "core/base/os/cpu.hpp"
#include "core/base/text_lines.hpp"
#include "core/trace/end_trace.hpp"
#include "net/link/turn.hpp"
#include "ranks/group/rank_page.hpp"

namespace gantry {
namespace {

constexpr std::size_t kUnderWay = 64;  // transfers of a link, so that answers come between them
constexpr unsigned kStepBits = 32;
// What it takes to wake a rank that sleeps.
constexpr std::chrono::microseconds kPollFor{50};

// Ranks of one machine, each of which has a CPU: who polls takes it from none of them.
bool has_cpu_to_poll(Group::Impl& group) noexcept {
  for (unsigned peer = 0; peer < group.ranks(); ++peer)
    if (peer != group.rank() && group.link(peer).kind() != LinkKind::shared) return false;
  return static_cast<long>(group.ranks()) <= ::sysconf(_SC_NPROCESSORS_ONLN);
}

constexpr std::size_t kLooksAhead = 64;

std::uint8_t code_of(RankPage::Kind kind) noexcept {
  return static_cast<std::uint8_t>(kind);
}

bool is_full(const std::vector<RankPage::At>& at) noexcept {
  return at.size() >= RankPage::kMostSteps;
}

// ---- what a run writes into its rank's trace --------------------------------------------------

using trace::Awaited;
using trace::EventKind;

// A trace's verbs are those of plans, counted from 1.
constexpr std::uint8_t code_of(PlanVerb verb) noexcept {
  return static_cast<std::uint8_t>(static_cast<std::uint8_t>(verb) + 1);
}
static_assert(code_of(PlanVerb::put) == static_cast<std::uint8_t>(trace::StepVerb::put));
static_assert(code_of(PlanVerb::reduce) == static_cast<std::uint8_t>(trace::StepVerb::reduce));
static_assert(code_of(PlanVerb::barrier) == static_cast<std::uint8_t>(trace::StepVerb::barrier));

/// What it moves or makes: of what comes from another rank the place there.
std::string place_of(const Plan& plan, const PlanStep& step) {
  if (step.verb == PlanVerb::signal) return fmt::format("to {}", step.to.rank);
  if (!has_place(step)) return {};
  return text_of(plan, step.verb == PlanVerb::get ? step.from : step.to);
}

/// The operations of one run, at one rank. While nobody records, each call is one load and one
/// branch. In the thread of the run.
class RunTrace {
 public:
  using Time = Deadline::Clock::time_point;

  /// All must outlive it.
  RunTrace(const Plan& plan, trace::EndTrace& into) noexcept : plan_(plan), into_(into) {}

  /// A barrier begins when the others are told, and ends when all have told.
  void handed_over(std::uint32_t step) {
    if (trace::is_on()) [[unlikely]]
      slow_handed_over(step);
  }
  /// `times`: when it was computed; null: it ends now, and began when it was handed over.
  void ended(std::uint32_t step, const EndedStep* times = nullptr) {
    if (trace::is_on()) [[unlikely]]
      slow_ended(step, times);
  }
  /// A step of another rank's has reached this one.
  void arrived(std::uint32_t step) {
    if (trace::is_on()) [[unlikely]]
      slow_arrived(step);
  }
  /// A wait ends with the beginning of the turn in which something moved.
  void turn_begins() noexcept {
    if (trace::is_on() && idle_since_) [[unlikely]]
      turn_began_ = Deadline::Clock::now();
  }
  /// A turn is over. `awaited`: returns the step that is waited for; nothing: other ranks.
  template <class Look>
  void turned(bool has_moved, Look awaited) {
    if (!trace::is_on()) [[likely]]
      return;
    if (!has_moved && !idle_since_) begin_wait(awaited());
    if (has_moved && idle_since_) end_wait();
  }

 private:
  void slow_handed_over(std::uint32_t step) {
    handed_at_.resize(plan_.steps.size());
    if (!handed_at_[step]) handed_at_[step] = Deadline::Clock::now();
  }
  // One that was handed over before somebody recorded is not in the trace.
  void slow_ended(std::uint32_t step, const EndedStep* times) {
    if (times != nullptr) return write(EventKind::step, step, times->began, times->ended);
    if (step < handed_at_.size() && handed_at_[step])
      write(EventKind::step, step, *handed_at_[step], Deadline::Clock::now());
  }
  void slow_arrived(std::uint32_t step) {
    const Time now = Deadline::Clock::now();
    write(EventKind::arrival, step, now, now);
  }
  void begin_wait(std::optional<std::uint32_t> step) {
    idle_since_ = Deadline::Clock::now();
    awaited_ = step;
  }
  void end_wait() {
    trace::EndTrace::Worked wait{.kind = EventKind::wait,
                                 .detail = static_cast<std::uint8_t>(Awaited::ranks),
                                 .begin = *idle_since_,
                                 .end = std::max(turn_began_, *idle_since_)};
    idle_since_.reset();
    std::string text;
    if (awaited_) {
      const PlanStep& step = plan_.steps[*awaited_];
      text = fmt::format("{}, rank {}", to_string(step.verb), step.rank);
      wait.detail = static_cast<std::uint8_t>(Awaited::step);
      wait.number = *awaited_;
      wait.text = text;
    }
    into_.worked(wait);
  }

  void write(EventKind kind, std::uint32_t step, Time begin, Time end) {
    const PlanStep& what = plan_.steps[step];
    into_.worked({.kind = kind,
                  .detail = code_of(what.verb),
                  .begin = begin,
                  .end = end,
                  .number = step,
                  .bytes = has_place(what) ? bytes_of(plan_, what.to) : 0,
                  .text = place_of(plan_, what)});
  }

  const Plan& plan_;
  trace::EndTrace& into_;
  std::vector<std::optional<Time>> handed_at_;  // by step; empty until somebody records
  std::optional<Time> idle_since_;
  Time turn_began_{};
  std::optional<std::uint32_t> awaited_;
};

// ---- the run ---------------------------------------------------------------------------------

/// Hands steps over to the compute thread and to the links as soon as what they wait for has
/// happened, and listens to what comes.
///   I1  A step is handed over once, after its count has come to 0.
///   I2  Nothing goes to a rank before it has said that it runs the same plan.
///   I3  When go() returns without error, every transfer from or to this rank's memory has ended.
class PlanRunLoop {
 public:
  PlanRunLoop(const PreparedPlan& prepared, Group::Impl& group, RankComputing& computing)
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

  /// Errors: what failed first, here or at another rank; the group is not told yet.
  [[nodiscard]] Result<PlanRun> go(Deadline deadline) {
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
        return fail(Code::timed_out, fmt::format("rank {} {} when time was up", script_.rank(),
                                                 what_it_waits_for()));
      if (!has_moved) wait_for_news(deadline);
      if (has_moved && polls_) moved_at_ = Deadline::Clock::now();
    }
    run_.elapsed = Deadline::Clock::now() - began;
    run_.computing = computing_.take_busy_time();
    return run_;
  }

 private:
  using Queue = RankScript::Queue;
  struct UnderWay {
    Ticket ticket{};
    std::optional<std::uint32_t> item{};  // none: a barrier's word
  };
  struct Queued {
    Transfer transfer;
    bool is_get = false;
    std::optional<std::uint32_t> item{};
  };
  struct Peer {
    bool is_ready = false;
    std::uint32_t arrivals_left = 0;
    std::deque<Queued> waiting;
    std::vector<UnderWay> under_way;
  };

  [[nodiscard]] Result<void> announce() {
    for (unsigned peer = 0; peer < peers_.size(); ++peer) {
      if (peer == script_.rank()) continue;
      auto said =
          group_.say(peer, {RankMessage::Kind::ready, group_.operation(), prepared_.word()});
      if (!said) return tl::unexpected(told(peer, std::move(said).error()));
    }
    return {};
  }

  [[nodiscard]] Result<bool> turn() {
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

  [[nodiscard]] Result<void> turn_with(unsigned peer, bool has_moved) {
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

  [[nodiscard]] Result<void> hear_ready(unsigned peer) {
    if (peers_[peer].is_ready) return {};
    GANTRY_ASSIGN(const auto message, group_.take(peer, RankMessage::Kind::ready));
    if (!message) return {};
    if (message->word != prepared_.word()) {
      const bool is_same_text = (message->word ^ prepared_.hash) <= group_.operation();
      return fail(Code::invalid_argument,
                  group_.pair_with(peer) +
                      (is_same_text ? " run the same plan as prepared by different calls"
                                    : " run different plans"),
                  "every rank runs what it prepared in the same order");
    }
    GANTRY_DEBUG_ASSERT(peers_left_ > 0);
    peers_[peer].is_ready = true;
    --peers_left_;
    return {};
  }

  void hear_signals(unsigned peer) {
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
      GANTRY_DEBUG_ASSERT(arrivals_left_ > 0 && peers_[peer].arrivals_left > 0);
      has_come_[step] = true;
      --arrivals_left_;
      --peers_[peer].arrivals_left;
      trace_.arrived(step);
      const PlanStep& what = prepared_.plan.steps[step];
      if (what.verb == PlanVerb::put) run_.received += bytes_of(prepared_.plan, what.to);
      if (what.verb == PlanVerb::get) run_.sent += bytes_of(prepared_.plan, what.to);
      for (const std::uint32_t item : script_.waiting_for(step)) count_down(item);
    }
  }

  [[nodiscard]] Result<void> end_transfers(unsigned peer) {
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

  [[nodiscard]] Result<void> send_waiting(unsigned peer) {
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

  [[nodiscard]] Result<bool> end_computing() {
    if (computing_.ended == nullptr) return false;
    ended_.clear();
    computing_.ended->take(ended_);
    for (const auto& one : ended_) {
      if (one.error)
        return prefixed(*one.error, "rank {}: {}", script_.rank(),
                        name_of_step(prepared_.plan, script_.items()[one.item].step));
      end(one.item, &one);
    }
    run_ready();
    return !ended_.empty();
  }

  // ---- steps -----------------------------------------------------------------------------------

  void count_down(std::uint32_t item) {
    GANTRY_ASSERT(awaits_[item] > 0);  // I1
    if (--awaits_[item] == 0) ready_.push_back(item);
  }
  void hand_over(std::uint32_t item) {
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
                {prepared_.places.signal_place(peer, signal_of(what.step)), false, {}});
        end(item);
        break;
      case Queue::met:
        end(item);
    }
    settle(item, false);
  }

  // Those that wait for its hand-over, or for its end.
  void settle(std::uint32_t item, bool has_ended) {
    for (const auto& next : script_.items()[item].next)
      if (next.at_hand_over != has_ended) count_down(next.item);
    if (!has_ended) return;
    GANTRY_DEBUG_ASSERT(!has_ended_[item] && awaits_[item] == 0);  // I1
    has_ended_[item] = true;
    --items_left_;
    ++run_.steps;
  }
  void end(std::uint32_t item, const EndedStep* times = nullptr) {
    const auto& what = script_.items()[item];
    if (what.queue != Queue::meet) trace_.ended(what.step, times);
    settle(item, true);
  }
  void run_ready() {
    while (!ready_.empty()) {
      const std::uint32_t item = ready_.front();
      ready_.pop_front();
      hand_over(item);
    }
  }
  void queue(std::uint32_t item) {
    const auto& what = script_.items()[item];
    const PlanStep& step = prepared_.plan.steps[what.step];
    const std::uint64_t signal = signal_of(what.step);
    const bool moves = step.verb != PlanVerb::signal;
    Queued queued{moves ? prepared_.places.transfer(step, signal)
                        : prepared_.places.signal_place(what.peer, signal),
                  step.verb == PlanVerb::get, item};
    const Bytes bytes = queued.transfer.rows * queued.transfer.row_bytes;
    queued.is_get = queued.is_get && bytes > 0;
    (step.verb == PlanVerb::get ? run_.received : run_.sent) += bytes;
    peers_[what.peer].waiting.push_back(queued);
  }
  [[nodiscard]] std::uint64_t signal_of(std::uint32_t step) const noexcept {
    return group_.operation() << kStepBits | step;
  }
  [[nodiscard]] bool needs(unsigned peer) const noexcept {
    const Peer& other = peers_[peer];
    return !other.is_ready || other.arrivals_left > 0 || !other.waiting.empty() ||
           !other.under_way.empty();
  }

  // ---- the run ---------------------------------------------------------------------------------

  [[nodiscard]] bool is_over() const noexcept {
    if (items_left_ > 0 || arrivals_left_ > 0 || peers_left_ > 0) return false;
    return std::ranges::all_of(
        peers_, [](const Peer& peer) { return peer.waiting.empty() && peer.under_way.empty(); });
  }
  void wait_for_news(Deadline deadline) {
    const auto now = Deadline::Clock::now();
    trace::look(now);
    if (polls_ && now - moved_at_ < kPollFor) return cpu_relax();
    if (!is_shown_) show();
    group_.sleep(computing_.ended != nullptr ? computing_.ended->descriptor() : -1, deadline);
  }
  // What the rank's page says; before it sleeps, since it costs more than a store.
  void show() {
    std::vector<RankPage::At> at;
    at.reserve(RankPage::kMostSteps);
    show_absent(at);
    show_under_way(at);
    show_awaited(at);
    group_.report().show(at);
    is_shown_ = true;
  }
  void show_absent(std::vector<RankPage::At>& at) const {
    for (unsigned peer = 0; peer < peers_.size() && !is_full(at); ++peer)
      if (peer != script_.rank() && !peers_[peer].is_ready)
        at.push_back(
            {{0, static_cast<std::uint16_t>(peer), 0, code_of(RankPage::Kind::comes)}, {}});
  }
  void show_under_way(std::vector<RankPage::At>& at) {
    const auto& items = script_.items();
    while (first_open_ < items.size() && has_ended_[first_open_]) ++first_open_;
    const std::size_t end = std::min(items.size(), first_open_ + kLooksAhead);
    for (std::size_t item = first_open_; item < end && !is_full(at); ++item) {
      if (has_ended_[item] || awaits_[item] > 0) continue;
      RankPageStep step = page_step(items[item].step);
      const Queue queue = items[item].queue;
      const bool computes = queue == Queue::compute || queue == Queue::device;
      step.kind = code_of(computes ? RankPage::Kind::computes : RankPage::Kind::moves);
      at.push_back({step, {}});
    }
  }

  void show_awaited(std::vector<RankPage::At>& at) {
    const auto& arrivals = script_.arrivals();
    while (first_awaited_ < arrivals.size() && has_come_[arrivals[first_awaited_]])
      ++first_awaited_;
    const std::size_t end = std::min(arrivals.size(), first_awaited_ + kLooksAhead);
    for (std::size_t i = first_awaited_; i < end && !is_full(at); ++i) {
      if (has_come_[arrivals[i]]) continue;
      const auto& waiting = script_.waiting_for(arrivals[i]);
      RankPage::At one{{}, page_step(arrivals[i])};
      if (!waiting.empty()) one.first = page_step(script_.items()[waiting.front()].step);
      one.first.kind = code_of(waiting.empty() ? RankPage::Kind::hears : RankPage::Kind::waits);
      at.push_back(one);
    }
  }

  // ---- what a rank's page says ------------------------------------------------------------------

  // Of an own step the far rank, if there is one; of another's, who does it.
  [[nodiscard]] RankPageStep page_step(std::uint32_t step) const noexcept {
    const PlanStep& what = prepared_.plan.steps[step];
    const auto verb = static_cast<std::uint8_t>(what.verb);
    if (what.rank != script_.rank()) return {step, static_cast<std::uint16_t>(what.rank), verb, 0};
    const bool goes_out = what.verb == PlanVerb::put || what.verb == PlanVerb::signal;
    const bool has_peer = goes_out || what.verb == PlanVerb::get;
    const auto peer = static_cast<std::uint16_t>(goes_out ? what.to.rank : what.from.rank);
    return {step, has_peer ? peer : RankPageStep::kNoRank, verb, 0};
  }

  // The first in the plan's order that is under way here or has not come; nothing: the others have
  // not begun.
  [[nodiscard]] std::optional<std::uint32_t> awaited_step() noexcept {
    if (peers_left_ > 0) return std::nullopt;
    const auto& items = script_.items();
    const auto& arrivals = script_.arrivals();
    while (first_open_ < items.size() && has_ended_[first_open_]) ++first_open_;
    while (first_awaited_ < arrivals.size() && has_come_[arrivals[first_awaited_]])
      ++first_awaited_;
    std::optional<std::uint32_t> first;
    if (first_open_ < items.size() && awaits_[first_open_] == 0) first = items[first_open_].step;
    if (first_awaited_ < arrivals.size()) {
      const std::uint32_t arrival = arrivals[first_awaited_];
      first = std::min(first.value_or(arrival), arrival);
    }
    return first;
  }

  [[nodiscard]] std::string what_it_waits_for() const {
    const Plan& plan = prepared_.plan;
    for (std::uint32_t step = 0; step < plan.steps.size(); ++step)
      if (script_.comes(step) && !has_come_[step])
        return fmt::format("waited for {}", name_of_step(plan, step));
    for (std::uint32_t item = 0; item < has_ended_.size(); ++item)
      if (!has_ended_[item])
        return fmt::format("had not ended {}", name_of_step(plan, script_.items()[item].step));
    return "waited for the others to begin";
  }

  // ---- the links -------------------------------------------------------------------------------

  [[nodiscard]] Error told(unsigned peer, Error error) const {
    if (group_.has_been_told() || group_.link(peer).state()) return error;
    // Whoever notices the link's end first, it is that rank's.
    error = group_.error_of(peer);
    error.message =
        fmt::format("{}; rank {} {}", error.message, script_.rank(), what_it_waits_for());
    return error;
  }

  const PreparedPlan& prepared_;
  const RankScript& script_;
  Group::Impl& group_;
  RankComputing& computing_;
  std::vector<std::uint32_t> awaits_;  // by item
  std::vector<bool> has_ended_;        // by item
  std::vector<bool> has_come_;         // by step of other ranks
  std::deque<std::uint32_t> ready_;    // their counts are 0
  std::vector<Peer> peers_;
  std::vector<EndedStep> ended_;
  std::size_t items_left_ = 0;
  std::uint32_t arrivals_left_ = 0;
  unsigned peers_left_ = 0;  // that are not ready
  const bool polls_;         // a while, before it sleeps
  Deadline::Clock::time_point moved_at_{};
  PlanRun run_;
  RunTrace trace_;
  // The first own step that has not ended, and the first other that has not come, or earlier ones.
  std::size_t first_open_ = 0;
  std::size_t first_awaited_ = 0;
  bool is_shown_ = false;  // nothing has moved since
};

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

Result<PlanRun> run_plan(const PreparedPlan& prepared, Group::Impl& group, RankComputing& computing,
                         Deadline deadline) {
  return PlanRunLoop(prepared, group, computing).go(deadline);
}

}  // namespace gantry
