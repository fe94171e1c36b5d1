#include "channel/consumer/consumer.hpp"

#include <algorithm>

#include "base/clock.hpp"

namespace gantry {

// ---- receiving -------------------------------------------------------------------------------

Result<Message> Consumer::Impl::receive(Deadline deadline) {
  if (!core_.fork_guard.is_this()) [[unlikely]]
    return tl::unexpected(check_process().error());
  const CpuCharge charge(*core_.metrics.meter(), last_bytes_, calls_++);
  const std::uint64_t asked = read_ticks();
  if (queue_.next_is_small()) return take_small(asked, false);
  queue_.report_taken();
  if (!deadline.passed()) queue_.watch_closely();
  if (queue_.next_is_small()) return take_small(asked, true);
  if (queue_.next_is_beside() || queue_.next_is_block()) return take_whole(asked, true);
  GANTRY_ASSIGN(const bool is_there, look_now(Wanted::whole));
  if (is_there) return hand_out(asked);
  Impl* const self = this;
  GANTRY_TRY(wait_any(std::span(&self, 1), Wanted::whole, deadline));
  return hand_out(asked);
}

Result<std::size_t> Consumer::Impl::receive_batch(std::span<Message> into, Deadline deadline) {
  if (into.empty())
    return fail(Code::invalid_argument, "receive_batch() was given no place for a message",
                "pass a span of at least one Message");
  GANTRY_TRY(check_process());
  for (Message& one : into) one.release();  // the producer may wait for them
  std::size_t taken = take_what_is_there(into);
  if (taken != 0) return taken;
  GANTRY_ASSIGN(into.front(), receive(deadline));
  return 1 + take_what_is_there(into.subspan(1));
}

// The whole batch is asked for at once.
std::size_t Consumer::Impl::take_what_is_there(std::span<Message> into) noexcept {
  const CpuCharge charge(*core_.metrics.meter(), last_bytes_ * into.size(), calls_++);
  const std::uint64_t asked = read_ticks();
  std::size_t taken = 0;
  while (taken < into.size() && take_if_there(into[taken], asked)) ++taken;
  return taken;
}

// False: nothing, or a trouble that the next call meets again and tells.
bool Consumer::Impl::take_if_there(Message& into, std::uint64_t asked) noexcept {
  try {
    const bool is_small = queue_.next_is_small();
    if (is_small || queue_.next_is_beside()) {
      if (!(is_small ? queue_.copy_small_to(into) : queue_.copy_beside_to(into))) return false;
      note_received(into.info(), into.bytes().size(), asked, false, false);
      return true;
    }
    const bool is_block = queue_.next_is_block();
    if (!is_block && !look_now(Wanted::there).value_or(false)) return false;
    auto message = is_block ? take_whole(asked, false) : hand_out(asked);
    if (message) into = std::move(*message);
    return message.has_value();
  } catch (const std::bad_alloc&) {
    return false;
  }
}

Result<Consumer::Any> Consumer::Impl::receive_any(std::span<Impl* const> ends, Deadline deadline) {
  if (ends.empty()) return fail(Code::closed, "receive_any() was given no consumer");
  Impl& first = *ends.front();
  for (const Impl* end : ends) GANTRY_TRY(end->check_process());
  const CpuCharge charge(*first.core_.metrics.meter(), first.last_bytes_, first.calls_++);
  const std::uint64_t asked = read_ticks();
  GANTRY_ASSIGN(const std::size_t index, wait_any(ends, Wanted::whole, deadline));
  GANTRY_ASSIGN(auto message, ends[index]->hand_out(asked));
  return Any{index, std::move(message)};
}

// What is there needs no preparations for a wait.
Result<bool> Consumer::Impl::look_now(Wanted wanted) {
  return queue_.is_finished() ? Result<bool>(false) : queue_.look(wanted);
}

Result<void> Consumer::Impl::await_pending(Deadline deadline) {
  queue_.prepare();
  if (!deadline.passed()) queue_.watch_closely();
  GANTRY_ASSIGN(const bool is_there, look_now(Wanted::early));
  if (is_there) return {};
  Impl* const self = this;
  return wait_any(std::span(&self, 1), Wanted::early, deadline).map([](auto) {});
}

Result<Incoming> Consumer::Impl::receive_early(Deadline deadline) {
  GANTRY_TRY(check_process());
  const CpuCharge charge(*core_.metrics.meter(), last_bytes_, calls_++);
  const std::uint64_t asked = read_ticks();
  GANTRY_TRY(await_pending(deadline));
  IncomingMessage& pending = *queue_.pending();
  GANTRY_TRY(pending.start_over());  // receive_into() may have begun with it
  note_received(pending.info(), pending.size(), asked, true);
  auto taken = queue_.take_pending();
  if (!pending.is_small())
    taken->waiter = std::shared_ptr<ConsumerWaiter>(shared_from_this(), &waiter_);
  return Incoming(std::move(taken));
}

Result<Consumer::Copied> Consumer::Impl::receive_into(ByteSpan destination, const ReshapePlan* plan,
                                                      Deadline deadline) {
  GANTRY_TRY(check_process());
  const CpuCharge charge(*core_.metrics.meter(), last_bytes_, calls_++);
  const std::uint64_t asked = read_ticks();
  for (;;) {
    GANTRY_TRY(await_pending(deadline));
    LandingReader reader(&waiter_, *queue_.pending());
    const auto bytes = plan == nullptr ? reader.into(destination, deadline)
                                       : reader.into(destination, *plan, deadline);
    const bool given_up = !bytes && bytes.error().code == Code::aborted;
    if (!bytes && !given_up) return tl::unexpected(bytes.error());
    const auto done = queue_.take_pending();
    if (given_up) continue;
    note_received(done->message.info(), *bytes, asked, true);
    return Copied{*bytes, done->message.info()};
  }
}

// The index of the first end that has what is wanted; nothing when all must be waited for.
Result<std::optional<std::size_t>> Consumer::Impl::look_once(std::span<Impl* const> ends,
                                                             Wanted wanted) {
  bool all_over = true;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    if (ends[i]->queue_.is_finished()) continue;
    const auto found = ends[i]->queue_.look(wanted);
    if (found && *found) return i;
    if (found)
      all_over = false;
    else if (found.error().code != Code::closed)
      return tl::unexpected(found.error());
  }
  if (!all_over) return std::nullopt;
  return fail(Code::closed, fmt::format("channel '{}': the stream has ended", ends[0]->name()));
}

// Waits for several count once, since what a stage waited is added up over its ends.
Consumer::Impl& Consumer::Impl::waiting_end(std::span<Impl* const> ends) noexcept {
  const auto open =
      std::ranges::find_if(ends, [](Impl* end) { return !end->queue_.is_finished(); });
  return open == ends.end() ? *ends.front() : **open;
}

Result<std::size_t> Consumer::Impl::wait_any(std::span<Impl* const> ends, Wanted wanted,
                                             Deadline deadline) {
  std::vector<WaitFlag*> flags;
  for (Impl* end : ends) {
    end->waiter_.disarm();
    end->queue_.report_taken();
    flags.push_back(&end->waiter_.wait_flag());
  }
  const auto news = [ends, wanted] {
    return std::any_of(ends.begin(), ends.end(), [wanted](const Impl* end) {
      return !end->queue_.is_over() && end->queue_.has_news(wanted);
    });
  };
  Impl& first = *ends.front();
  const SpinTime::Wait wait(first.spin_);
  const trace::WaitProbe probe(first.name(), trace::Awaited::message);
  const std::uint64_t began = trace::ticks_and_look();
  trace::OpenWait open(first.core_.trace, began, trace::Awaited::message,
                       ends.size() == 1 ? first.core_.producer_pid : 0);
  CountedWait counted(waiting_end(ends).core_.counters->waits);
  const auto falls_asleep = [&] {
    open.falls_asleep();
    counted.begin(began);
  };
  LateLooks looks;
  for (auto spin = first.spin_.now();; spin = std::chrono::nanoseconds(0)) {
    GANTRY_ASSIGN(const auto found, look_once(ends, wanted));
    if (found) open.end();
    if (found && trace::is_on()) [[unlikely]]
      ends[*found]->core_.trace.waited(began, trace::Awaited::message,
                                       ends[*found]->core_.producer_pid);
    if (found) ends[*found]->core_.wait_is_counted = counted.has_begun();
    if (found) return *found;
    if (looks.are_spent(deadline)) {
      for (Impl* end : ends) end->waiter_.rouse();
      return first.nothing_came();
    }
    WaitPoint point{flags, {}, first.core_.options.interrupt_descriptor};
    for (const Impl* end : ends) end->waiter_.add_to(point);
    if (deadline.passed()) spin = {};  // who only looks has something else to do
    const Woken woken = wait_once(point, spin, deadline, news, falls_asleep);
    if (woken == Woken::interrupted)
      return fail(Code::interrupted, fmt::format("channel '{}': interrupted", first.name()));
    if (woken == Woken::look)
      for (std::size_t i = 0; i < ends.size(); ++i)
        ends[i]->waiter_.examine(
            std::span(point.descriptors)
                .subspan(i * ConsumerWaiter::kDescriptors, ConsumerWaiter::kDescriptors));
    if (woken != Woken::timed_out) continue;
    // A caller that asks without waiting may sleep elsewhere, on event_descriptor().
    for (Impl* end : ends) end->waiter_.arm();
    if (!news()) return first.nothing_came();
    for (Impl* end : ends) end->waiter_.disarm();
  }
}

// Built where the caller gets it, by the only return there is: a message moved right after it was
// written costs as much again.
Result<Message> Consumer::Impl::take_small(std::uint64_t asked, bool waited) {
  auto message = queue_.copy_small();
  if (message) note_received(message->info(), message->bytes().size(), asked, waited, false);
  return message;
}

Result<Message> Consumer::Impl::take_whole(std::uint64_t asked, bool waited) {
  auto message = queue_.next_is_beside() ? queue_.copy_beside() : queue_.take_block();
  if (message) note_received(message->info(), message->bytes().size(), asked, waited);
  return message;
}

// Needs the queue to have said that its pending message is whole.
Result<Message> Consumer::Impl::hand_out(std::uint64_t asked) {
  IncomingMessage& whole = *queue_.pending();
  const Bytes bytes = whole.size();
  Message message = whole.become_message();  // without memory it stays the next one
  static_cast<void>(queue_.take_pending());
  note_received(message.info(), bytes, asked, true);
  return message;
}

void Consumer::Impl::note_received(const MessageInfo& info, Bytes bytes, std::uint64_t asked,
                                   bool waited, bool slept) noexcept {
  last_bytes_ = bytes;
  MetricsPage& counters = *core_.counters;
  counters.message(bytes);
  GANTRY_PROBE(receive, core_.name.c_str(), info.sequence, bytes);
  if (trace::is_on()) [[unlikely]]
    core_.trace.received(asked, read_ticks(), info.sequence, bytes);
  if (info.sent_ticks == 0) return counters.last_ticks.set(slept ? read_ticks() : asked);
  const std::uint64_t now = trace::ticks_and_look();
  counters.last_ticks.set(now);
  const std::uint64_t weight = bytes <= Message::kInlineBytes ? kTimedEvery : 1;
  counters.handoff(now - std::min(now, std::max(asked, info.sent_ticks)), weight);
  if (waited && !std::exchange(core_.wait_is_counted, false))
    counters.waits.add((now - std::min(now, asked)) * weight);
}

Result<int> Consumer::Impl::event_descriptor() {
  GANTRY_TRY(check_process());
  return waiter_.event_descriptor();
}

}  // namespace gantry
