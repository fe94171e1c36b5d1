#include "core/channel/consumer/consumer.hpp"

#include <algorithm>
#include <gantry/runtime.hpp>

#include "core/base/assert.hpp"
#include "core/base/clock.hpp"
#include "core/base/result.hpp"
#include "core/channel/naming/access.hpp"
#include "core/channel/naming/rendezvous.hpp"
#include "core/channel/wire/depth.hpp"
#include "core/channel/wire/far_sides.hpp"

namespace gantry {
namespace {

constexpr std::chrono::seconds kHandshakeTime{5};
// A producer that has let a consumer in loses it, and perhaps its stream with it, if that leaves in
// the middle of its coming.
constexpr std::chrono::milliseconds kLeastHandshakeTime{200};

// A producer that is stopped must not keep its consumer from being interrupted.
Result<Received> await_answer(int socket, int interrupt, Deadline deadline) {
  std::array<pollfd, 2> entries{pollfd{socket, POLLIN, 0}, pollfd{interrupt, POLLIN, 0}};
  while (::poll(entries.data(), entries.size(), poll_timeout_ms(deadline)) < 0)
    if (errno != EINTR) return fail_errno("poll");
  if (entries[1].revents != 0) return fail(Code::interrupted, "interrupted while joining");
  if (entries[0].revents != 0) return receive_wire(socket, deadline);
  const auto peer = peer_of(socket);
  return fail(Code::timed_out,
              fmt::format("the producer (process {}) does not answer", peer ? peer->pid : 0),
              "it is stopped or has no time: let it go on (kill -CONT), or end it");
}

}  // namespace

// ---- coming and going -------------------------------------------------------------------------

Result<std::shared_ptr<Consumer::Impl>> Consumer::Impl::prepare(std::string_view name,
                                                                const ConsumerOptions& options) {
  GANTRY_TRY(check_channel_name(name));
  if (options.when_slow > SlowConsumer::drop_oldest)
    return fail(Code::invalid_argument,
                fmt::format("channel '{}': no policy for slow consumers has the number {}", name,
                            static_cast<int>(options.when_slow)));
  GANTRY_TRY(SlabRegistrations::check(options.registrars, fmt::format("channel '{}'", name)));
  std::shared_ptr<Impl> impl(new Impl);
  impl->core_.name = name;
  impl->core_.options = options;
  impl->spin_ = options.spin;
  GANTRY_TRY(check_access(options.access));
  GANTRY_ASSIGN(impl->core_.options.directory,
                channel_directory(options.directory, options.access));
  GANTRY_ASSIGN(impl->core_.metrics, MetricsMaker::make_for_end(options.metrics_descriptor));
  impl->core_.counters = MetricsMaker::page(impl->core_.metrics);
  impl->core_.metrics.meter()->opened();
  impl->core_.trace.join(impl->core_.options.directory, trace::EndKind::consumer, name);
  return impl;
}

Result<std::shared_ptr<Consumer::Impl>> Consumer::Impl::make(std::string_view name,
                                                             const ConsumerOptions& options,
                                                             Deadline deadline) {
  GANTRY_ASSIGN(auto impl, prepare(name, options));
  impl->payloads_.limit(std::make_shared<SenderQuota>(ReceiveQuota::make(options.receive, {}, 1)));
  // A producer may end between our connecting and its answer; then its successor is looked for.
  constexpr int kTries = 3;
  for (int attempt = 1;; ++attempt) {
    GANTRY_ASSIGN(Fd socket, find_producer(impl->core_.options.directory, impl->name(),
                                           options.interrupt_descriptor, deadline, "producer",
                                           options.notices));
    const Deadline patience = Deadline::after(
        std::clamp<std::chrono::nanoseconds>(deadline.left(), kLeastHandshakeTime, kHandshakeTime));
    auto joined = impl->join(Connection(std::move(socket)), patience);
    if (joined) return impl;
    if (joined.error().code != Code::peer_gone || attempt == kTries || deadline.passed())
      return prefixed(std::move(joined).error(), "channel '{}'", name);
  }
}

Result<void> Consumer::Impl::join(Connection connection, Deadline deadline) {
  GANTRY_STEP(producer_found);
  const int socket = connection.receive_fd();
  GANTRY_ASSIGN(const PeerIdentity producer, peer_of(socket));
  GANTRY_ASSIGN(Fd life, peer_pidfd(socket, producer.pid));
  if (auto asked = handshake_.ask(socket); !asked)
    return tl::unexpected(refusal_or(socket, std::move(asked).error()));
  for (bool joined = false; !joined;) {
    GANTRY_ASSIGN(Received answer,
                  await_answer(socket, core_.options.interrupt_descriptor, deadline));
    GANTRY_ASSIGN(joined, handshake_.hear(socket, answer));
  }
  const auto& acceptor = core_.options.acceptor;
  return settle(std::move(connection), producer,
                acceptor ? acceptor->share(std::move(life)) : SharedFd(std::move(life)));
}

Result<void> Consumer::Impl::settle(Connection connection, const PeerIdentity& producer,
                                    SharedFd life) {
  GANTRY_ASSERT(!has_joined());
  core_.producer_pid = producer.pid;
  core_.producer_life = std::move(life);
  core_.connection = std::move(connection);
  core_.own_memory.close_descriptor();
  MetricsMaker::close_descriptor(core_.metrics);
  GANTRY_TRY(queue_.start(std::shared_ptr<ReceivedPayloads>(shared_from_this(), &payloads_)));
  core_.metrics.meter()->connected();
  GANTRY_STEP(joined);
  return {};
}

// The producer is told now, though messages still held keep the memory alive.
void Consumer::Impl::leave(Code why) noexcept {
  core_.has_left = true;
  queue_.drop_pending();
  if (!core_.fork_guard.is_this()) return;  // the connection is the parent's
  queue_.report_taken();
  tell_why(core_.connection.send_fd(), why);
  core_.connection.hang_up();
  GANTRY_STEP(left);
}

// ---- receiving -------------------------------------------------------------------------------

Result<void> Consumer::Impl::check_may_take() const {
  GANTRY_TRY(check_process());
  if (!is_looked_at_) return {};
  return core_.refuse(Code::busy, "a message is looked at: nothing else is taken meanwhile",
                      "end that look first: return from its function");
}

Result<Message> Consumer::Impl::receive(Deadline deadline, bool in_place) {
  if (!core_.fork_guard.is_this() || is_looked_at_) [[unlikely]]
    return tl::unexpected(check_may_take().error());
  const CpuCharge charge(*core_.metrics.meter(), last_bytes_, calls_++);
  const std::uint64_t asked = read_ticks();
  if (queue_.next_is_small()) return take_small(asked, false);
  queue_.report_taken();
  if (!deadline.passed()) queue_.watch_closely();
  if (queue_.next_is_small()) return take_small(asked, true);
  if (queue_.next_is_beside() || queue_.next_is_block()) return take_whole(asked, true, in_place);
  const Wanted wanted = in_place ? Wanted::in_place : Wanted::whole;
  GANTRY_ASSIGN(const bool is_there, look_now(wanted));
  Impl* const self = this;
  if (!is_there) GANTRY_TRY(wait_any(std::span(&self, 1), wanted, deadline));
  if (queue_.pending() != nullptr) return hand_out(asked);
  if (queue_.next_is_small()) return take_small(asked, true);
  if (queue_.next_is_beside()) return take_whole(asked, true, true);
  return tl::unexpected(core_.misbehaved("the record changed while it was taken"));
}

Result<std::size_t> Consumer::Impl::receive_batch(std::span<Message> into, Deadline deadline) {
  if (into.empty())
    return fail(Code::invalid_argument, "receive_batch() was given no place for a message",
                "pass a span of at least one Message");
  GANTRY_TRY(check_may_take());
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
  for (const Impl* end : ends) GANTRY_TRY(end->check_may_take());
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
  GANTRY_TRY(check_may_take());
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
  GANTRY_TRY(check_may_take());
  const CpuCharge charge(*core_.metrics.meter(), last_bytes_, calls_++);
  const std::uint64_t asked = read_ticks();
  for (;;) {
    GANTRY_TRY(await_pending(deadline));
    LandingReader reader(&waiter_, *queue_.pending());
    const auto bytes = plan == nullptr ? reader.into(destination, deadline)
                                       : reader.into(destination, *plan, deadline);
    const bool given_up = !bytes && bytes.error().code == Code::aborted;
    if (!bytes && !given_up)  // a small message does not know its channel
      return queue_.pending()->is_small() ? prefixed(bytes.error(), "channel '{}'", core_.name)
                                          : tl::unexpected(bytes.error());
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
  return ends[0]->core_.refuse(Code::closed, "the stream has ended");
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
    if (woken == Woken::interrupted) return first.core_.refuse(Code::interrupted, "interrupted");
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

Result<Message> Consumer::Impl::take_whole(std::uint64_t asked, bool waited, bool in_place) {
  auto message = !queue_.next_is_beside() ? queue_.take_block()
                 : in_place               ? queue_.look_at_beside()
                                          : queue_.copy_beside();
  if (message) note_received(message->info(), message->bytes().size(), asked, waited);
  return message;
}

// Needs the queue to have said that its pending message is whole.
Result<Message> Consumer::Impl::hand_out(std::uint64_t asked) {
  GANTRY_ASSERT(queue_.pending() != nullptr);
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

// ---- of an inbox ------------------------------------------------------------------------------

Result<std::shared_ptr<Consumer::Impl>> Consumer::Impl::make_called(
    std::string_view name, const ConsumerOptions& options, std::shared_ptr<SenderQuota> quota,
    IsProtocol is_protocol) {
  ConsumerOptions own = options;
  own.metrics_descriptor = -1;  // that one is the inbox's
  GANTRY_ASSIGN(auto impl, prepare(name, own));
  impl->core_.is_called = true;
  impl->core_.is_protocol = is_protocol;
  impl->payloads_.limit(std::move(quota));
  return impl;
}

Result<std::optional<Message>> Consumer::Impl::try_receive() {
  const std::uint64_t asked = read_ticks();
  if (queue_.next_is_small()) {
    GANTRY_ASSIGN(auto message, queue_.copy_small());
    if (core_.is_protocol == nullptr || !core_.is_protocol(message.info()))
      note_received(message.info(), message.bytes().size(), asked, false, false);
    return message;
  }
  GANTRY_ASSIGN(const bool whole, queue_.look(Wanted::whole));
  if (!whole) {
    queue_.report_taken();
    return std::nullopt;
  }
  if (core_.is_protocol != nullptr && core_.is_protocol(queue_.pending()->info())) {
    Message message = queue_.pending()->become_message();
    static_cast<void>(queue_.take_pending());
    return message;
  }
  GANTRY_ASSIGN(auto message, hand_out(asked));
  return message;
}

void Consumer::Impl::wake_up() {
  waiter_.disarm();
  waiter_.look();
}

std::uint64_t Consumer::Impl::work_seen() const noexcept {
  IncomingMessage* const landing = queue_.pending();
  return payloads_.heard() + (landing != nullptr ? landing->landed() / kLeastChunk : 0);
}

// ---- what it tells people ---------------------------------------------------------------------

// The ring is the producer's: what is seen there is shown, and nothing is decided by it.
ConsumerExplanation Consumer::Impl::explain() const {
  ConsumerExplanation told;
  const ClockPair start = core_.counters->start;
  const double scale = ns_per_tick(start);
  told.name = core_.name;
  told.producer_pid = core_.producer_pid;
  told.producer_state = process_state(core_.producer_pid);
  told.policy = core_.options.when_slow;
  told.depth = depth_for(told.policy, core_.options.depth, static_cast<unsigned>(queue_.credits()));
  told.unread = queue_.unread();
  told.dropped = queue_.missed();
  told.landing = queue_.pending() != nullptr;
  told.producer_gone = core_.producer_gone;
  const std::uint64_t end = core_.ring_page().end.load(std::memory_order_seq_cst);  // [E]
  told.ended = end != 0;
  told.producer_sleeps = core_.producer_sleeps();
  told.held = payloads_.held(scale);
  told.copies_held = queue_.copies_held();
  told.gathered_bytes = payloads_.gathered_bytes();
  told.mapped_bytes = payloads_.mapped_bytes();
  told.registrars = payloads_.registrations();
  told.spin = spin_.now();
  if (core_.broken) told.broken = core_.broken->message;
  told.metrics = MetricsMaker::report(*core_.counters, scale);
  return told;
}

void Consumer::Impl::tell_credits(SenderStatus& sender) const noexcept {
  sender.credits = static_cast<unsigned>(queue_.credits());
  sender.unread = queue_.unread_as_told();
  sender.held = payloads_.held_count();
  sender.waits = core_.producer_sleeps();
}

tl::unexpected<Error> Consumer::Impl::nothing_came() const {
  const std::size_t holds = payloads_.held_count();
  if (holds < queue_.credits()) return core_.refuse(Code::timed_out, "no message in time");
  return core_.refuse(
      Code::timed_out,
      fmt::format("no message in time: this reader holds {} of the {} that may be out", holds,
                  queue_.credits()),
      "let go of messages that were received, and of what looks into them; or copy them");
}

// ---- the handle -------------------------------------------------------------------------------

Consumer::Consumer(std::shared_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
Consumer::Consumer(Consumer&&) noexcept = default;
Consumer& Consumer::operator=(Consumer&& other) noexcept {
  std::swap(impl_, other.impl_);
  std::swap(far_side_, other.far_side_);
  return *this;
}
Consumer::~Consumer() {
  if (!impl_) return;
  impl_->leave();
  Impl::drop(std::move(impl_));
}

Result<Consumer> Consumer::open(std::string_view name, const ConsumerOptions& options,
                                Deadline deadline) {
  return guarded([&]() -> Result<Consumer> {
    GANTRY_ASSIGN(auto impl, Impl::make(name, options, deadline));
    return Consumer(std::move(impl));
  });
}

Result<Message> Consumer::next(Deadline deadline, bool in_place) {
  const auto is_there = [this] { return impl_->has_something(); };
  while (far_side_ && !is_there() && far_side_->receive(deadline, is_there)) continue;
  return impl_->receive(deadline, in_place);
}
Result<Message> Consumer::receive(Deadline deadline) {
  return guarded_on(impl_, far_side_, "Consumer", [&] { return next(deadline, false); });
}

// The consumer may be destroyed or moved while this is there.
Consumer::Look::Look(Consumer& consumer, Deadline deadline)
    : message_(guarded_on(consumer.impl_, consumer.far_side_, "Consumer",
                          [&] { return consumer.next(deadline, true); })),
      impl_(message_ ? consumer.impl_.get() : nullptr) {
  if (impl_ != nullptr) impl_->is_looked_at_ = true;
}
Consumer::Look::~Look() {
  if (impl_ == nullptr) return;
  message_->release();
  impl_->is_looked_at_ = false;
  const std::shared_ptr<Impl> last = std::move(impl_->kept_by_look_);
}

Result<std::size_t> Consumer::receive_batch(std::span<Message> into, Deadline deadline) {
  return guarded_on(impl_, far_side_, "Consumer",
                    [&] { return impl_->receive_batch(into, deadline); });
}
Result<Incoming> Consumer::receive_early(Deadline deadline) {
  return guarded_on(impl_, far_side_, "Consumer", [&] { return impl_->receive_early(deadline); });
}
Result<Consumer::Copied> Consumer::receive_into(ByteSpan destination, Deadline deadline) {
  return guarded_on(impl_, far_side_, "Consumer",
                    [&] { return impl_->receive_into(destination, nullptr, deadline); });
}
Result<Consumer::Copied> Consumer::receive_into(ByteSpan destination, const ReshapePlan& plan,
                                                Deadline deadline) {
  return guarded_on(impl_, far_side_, "Consumer",
                    [&] { return impl_->receive_into(destination, &plan, deadline); });
}

Result<int> Consumer::event_descriptor() {
  return guarded_on(impl_, "Consumer", [&] { return impl_->event_descriptor(); });
}

// Of the old end only what is still held stays.
Result<void> Consumer::rejoin(Deadline deadline) {
  return guarded_on(impl_, "Consumer", [&]() -> Result<void> {
    GANTRY_TRY(impl_->check_may_take());
    if (far_side_) GANTRY_TRY(far_side_->reconnect(deadline));
    GANTRY_ASSIGN(auto next, Impl::make(impl_->name(), impl_->options_for_successor(), deadline));
    impl_->leave();
    impl_ = std::move(next);
    return {};
  });
}

Result<Consumer::Any> Consumer::receive_any(std::span<Consumer> consumers, Deadline deadline) {
  return guarded([&]() -> Result<Consumer::Any> {
    std::vector<Impl*> ends;
    ends.reserve(consumers.size());
    for (Consumer& consumer : consumers) {
      if (!consumer.impl_) return moved_from("Consumer");
      ends.push_back(consumer.impl_.get());
    }
    auto any = Impl::receive_any(ends, deadline);
    for (const Consumer& consumer : consumers)
      if (!any && consumer.far_side_)
        any = tl::unexpected(consumer.far_side_->reason(std::move(any).error()));
    return any;
  });
}

MetricsReport Consumer::metrics() const {
  return impl_ ? impl_->metrics() : MetricsReport();
}
ConsumerExplanation Consumer::explain() const {
  if (!impl_) return {};
  ConsumerExplanation told = impl_->explain();
  if (far_side_) told.link = far_side_->path();
  return told;
}

}  // namespace gantry
