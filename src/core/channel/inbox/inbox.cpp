#include "core/channel/inbox/inbox.hpp"

#include <sys/epoll.h>
#include <sys/timerfd.h>

#include <algorithm>

#include "core/base/assert.hpp"
#include "core/base/event.hpp"
#include "core/base/moved_from.hpp"
#include "core/base/os/fork_error.hpp"
#include "core/base/wait.hpp"
#include "core/channel/consumer/consumer.hpp"
#include "core/channel/naming/access.hpp"
#include "core/channel/wire/step.hpp"

namespace gantry {
namespace {

constexpr std::uint64_t kNews = 0;  // the listener's place in the epoll; ids begin at 1
constexpr std::uint64_t kMutesEnd = ~std::uint64_t{0};
constexpr std::uint64_t kGlanceEvery = 16;  // messages; so sleeping senders are not forgotten
constexpr std::size_t kMostSpunOn = 64;     // senders: looking at more takes longer than sleeping

}  // namespace

Result<std::shared_ptr<Inbox::Impl>> Inbox::Impl::make(std::string_view name,
                                                       const InboxOptions& options,
                                                       IsProtocol is_protocol, Purpose purpose) {
  auto impl = std::make_shared<Impl>();
  impl->is_protocol_ = is_protocol;
  impl->purpose_ = purpose;
  GANTRY_TRY(check_access(options.channel.access));
  GANTRY_TRY(impl->set_up(name, options));
  ConsumerOptions& own = impl->options_;
  GANTRY_ASSIGN(own.directory, channel_directory(options.channel.directory, own.access));
  GANTRY_TRY(check_reach(own.directory, impl->name_, own.access));
  GANTRY_ASSIGN(impl->claim_, Claim::take(own.directory, impl->name_, own.interrupt_descriptor,
                                          file_access(own.access), owner_of(purpose)));
  GANTRY_ASSIGN(auto acceptor, Acceptor::of(options.channel));
  impl->listener_.emplace(std::move(acceptor), impl->rules(), impl->claim_.listener());
  GANTRY_TRY(impl->start_listener());
  return impl;
}

Result<std::shared_ptr<Inbox::Impl>> Inbox::Impl::make_for(
    ProducerListener::ControlConnection control, std::string_view name,
    const InboxOptions& options) {
  auto impl = std::make_shared<Impl>();
  GANTRY_TRY(impl->set_up(name, options));
  GANTRY_ASSIGN(auto acceptor, Acceptor::of(options.channel));
  impl->listener_.emplace(std::move(acceptor), impl->rules(), std::move(control));
  GANTRY_TRY(impl->start_listener());
  return impl;
}

Result<void> Inbox::Impl::set_up(std::string_view name, const InboxOptions& options) {
  GANTRY_TRY(check_channel_name(name));
  if (options.producers == 0 || options.producers > InboxOptions::kMaxProducers)
    return fail(Code::invalid_argument,
                fmt::format("inbox '{}': {} producers; 1 to {} are possible", name,
                            options.producers, InboxOptions::kMaxProducers));
  GANTRY_TRY(SlabRegistrations::check(options.channel.registrars, fmt::format("inbox '{}'", name)));
  name_ = name;
  options_ = options.channel;
  options_.acceptor.reset();  // the listener holds it; ends may be dropped on its thread
  producers_ = options.producers;
  on_departure_ = options.on_departure;
  quota_ = ReceiveQuota::make(options.channel.receive, options.total, options.producers);
  GANTRY_ASSIGN(metrics_, MetricsMaker::make_for_end(options.channel.metrics_descriptor));
  MetricsMaker::close_descriptor(metrics_);
  GANTRY_ASSIGN(watched_, make_epoll());
  mutes_end_.reset(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!mutes_end_) return fail_errno("timerfd_create");
  return watch_in(watched_.get(), mutes_end_.get(), {.u64 = kMutesEnd});
}

ProducerListener::Rules Inbox::Impl::rules() const {
  return {name_, options_, producers_, quota_, &metrics_, is_protocol_, purpose_};
}

Result<void> Inbox::Impl::start_listener() {
  if (!options_.directory.empty()) trace_.join(options_.directory, trace::EndKind::inbox, name_);
  GANTRY_TRY(listener_->start());
  GANTRY_TRY(watch_in(watched_.get(), listener_->news(), {.u64 = kNews}));
  metrics_.meter()->opened();
  return {};
}

void Inbox::Impl::shut_down(Code why) noexcept {
  if (!listener_) return;
  listener_->stop();
  if (!fork_guard_.is_this()) return;  // the name and the control connections are the parent's
  claim_.give_up();
  for (const Newcomer& newcomer : listener_->take())
    if (newcomer.end) newcomer.end->leave(why);
  for (const Source& source : sources_) source.end->leave(why);
  sources_.clear();
}

// ---- receiving -----------------------------------------------------------------------------

Result<void> Inbox::Impl::check_process() const {
  return check_not_forked(fork_guard_, "inbox", name_);
}

Result<Inbox::Delivery> Inbox::Impl::receive(Deadline deadline) {
  GANTRY_TRY(check_process());
  if (++calls_ % kGlanceEvery == 0) static_cast<void>(glance());
  std::chrono::nanoseconds spin = options_.spin;
  for (LateLooks looks;;) {
    if (auto delivery = next_in_turn()) {
      note(*delivery);
      return std::move(*delivery);
    }
    if (looks.are_spent(deadline)) return give_up();
    if (glance()) continue;
    if (poll_for(std::exchange(spin, {}), deadline, [this] { return wake_who_has_something(); }))
      continue;
    put_all_to_sleep();
    GANTRY_TRY(sleep(deadline));
  }
}

void Inbox::Impl::note(const Delivery& delivery) noexcept {
  if (is_protocol_ != nullptr && is_protocol_(delivery.message.info())) return;
  Bytes bytes = 0;
  for (std::size_t i = 0; i < delivery.message.segments(); ++i)
    bytes += delivery.message.segment(i).bytes.size();
  MetricsPage& counters = *MetricsMaker::page(metrics_);
  counters.message(bytes);
  counters.last_ticks.set(read_ticks());
}

// There is always something, and never a message: a sender keeps us busy for nothing. I2
tl::unexpected<Error> Inbox::Impl::give_up() const {
  ring(listener_->news());
  return fail(Code::timed_out, fmt::format("inbox '{}': no message in time", name_));
}

std::optional<Inbox::Delivery> Inbox::Impl::next_in_turn() {
  for (std::size_t left = sources_.size(); left > 0; --left) {
    if (turn_ >= sources_.size()) turn_ = 0;
    Source& source = sources_[turn_];
    if (source.asleep) {
      ++turn_;
      continue;
    }
    auto found = source.end->try_receive();
    if (!found) {
      depart(turn_, found.error());
      continue;
    }
    ++turn_;
    source.messages += *found ? 1 : 0;
    if (*found) return Delivery{source.sender, std::move(**found)};
  }
  return std::nullopt;
}

// Asks the kernel who rang, without waiting. True: a sender is newly awake.
bool Inbox::Impl::glance() {
  std::array<epoll_event, 64> events;  // NOLINT: filled by the kernel
  const int count = ::epoll_wait(watched_.get(), events.data(), static_cast<int>(events.size()), 0);
  bool woken = false;
  for (std::size_t i = 0; static_cast<int>(i) < count; ++i) {
    if (events[i].data.u64 == kNews) {
      woken = take_newcomers() || woken;
      continue;
    }
    if (events[i].data.u64 == kMutesEnd) {
      listen_again();
      continue;
    }
    const auto source = find(events[i].data.u64);
    if (source == sources_.end()) continue;
    wake(*source);
    note_ring(*source);
    woken = true;
  }
  return woken;
}

bool Inbox::Impl::wake_who_has_something() {
  const bool all = sources_.size() <= kMostSpunOn;
  bool found = false;
  for (Source& source : sources_) {
    if ((source.asleep && !all) || !source.end->has_something()) continue;
    if (source.asleep) wake(source);
    found = true;
  }
  return found;
}

// What is there, or was taken since it rang before, is what it rang for. I3
void Inbox::Impl::note_ring(Source& source) {
  const std::uint64_t now = monotonic_ns();
  const std::uint64_t done = source.messages + source.end->work_seen();
  const bool is_news = std::exchange(source.done_at_ring, done) != done;
  source.wake_limit.note(is_news || source.end->has_something(), now);
  if (!source.wake_limit.is_muted(now)) return;
  listen(source, false);
  await_mutes_end();
}

void Inbox::Impl::listen(Source& source, bool wanted) noexcept {
  GANTRY_DEBUG_ASSERT(source.watched >= 0);
  epoll_event interest{wanted ? EPOLLIN : 0u, {.u64 = source.sender.id}};
  ::epoll_ctl(watched_.get(), EPOLL_CTL_MOD, source.watched, &interest);
  source.muted = !wanted;
}

void Inbox::Impl::listen_again() {
  const std::uint64_t now = monotonic_ns();
  for (Source& source : sources_)
    if (source.muted && !source.wake_limit.is_muted(now)) listen(source, true);
  await_mutes_end();
}

// The timer is as good as over when its time has passed. To set it takes back what it told.
void Inbox::Impl::await_mutes_end() noexcept {
  std::uint64_t first = 0;  // none
  for (const Source& source : sources_)
    if (source.muted && (first == 0 || source.wake_limit.over_ns() < first))
      first = source.wake_limit.over_ns();
  itimerspec at{};
  at.it_value.tv_sec = static_cast<time_t>(first / 1'000'000'000);
  at.it_value.tv_nsec = static_cast<long>(first % 1'000'000'000);
  ::timerfd_settime(mutes_end_.get(), TFD_TIMER_ABSTIME, &at, nullptr);
}

// I1. If there are many, those that slept before have rung if they have something.
void Inbox::Impl::put_all_to_sleep() {
  for (Source& source : sources_) {
    if (source.asleep) continue;
    source.end->fall_asleep(hears_);
    source.asleep = !source.end->has_something();
    if (!source.asleep) wake(source);
  }
}

// I4
bool Inbox::Impl::hear(Hears hears) {
  if (std::exchange(hears_, hears) == hears) return false;
  bool found = false;
  for (Source& source : sources_) {
    if (!source.asleep) continue;
    source.end->sleep_for(hears);
    if (hears != Hears::all || !source.end->has_something()) continue;
    wake(source);
    found = true;
  }
  return found;
}

// Awake first: where there is no heap for its news, its ring is still looked at next time.
void Inbox::Impl::wake(Source& source) {
  source.asleep = false;
  source.end->wake_up();
}

// I2
Result<void> Inbox::Impl::sleep(Deadline deadline) {
  const bool anyone_awake = std::any_of(sources_.begin(), sources_.end(),
                                        [](const Source& source) { return !source.asleep; });
  if (anyone_awake) return {};
  if (deadline.passed())
    return fail(Code::timed_out, fmt::format("inbox '{}': no message in time", name_));
  const trace::WaitProbe probe(name_, trace::Awaited::message);
  const std::uint64_t asleep = trace::ticks_and_look();
  trace::OpenWait open(trace_, asleep, trace::Awaited::message, 0);
  open.falls_asleep();
  WaitTicks& waits = MetricsMaker::page(metrics_)->waits;
  waits.begin(asleep);
  const unsigned readable =
      sleep_on({watched_.get(), options_.interrupt_descriptor}, deadline.left());
  waits.end(read_ticks());
  open.end();
  if (trace::is_on()) [[unlikely]]
    trace_.waited(asleep, trace::Awaited::message, 0);
  if ((readable & 2) != 0)
    return fail(Code::interrupted, fmt::format("inbox '{}': interrupted", name_));
  if (readable == 0 && deadline.passed()) return nothing_came();
  return {};
}

// Who holds all that a sender may have out waits for itself.
tl::unexpected<Error> Inbox::Impl::nothing_came() const {
  std::string nothing = fmt::format("inbox '{}': no message in time", name_);
  for (const Source& source : sources_)
    if (const Error why = source.end->nothing_came().value(); !why.hint.empty())
      return fail(why.code, nothing + "; it holds all that a sender may have out", why.hint);
  return fail(Code::timed_out, std::move(nothing));
}

// ---- coming and going ----------------------------------------------------------------------

Result<int> Inbox::Impl::watch(const Newcomer& newcomer, std::uint64_t id) const {
  GANTRY_ASSIGN(const int descriptor, newcomer.end->event_descriptor());
  GANTRY_TRY(watch_in(watched_.get(), descriptor, {.u64 = id}));
  return descriptor;
}

bool Inbox::Impl::take_newcomers() {
  bool any = false;
  for (Newcomer& newcomer : listener_->take()) {
    const Sender sender{++last_id_, newcomer.identity.pid, newcomer.identity.uid};
    if (newcomer.end == nullptr) {
      if (on_departure_) on_departure_({sender, newcomer.why});
      continue;
    }
    GANTRY_DEBUG_ASSERT(sources_.empty() || sources_.back().sender.id < sender.id);
    const auto watched = watch(newcomer, sender.id);
    sources_.push_back(
        {sender, newcomer.identity, std::move(newcomer.end), watched ? *watched : -1, false});
    metrics_.meter()->connected();
    GANTRY_STEP(newcomer_taken);
    any = true;
    if (!watched) depart(sources_.size() - 1, watched.error());
  }
  return any;
}

std::vector<Inbox::Impl::Source>::iterator Inbox::Impl::find(std::uint64_t id) {
  const auto at = std::lower_bound(
      sources_.begin(), sources_.end(), id,
      [](const Source& source, std::uint64_t wanted) { return source.sender.id < wanted; });
  return at != sources_.end() && at->sender.id == id ? at : sources_.end();
}

// Messages that are still held keep the end, and its place in the epoll, alive.
void Inbox::Impl::forget(std::size_t index, Code why) {
  GANTRY_ASSERT(index < sources_.size());
  Source& source = sources_[index];
  if (source.watched >= 0) ::epoll_ctl(watched_.get(), EPOLL_CTL_DEL, source.watched, nullptr);
  source.end->leave(why == Code::closed ? Code::peer_gone : why);  // it has ended, not this inbox
  listener_->forget(std::move(source.end));
  sources_.erase(sources_.begin() + static_cast<std::ptrdiff_t>(index));
  if (turn_ > index) --turn_;
  GANTRY_STEP(sender_forgotten);
}

void Inbox::Impl::depart(std::size_t index, const Error& why) {
  const Departure departure{sources_[index].sender, why};
  forget(index, why.code);
  if (on_departure_) on_departure_(departure);
}

void Inbox::Impl::dismiss(std::uint64_t id, Code why) {
  if (!fork_guard_.is_this()) return;
  const auto source = find(id);
  if (source != sources_.end()) forget(static_cast<std::size_t>(source - sources_.begin()), why);
}

PeerIdentity Inbox::Impl::identity_of(std::uint64_t id) {
  const auto source = find(id);
  return source == sources_.end() ? PeerIdentity{} : source->identity;
}

Result<ReceivedFd> Inbox::Impl::take_control_end(std::uint64_t id) {
  const auto source = find(id);
  if (source == sources_.end()) return ReceivedFd();
  return source->end->take_control_end();
}

std::vector<Sender> Inbox::Impl::senders() const {
  std::vector<Sender> all;
  all.reserve(sources_.size());
  for (const Source& source : sources_) all.push_back(source.sender);
  return all;
}

// ---- as its users see it -------------------------------------------------------------------

Inbox::Inbox(std::shared_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
Inbox::Inbox(Inbox&&) noexcept = default;
Inbox& Inbox::operator=(Inbox&& other) noexcept {
  std::swap(impl_, other.impl_);
  return *this;
}
Inbox::~Inbox() = default;

Result<Inbox> Inbox::open(std::string_view name, const InboxOptions& options) {
  return guarded([&]() -> Result<Inbox> {
    GANTRY_ASSIGN(auto impl, Impl::make(name, options));
    return Inbox(std::move(impl));
  });
}

Result<Inbox::Delivery> Inbox::receive(Deadline deadline) {
  return guarded_on(impl_, "Inbox", [&] { return impl_->receive(deadline); });
}
Result<int> Inbox::event_descriptor() {
  if (!impl_) return moved_from("Inbox");
  GANTRY_TRY(impl_->check_process());
  return impl_->event_descriptor();
}
std::vector<Sender> Inbox::senders() const {
  return impl_ ? impl_->senders() : std::vector<Sender>();
}
MetricsReport Inbox::metrics() const {
  return impl_ ? impl_->metrics() : MetricsReport();
}

}  // namespace gantry
