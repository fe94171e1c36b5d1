#include "channel/producer/credit_gate.hpp"

#include "base/result.hpp"
#include "channel/wire/step.hpp"

namespace gantry {
namespace {

constexpr std::chrono::nanoseconds kMarkTime = std::chrono::milliseconds(10);  // [F]

}  // namespace

Result<Slot*> CreditGate::await_slot(Lock& lock, Bytes bytes, Deadline deadline, Lent lent) {
  GANTRY_TRY(await_room(lock, true, bytes, deadline, lent));
  Slot* const slot = core_.consumers->take_slot(bytes, core_.rotation.places(bytes));
  GANTRY_STEP(slot_taken);
  return slot;
}

Result<void> CreditGate::await_room(Lock& lock, bool needs_slot, Bytes bytes, Deadline deadline,
                                    Lent lent, bool or_lone_consumer) {
  GANTRY_TRY(check_consumers());
  ConsumerSet& consumers = *core_.consumers;
  auto ready = [&] {
    return consumers.lost() || consumers.may_send(needs_slot, bytes) ||
           (or_lone_consumer && consumers.is_alone());
  };
  auto why = [&]() -> WaitReason {
    const std::vector<std::string> obstacles = consumers.obstacles(needs_slot, bytes);
    if (obstacles.empty())
      return {WaitReason::Kind::room, "", "timed out waiting for a credit, which has come since"};
    return {WaitReason::Kind::room, fmt::format("{}", fmt::join(obstacles, "; also "))};
  };
  // What has been read since is the quickest place for a large message: one look finds it.
  if (core_.rotation.goes_back(bytes) || !consumers.may_send_unseen(bytes) || !ready())
    consumers.refresh();
  if (!ready()) {
    auto loans = lent == Lent::by_caller ? consumers.loans_in_the_way(needs_slot, bytes)
                                         : std::optional<Error>();
    if (loans) return tl::unexpected(core_.named(std::move(*loans)));
    GANTRY_TRY(sleep(lock, deadline, Condition::of(ready), Why::of(why), Lost::is_an_error,
                     trace::Awaited::credit));
  }
  return check_consumers();
}

// Waits, if it must, until consumers have heard of older slabs.
Result<void> CreditGate::announce(Lock& lock, const Slot& slot, Deadline deadline) {
  auto told = core_.consumers->announce(slot);
  const auto is_settled = [&] {
    told = core_.consumers->announce(slot);
    return !told || *told;
  };
  const auto why = []() -> WaitReason {
    return {WaitReason::Kind::memory, "for a consumer to let go of memory that was dropped"};
  };
  if (told && !*told) GANTRY_TRY(wait_until(lock, deadline, is_settled, why));
  if (!told) return tl::unexpected(core_.named(std::move(told).error()));
  return {};
}

Result<void> CreditGate::check_consumers() const {
  if (core_.consumers->lost()) return tl::unexpected(core_.named(*core_.consumers->lost()));
  return {};
}

// ---- waiting -------------------------------------------------------------------------------

Result<void> CreditGate::sleep(Lock& lock, Deadline deadline, Condition ready, Why why, Lost lost,
                               trace::Awaited awaited) {
  const trace::WaitProbe probe(core_.name, awaited);
  const std::uint64_t started = trace::ticks_and_look();
  stop_heeding();
  caller_waits_ = true;
  core_.counters->waits.begin(started);
  trace::OpenWait open(core_.trace, started, awaited, peer());
  auto waited = guarded([&] { return sleep_until(lock, deadline, ready, why, lost, open); });
  if (!lock.owns_lock()) lock.lock();  // it ran out of heap while it slept
  core_.consumers->wake_up();
  caller_waits_ = false;
  heed_forwards();
  core_.counters->waits.end(read_ticks());
  open.end();
  if (trace::is_on()) [[unlikely]]
    core_.trace.waited(started, awaited, peer());
  return waited;
}

// Of several consumers nobody says here who was the last.
pid_t CreditGate::peer() const noexcept {
  const auto& consumers = core_.consumers->consumers();
  return consumers.size() == 1 ? consumers.front()->resources().pid : 0;
}

Result<void> CreditGate::sleep_until(Lock& lock, Deadline deadline, Condition ready, Why why,
                                     Lost lost, trace::OpenWait& open) {
  ConsumerSet& consumers = *core_.consumers;
  const auto is_over = [&] {
    consumers.refresh();
    return ready();
  };
  const auto has_news = [&] {
    const Lock held = core_.lock();
    return is_over() || (lost == Lost::is_an_error && consumers.lost()) || is_stopping();
  };
  // Without a descriptor nobody can wake it: it looks again and again instead.
  const SharedFd event = core_.options.acceptor->lend_event().value_or(SharedFd());
  WaitFlag* const flags[] = {&core_.page().producer_sleeps};
  const SpinTime::Wait wait(core_.spin);
  LateLooks looks;
  Deadline patience = core_.options.notices ? Deadline::after(kNoticeAfter) : Deadline::never();
  bool marks_came = false;  // [F]
  for (;;) {
    if (lost == Lost::is_an_error) GANTRY_TRY(check_consumers());
    if (is_stopping()) return fail(Code::closed, fmt::format("channel '{}': it ended", core_.name));
    const std::string notice = take_notice(patience, why);
    const std::uint64_t now = monotonic_ns();
    WaitPoint point{flags, consumers.fall_asleep(event, now), core_.options.interrupt_descriptor};
    const auto nap = std::min(marks_came && event ? std::chrono::nanoseconds::max() : kMarkTime,
                              consumers.until_mutes_end(now));
    lock.unlock();
    if (!notice.empty()) say_notice(notice);
    const Deadline until = Deadline::after(std::min({deadline.left(), nap, patience.left()}));
    const Woken woken =
        wait_once(point, core_.spin.now(), until, has_news, [&open] { open.falls_asleep(); });
    lock.lock();
    const bool is_refreshed = woken == Woken::look;
    if (is_refreshed) consumers.drain_wakes(point.descriptors, monotonic_ns());
    if (is_refreshed ? ready() : is_over()) return {};
    if (woken == Woken::interrupted)
      return fail(Code::interrupted, fmt::format("channel '{}': interrupted", core_.name));
    if (woken == Woken::timed_out && nap >= kMarkTime && !patience.passed()) marks_came = true;
    const bool is_late = woken == Woken::timed_out && deadline.passed();
    if (!is_late && !looks.are_spent(deadline)) continue;
    if (lost == Lost::is_an_error) GANTRY_TRY(check_consumers());
    return tl::unexpected(core_.named({Code::timed_out, why().error_text(), ""}));
  }
}

// Under the lock. The caller says it without the lock: nobody may read standard error.
std::string CreditGate::take_notice(Deadline& patience, Why why) {
  if (!patience.passed()) return {};
  patience = Deadline::never();
  if (core_.consumers->count() != 0) return {};  // a slow one is nothing out of order
  const WaitReason reason = why();
  const unsigned bit = 1u << static_cast<unsigned>(reason.kind);
  if (reason.awaited.empty() || (std::exchange(noticed_, noticed_ | bit) & bit) != 0) return {};
  return fmt::format("channel '{}': waiting {}", core_.name, reason.awaited);
}

// ---- what was passed on --------------------------------------------------------------------

void CreditGate::heed_forwards() {
  if (caller_waits_ || !core_.consumers->holds_forwards()) return;
  const bool news = !std::exchange(acceptor_heeds_, true);
  if (news) core_.page().producer_sleeps.announce();
  core_.consumers->refresh();  // for what came before the announcement
  if (news) look_again_();
}

void CreditGate::stop_heeding() noexcept {
  if (acceptor_heeds_) core_.page().producer_sleeps.withdraw();
  acceptor_heeds_ = false;
}

void CreditGate::watch_wakes(const std::function<Result<AcceptWatch>(int descriptor)>& watch) {
  core_.consumers->watch_wakes(acceptor_heeds_, watch);
}

void CreditGate::credits_came() {
  if (!acceptor_heeds_) return;  // a caller waits by now: the ring is for it
  core_.consumers->drain_wakes();
  stop_heeding();
  core_.consumers->refresh();
  heed_forwards();
}

}  // namespace gantry
