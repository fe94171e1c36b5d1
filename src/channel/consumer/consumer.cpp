#include "channel/consumer/consumer.hpp"

#include <algorithm>
#include <cstring>
#include <new>

#include "base/fork_error.hpp"
#include "channel/consumer/incoming.hpp"
#include "channel/naming/rendezvous.hpp"
#include "channel/wire/step.hpp"

namespace gantry {
namespace {

constexpr int kBusyTurns = 500;          // a microsecond or two
constexpr int kQuickTurns = 128;         // some more
constexpr std::size_t kDescriptors = 3;  // that one end sleeps on: wake-up socket, socket, pidfd

}  // namespace

// ---- receiving -----------------------------------------------------------------------------

bool Consumer::Impl::at_end() const noexcept {
  const std::uint64_t end = ring_page().end.load(std::memory_order_seq_cst);  // [E]
  return end != 0 && ring_->taken() + 1 >= end && !pending_;
}

// Looked at once more when it is copied.
bool Consumer::Impl::next_is_small() const noexcept {
  return !must_claim() && !pending_ && ring_->ready() &&
         (ring_->next().header.kind & kLocationMask) == 0;
}

bool Consumer::Impl::has_news(Wanted wanted) const noexcept {
  if (pending_) return wanted == Wanted::early || pending_->has_more();
  return is_there() || at_end();
}

// The next cell alone, at first without a pause: on some processors one takes as long as a small
// message's whole way. Its second line is asked for with the first, as it comes from the same
// cache: one behind the other they would take twice the time.
void Consumer::Impl::watch_closely() const noexcept {
  const auto* const second_line = ring_->next().body.data() + kNearBytes;
  for (int turn = 0; turn < kBusyTurns; ++turn) {
    if (ring_->ready()) return;
    __builtin_prefetch(second_line);
  }
  for (int turn = 0; turn < kQuickTurns && !ring_->ready(); ++turn) cpu_relax();
}

Result<void> Consumer::Impl::check_process() const {
  return check_not_forked(fork_guard_, "channel", name_);
}

Result<Message> Consumer::Impl::receive(Deadline deadline) {
  if (!fork_guard_.is_this()) [[unlikely]]
    return tl::unexpected(check_process().error());
  const CpuCharge charge(*metrics_.meter(), last_bytes_, calls_++);
  const std::uint64_t asked = read_ticks();
  if (next_is_small() && !broken_) return take_small(asked, false);
  report_taken();
  if (!pending_ && !deadline.passed()) watch_closely();
  if (next_is_small() && !broken_) return take_small(asked, true);
  Impl* const self = this;
  GANTRY_TRY(wait_any(std::span(&self, 1), Wanted::whole, deadline));
  return hand_out(asked);
}

Result<Consumer::Any> Consumer::Impl::receive_any(std::span<Impl* const> ends, Deadline deadline) {
  if (ends.empty()) return fail(Code::closed, "receiving from no channel at all");
  Impl& first = *ends.front();
  for (const Impl* end : ends) GANTRY_TRY(end->check_process());
  const CpuCharge charge(*first.metrics_.meter(), first.last_bytes_, first.calls_++);
  const std::uint64_t asked = read_ticks();
  GANTRY_ASSIGN(const std::size_t index, wait_any(ends, Wanted::whole, deadline));
  GANTRY_ASSIGN(auto message, ends[index]->hand_out(asked));
  return Any{index, std::move(message)};
}

Result<void> Consumer::Impl::await_pending(Deadline deadline) {
  if (!spare_) spare_ = std::make_unique<Incoming::Impl>();
  Impl* const self = this;
  return wait_any(std::span(&self, 1), Wanted::early, deadline).map([](auto) {});
}

Result<Incoming> Consumer::Impl::receive_early(Deadline deadline) {
  GANTRY_TRY(check_process());
  const CpuCharge charge(*metrics_.meter(), last_bytes_, calls_++);
  const std::uint64_t asked = read_ticks();
  GANTRY_TRY(await_pending(deadline));
  GANTRY_TRY(pending_->start_over());  // receive_into() may have begun with it
  note_received(pending_->info(), pending_->size(), asked, true);
  return Incoming(std::move(pending_));
}

Result<Consumer::Copied> Consumer::Impl::receive_into(ByteSpan destination, Deadline deadline) {
  GANTRY_TRY(check_process());
  const CpuCharge charge(*metrics_.meter(), last_bytes_, calls_++);
  const std::uint64_t asked = read_ticks();
  for (;;) {
    GANTRY_TRY(await_pending(deadline));
    const auto bytes = pending_->into(destination, deadline);
    const bool given_up = !bytes && bytes.error().code == Code::aborted;
    if (!bytes && !given_up) return tl::unexpected(bytes.error());
    const auto done = std::move(pending_);
    if (given_up) continue;
    note_received(done->info(), *bytes, asked, true);
    return Copied{*bytes, done->info()};
  }
}

// Whether this end has what is wanted, in pending_. Errors: what ended it; `closed` among them.
Result<bool> Consumer::Impl::look(Wanted wanted) {
  for (std::size_t given_up = 0; given_up <= kCells; ++given_up) {  // more than a ring: next time
    if (broken_) return tl::unexpected(*broken_);
    if (!pending_ && is_there()) GANTRY_TRY(take_next());
    if (!pending_) break;
    if (wanted == Wanted::early) return true;
    GANTRY_ASSIGN(const bool whole, pending_->try_whole());
    if (whole) return true;
    if (!pending_->is_aborted()) break;
    pending_.reset();
  }
  if (!gone_ && !at_end()) return false;
  pending_.reset();  // the rest of it never comes
  if (!at_end()) confirm_end();
  return tl::unexpected(ending_error());
}

// The index of the first end that has what is wanted; nothing when all must be waited for.
Result<std::optional<std::size_t>> Consumer::Impl::look_once(std::span<Impl* const> ends,
                                                             Wanted wanted) {
  bool all_over = true;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    if (ends[i]->finished_) continue;
    const auto found = ends[i]->look(wanted);
    if (found && *found) return i;
    if (found)
      all_over = false;
    else if (found.error().code != Code::closed)
      return tl::unexpected(found.error());
  }
  if (!all_over) return std::nullopt;
  return fail(Code::closed, fmt::format("channel '{}': the stream has ended", ends[0]->name_));
}

Result<std::size_t> Consumer::Impl::wait_any(std::span<Impl* const> ends, Wanted wanted,
                                             Deadline deadline) {
  std::vector<WaitFlag*> intents;
  for (Impl* end : ends) {
    end->disarm();
    end->report_taken();
    intents.push_back(&end->own().consumer_sleeps);
  }
  const auto news = [ends, wanted] {
    return std::any_of(ends.begin(), ends.end(), [wanted](const Impl* end) {
      return !end->is_over() && end->has_news(wanted);
    });
  };
  Impl& first = *ends.front();
  const SpinTime::Wait wait(first.spin_);
  LateLooks looks;
  for (auto spin = first.spin_.now();; spin = std::chrono::nanoseconds(0)) {
    GANTRY_ASSIGN(const auto found, look_once(ends, wanted));
    if (found) return *found;
    if (looks.are_spent(deadline)) {
      for (Impl* end : ends) end->rouse();
      return fail(Code::timed_out, fmt::format("channel '{}': no message in time", first.name_));
    }
    WaitPoint point{intents, {}, first.options_.interrupt_descriptor};
    for (const Impl* end : ends)
      for (const int descriptor :
           {end->wake_receiver_.descriptor(), end->connection_.receive_fd(), end->pidfd_.get()})
        point.descriptors.push_back({end->is_over() ? -1 : descriptor, POLLIN, 0});
    if (deadline.passed()) spin = {};  // who only looks has something else to do
    const Woken woken = wait_once(point, spin, deadline, news);
    if (woken == Woken::interrupted)
      return fail(Code::interrupted, fmt::format("channel '{}': interrupted", first.name_));
    if (woken == Woken::look)
      for (std::size_t i = 0; i < ends.size(); ++i)
        ends[i]->examine_peer(std::span(point.descriptors).subspan(i * kDescriptors, kDescriptors));
    if (woken != Woken::timed_out) continue;
    // Whoever asks without waiting may sleep elsewhere, on event_descriptor().
    for (Impl* end : ends) end->arm();
    if (!news())
      return fail(Code::timed_out, fmt::format("channel '{}': no message in time", first.name_));
    for (Impl* end : ends) end->disarm();
  }
}

// WakeReceiver, socket, pidfd, as wait_any() lists them.
void Consumer::Impl::examine_peer(std::span<const pollfd> events) {
  if (events[0].revents != 0) drain_wakes();
  if (events[2].revents != 0) gone_ = true;
  if (events[1].revents == 0) return;
  // News of slabs, or the hang-up. The producer may be dead and its last packets still to be read.
  const auto heard = slabs_.hear(connection_.receive_fd(), Deadline::now());
  confirm_heard();
  if (heard || heard.error().code == Code::timed_out) return;
  if (heard.error().code == Code::peer_gone)
    gone_ = true;
  else
    static_cast<void>(ruined(heard.error()));  // the next look tells it
}

// A producer that cut this end off keeps all that it may still take until it hears that it takes no
// more. To a dead one it is all the same.
void Consumer::Impl::confirm_end() noexcept {
  if (fork_guard_.is_this()) connection_.hang_up();
  GANTRY_STEP(end_confirmed);
}

// Whoever dies closes its sockets a moment before it is dead. An inbox does not wait for that: its
// other senders would, each time that one comes and goes.
bool Consumer::Impl::lives_on() const noexcept {
  constexpr int kMomentMs = 20;
  pollfd entry{pidfd_.get(), POLLIN, 0};
  return pidfd_ && ::poll(&entry, 1, is_called_ ? 0 : kMomentMs) == 0;
}

// Why nothing more will come. What had been published before the producer went has been taken.
Error Consumer::Impl::ending_error() {
  if (broken_) return *broken_;
  if (at_end()) {
    finished_ = true;
    return {Code::closed, fmt::format("channel '{}': the stream has ended", name_), ""};
  }
  if (!is_called_) sweep_if_stale(options_.directory, name_, Deadline::now());
  const bool lives = lives_on();
  if (is_called_ && lives)
    return {Code::peer_gone,
            fmt::format("channel '{}': the sender (process {}) hung up before the stream's end: it "
                        "dropped its end, or dies",
                        name_, producer_pid_),
            ""};
  if (lives)
    return {Code::peer_gone,
            fmt::format("channel '{}': the producer (process {}), which runs, ended this session "
                        "before the stream's end: it dropped its end, or this one was too slow",
                        name_, producer_pid_),
            "rejoin(); SlowConsumer::disconnect is for readers that are never that slow"};
  return {Code::peer_gone,
          fmt::format("channel '{}': the producer (process {}) is gone before the stream's end",
                      name_, producer_pid_),
          ""};
}

// Whatever is lost between the two ends, the stream cannot go on without: the first reason stays.
Error Consumer::Impl::ruined(const Error& reason) {
  if (broken_) return *broken_;
  broken_ = reason;
  broken_->message = reason.code == Code::peer_misbehaved
                         ? fmt::format("channel '{}': not believing the producer (process {}): {}",
                                       name_, producer_pid_, reason.message)
                         : fmt::format("channel '{}': {}", name_, reason.message);
  confirm_end();
  return *broken_;
}

void Consumer::Impl::note_cut_off() {
  static_cast<void>(
      ruined({Code::peer_gone,
              fmt::format("the producer (process {}) cut this end off", producer_pid_), ""}));
}

Error Consumer::Impl::misbehaved(std::string_view what) {
  return ruined({Code::peer_misbehaved, std::string(what), ""});
}

// Built where the caller gets it, by the only return there is: a message moved right after it was
// written costs as much again.
Result<Message> Consumer::Impl::take_small(std::uint64_t asked, bool waited) {
  auto message = copy_small();
  if (message) note_received(message->info(), message->bytes().size(), asked, waited, false);
  return message;
}

Result<Message> Consumer::Impl::copy_small() {
  const MessageRecord& record = ring_->next();
  ReceivedRecord received;  // NOLINT: copied first, then checked, then used
  std::memcpy(&received.header, &record.header, sizeof received.header);
  const bool honest = is_small(received.header);
  if (!honest) [[unlikely]]
    received.header.kind = received.header.count = 0;
  if ((received.header.kind & kExtra) != 0)
    std::memcpy(&received.extra, &record.extra, sizeof received.extra);
  auto message = Result<Message>(
      tl::in_place, ConstByteSpan(record.body).first(received.header.count), received.info());
  ring_->take();
  GANTRY_STEP(small_taken);
  // At a full ring, or the stream's end, the writer may sleep, and we may never come back. [F] of
  // credit_gate.hpp: mark, then look.
  ring_->mark(own().taken);
  GANTRY_STEP(taken_marked);
  std::atomic_signal_fence(std::memory_order_seq_cst);  // for the compiler's eyes only
  if (ring_->unreported() >= report_after_ || ring_->is_published(credits_ - 1) || is_ending())
    report_taken();
  counters_->copy(CopyEngine::inline_, received.header.count, 0);
  if (!honest) [[unlikely]]
    message = tl::unexpected(misbehaved("a small message that is none"));
  return message;
}

// Needs a message in the ring: into pending_ with it.
Result<void> Consumer::Impl::take_next() {
  if (must_claim()) return claim_next();
  if (next_is_small()) {
    if (!spare_) spare_ = std::make_unique<Incoming::Impl>();  // first, as below
    GANTRY_ASSIGN(auto message, copy_small());
    spare_->fill(std::move(message));
    pending_ = std::move(spare_);
    return {};
  }
  auto received = read_record(ring_->next());
  if (!received) return tl::unexpected(ruined(received.error()));
  GANTRY_TRY(hold(*received));  // first: it may find no heap, and the message is not to be lost
  ring_->take();
  GANTRY_STEP(record_taken);
  report_taken();
  return {};
}

// Into pending_ with it. What it throws leaves everything as it was.
Result<void> Consumer::Impl::hold(const ReceivedRecord& received) {
  auto segments = find_segments(received);
  if (!segments) return tl::unexpected(ruined(segments.error()));
  GANTRY_STEP(segments_found);
  if (held_.is_held(received.header.slot))
    return tl::unexpected(
        misbehaved(fmt::format("slot {} while it is held", received.header.slot)));
  Bytes bytes = 0;
  for (const Segment& segment : *segments) bytes += segment.bytes.size();
  held_.hold(received.header.slot, found_.slabs(), received.header.number, bytes,
             received.header.ticks);
  found_.clear();
  GANTRY_STEP(slot_held);
  try {
    pending_ = std::make_unique<Incoming::Impl>(shared_from_this(), received, std::move(*segments));
  } catch (const std::bad_alloc&) {
    held_.drop(received.header.slot);
    throw;
  }
  return {};
}

// Needs look() to have said that it is there, whole.
Result<Message> Consumer::Impl::hand_out(std::uint64_t asked) {
  const auto whole = std::move(pending_);
  const Bytes bytes = whole->size();
  Message message = whole->become_message();
  note_received(message.info(), bytes, asked, true);
  return message;
}

// Credits of small messages go back some at a time, or when this end would wait anyway: the store
// and the look at the producer's intent would otherwise stand between a message and its consumer.
void Consumer::Impl::report_taken() noexcept {
  if (ring_->unreported() == 0) return;
  ring_->report(own().taken);
  GANTRY_STEP(taken_stored);
  ring_producer();
}

void Consumer::Impl::note_received(const MessageInfo& info, Bytes bytes, std::uint64_t asked,
                                   bool waited, bool slept) noexcept {
  last_bytes_ = bytes;
  counters_->message(bytes);
  if (info.sent_ticks == 0) return counters_->last_ticks.set(slept ? read_ticks() : asked);
  const std::uint64_t now = read_ticks();
  counters_->last_ticks.set(now);
  const std::uint64_t weight = bytes <= Message::kInlineBytes ? kTimedEvery : 1;
  counters_->handoff(now - std::min(now, std::max(asked, info.sent_ticks)), weight);
  if (waited) metrics_.meter()->waited((now - std::min(now, asked)) * weight);
}

}  // namespace gantry
