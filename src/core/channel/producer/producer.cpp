#include "core/channel/producer/producer.hpp"

#include <algorithm>
#include <gantry/runtime.hpp>
#include <new>
#include <utility>

#include "core/base/clock.hpp"
#include "core/base/os/fork_error.hpp"
#include "core/base/os/numa_nodes.hpp"
#include "core/base/os/worker_thread.hpp"
#include "core/channel/naming/access.hpp"
#include "core/channel/producer/mode_choice.hpp"
#include "core/channel/status/status_text.hpp"
#include "core/channel/wire/draft_checks.hpp"
#include "core/channel/wire/far_sides.hpp"
#include "core/channel/wire/step.hpp"

namespace gantry {
namespace {

Result<Pool> own_pool(std::string_view name, PoolOptions options) {
  options.name = fmt::format("channel '{}'", name);
  return Pool::create(options);
}

Result<void> check_options(std::string_view name, const ProducerOptions& options) {
  const auto refuse = [name](const std::string& what) {
    return fail(Code::invalid_argument, fmt::format("channel '{}': {}", name, what));
  };
  if (options.slots == 0 || options.slots > kMaxSlots)
    return refuse(fmt::format("{} slots; 1 to {} are possible", options.slots, kMaxSlots));
  if (options.consumers == 0 || options.consumers > kMaxConsumers)
    return refuse(
        fmt::format("{} consumers; 1 to {} are possible", options.consumers, kMaxConsumers));
  if (options.history > options.slots || options.history + options.slots > kMaxSlots)
    return refuse(
        fmt::format("a history of {} messages beside {} slots; at most as many as slots, "
                    "and {} together",
                    options.history, options.slots, kMaxSlots));
  if (const auto known = check_mode(options.mode); !known) return refuse(known.error().message);
  if (options.cell_bytes > PayloadOptions::kMaxCellBytes)
    return refuse(fmt::format("cells of {} bytes; at most {} are possible", options.cell_bytes,
                              PayloadOptions::kMaxCellBytes));
  if (options.copy_threads > 2)
    return refuse(fmt::format("{} threads to copy; at most 2 are possible", options.copy_threads));
  return {};
}

/// Of the memory's budget, for payloads that rest: see Rotation.
constexpr Bytes kPlacesShare = 4;
/// More than caches that are shared have for one channel.
constexpr Bytes kMostInPlaces = Bytes{8} << 20;

// One CPU for this thread, one for the consumer, one for the second copier.
bool wants_second_copier(const ProducerOptions& options) {
  if (options.copy_threads != 0) return options.copy_threads == 2;
  return !options.progress_cpus.empty() || usable_cpus() >= 3;
}

}  // namespace

// ---- making and ending ---------------------------------------------------------------------

// By value as Producer::open() has it; the lanes keep the engine alive.
// NOLINTBEGIN(performance-unnecessary-value-param)
Result<std::shared_ptr<Producer::Impl>> Producer::Impl::make(std::string_view name,
                                                             const ProducerOptions& options,
                                                             std::shared_ptr<Engine> engine,
                                                             Reach reach, Purpose calls) {
  // NOLINTEND(performance-unnecessary-value-param)
  GANTRY_TRY(check_channel_name(name));
  GANTRY_TRY(check_options(name, options));
  GANTRY_TRY(check_access(options.access));
  if (engine == nullptr)
    return fail(Code::invalid_argument, fmt::format("channel '{}': no engine given", name));
  auto pool = options.memory ? Result<Pool>(*options.memory) : own_pool(name, options.pool);
  if (!pool) return tl::unexpected(std::move(pool).error());
  if (!pool->is_shareable())
    return fail(Code::invalid_argument,
                fmt::format("channel '{}': its pool's memory is private to this process", name),
                "make the pool with RegionOptions::shareable");
  std::shared_ptr<Impl> impl(new Impl(std::move(*pool)));
  impl->core_.engine_name = engine->name();
  impl->core_.calls = said_for(calls);
  if (reach != Reach::listens)
    impl->core_.reader = reach == Reach::calls ? owner_of(calls) : "client";
  GANTRY_ASSIGN(impl->core_.lane, engine->open_lane());
  GANTRY_ASSIGN(impl->queue_lane_, engine->open_lane());
  if (wants_second_copier(options)) {
    GANTRY_ASSIGN(auto lane, engine->open_lane());
    impl->carriers_.have_second(
        std::make_unique<SecondCopier>(std::move(lane), options.spin, options.progress_cpus));
  }
  GANTRY_TRY(impl->set_up(name, options, reach));
  return impl;
}

Result<void> Producer::Impl::set_up(std::string_view name, const ProducerOptions& options,
                                    Reach reach) {
  core_.name = name;
  core_.options = options;
  core_.spin = options.spin;
  if (reach == Reach::answers) core_.lent = ProducerCore::Lent::by_others;  // replies
  if (reach != Reach::listens) core_.options.consumers = 1;
  core_.opened_ns = monotonic_ns();
  GANTRY_ASSIGN(core_.options.directory, channel_directory(options.directory, options.access));
  GANTRY_ASSIGN(core_.metrics, MetricsMaker::make_for_end(options.metrics_descriptor));
  core_.counters = MetricsMaker::page(core_.metrics);
  MetricsMaker::close_descriptor(core_.metrics);
  GANTRY_ASSIGN(core_.memory, Region::create(shared_size(sizeof(ProducerPage)), "gantry-producer"));
  auto* page = new (core_.memory.data()) ProducerPage;  // touches no place
  page->magic = kProducerMagic;
  page->version = kFormatVersion;
  page->slots = options.slots;
  page->who = encode_name(name_of(options));
  core_.trace.join(core_.options.directory, trace::EndKind::producer, name);
  core_.trace.set_channel(trace::channel_of(core_.memory.descriptor()));
  core_.publisher = std::make_unique<Publisher>(
      core_.pool, ConsumerSet::Limits{options.slots, core_.options.consumers, options.history,
                                      options.bytes_in_flight, !options.memory.has_value(),
                                      core_.reader, &page->beside});
  core_.consumers = &core_.publisher->consumers();
  const Bytes most_bytes = options.memory ? 0 : core_.pool.report().budget_bytes / kPlacesShare;
  core_.rotation = Rotation(std::min(options.slots + options.history, kMaxSlots),
                            std::min(most_bytes, kMostInPlaces));
  GANTRY_TRY(connector_.start(reach));
  core_.metrics.meter()->opened();
  return {};
}

void Producer::Impl::shut_down() noexcept {
  const bool is_ours = core_.fork_guard.is_this();
  if (queue_) {
    if (is_ours) {
      queue_->request_stop();
      gate_.stop();
      const Lock held = core_.lock();
      core_.consumers->wake_producer();  // it may wait for a credit
    }
    queue_->stop();
  }
  connector_.stop();
  if (!is_ours) return;  // the connection is the parent's
  // The memory stays for messages still in the consumers' hands; only the connection is cut.
  const Lock held = core_.lock();
  core_.consumers->hang_up();
}

Producer::Impl::~Impl() {
  if (core_.consumers) shut_down();
}

Result<void> Producer::Impl::close(Deadline deadline) {
  GANTRY_TRY(check_process());
  if (!ended_) GANTRY_TRY(loans_.check_landed());
  ended_ = true;  // first: whatever comes of the wait, nothing more is accepted
  if (!is_queue_idle()) queue_->request_end();
  if (auto sent = stay_in_order(deadline); !sent) {
    if (sent.error().code == Code::timed_out)
      sent.error().hint = "they still go, then the end of the stream: close() again waits for that";
    return sent;
  }
  const auto not_taken = [this]() -> WaitReason {
    constexpr auto kKind = WaitReason::Kind::end;
    const std::string untaken = count_text(core_.credits().untaken(), "message");
    if (core_.consumers->count() != 0) return {kKind, "", untaken + " not received in time"};
    const std::string purpose = core_.credits().untaken() == 0
                                    ? "to learn that the stream has ended"
                                    : "to receive " + untaken;
    return {kKind, "for a first consumer " + purpose, "no consumer joined in time " + purpose};
  };
  Lock held = core_.lock();
  core_.consumers->end_stream();
  auto waited =
      gate_.wait_until(held, deadline, [this] { return core_.credits().all_taken(); }, not_taken);
  GANTRY_STEP(stream_taken);
  return waited;
}

Result<void> Producer::Impl::wait_for_consumer(Deadline deadline, unsigned count) {
  if (count > core_.options.consumers)
    return core_.refuse(
        Code::invalid_argument,
        fmt::format("waiting for {} consumers; it takes {}", count, core_.options.consumers),
        "raise ProducerOptions::consumers");
  GANTRY_TRY(check_process());
  GANTRY_TRY(stay_in_order(deadline));
  return connector_.wait_for_consumers(deadline, count);
}

const Pool& Producer::Impl::shared_pool() {
  if (!core_.fork_guard.is_this()) return core_.pool;  // the pool itself refuses a fork's copy
  const Lock held = core_.lock();
  core_.consumers->slots().keep_no_more();
  return core_.pool;
}

ChannelExplanation Producer::Impl::explain(Bytes payload) const {
  std::uint64_t unsent = 0;
  if (core_.fork_guard.is_this()) {
    const Lock held = core_.lock();
    if (queue_) unsent = queue_->unsent();
  }
  return status_.explain(payload, unsent, carriers_.has_second());
}

bool Producer::Impl::holds_forwards() const {
  const Lock held = core_.lock();
  return core_.credits().holds_forwards();
}

// ---- what may go wrong ---------------------------------------------------------------------

Result<void> Producer::Impl::check_process() const {
  return check_not_forked(core_.fork_guard, "channel", core_.name);
}

Result<void> Producer::Impl::check_open() const {
  GANTRY_TRY(check_process());
  if (ended_)
    return core_.refuse(Code::invalid_argument, "the stream was ended by close()",
                        "open another producer");
  return {};
}

// Nothing overtakes messages of send_async().
Result<void> Producer::Impl::stay_in_order(Deadline deadline) {
  if (is_queue_idle()) return {};
  auto waited = queue_->wait_until_idle(deadline, core_.options.interrupt_descriptor);
  if (waited) return {};
  if (waited.error().code == Code::timed_out)
    waited.error().message =
        count_text(queue_->unsent(), "message") + " of send_async() not sent in time";
  return tl::unexpected(core_.named(std::move(waited).error()));
}

Result<void> Producer::Impl::await_turn(Deadline deadline) {
  GANTRY_TRY(check_open());
  GANTRY_TRY(loans_.check_landed());
  core_.keep_lock();
  return stay_in_order(deadline);
}

// ---- sending -------------------------------------------------------------------------------

Result<void> Producer::Impl::send_small(ConstByteSpan payload, const SendOptions& options) {
  const CpuCharge charge(*core_.metrics.meter(), payload.size(), calls_++);
  GANTRY_TRY(await_turn(options.deadline));
  GANTRY_TRY(carriers_.send_small(payload, options));
  core_.note_small_sent(core_.publisher->published(), payload.size());
  return {};
}

Result<void> Producer::Impl::send_uncounted(const SendOptions& options, Urgency urgency) {
  GANTRY_TRY(await_turn(options.deadline));
  GANTRY_TRY(carriers_.send_small({}, options, urgency));
  core_.note_small_sent(core_.publisher->published(), 0, false);
  return {};
}

bool Producer::Impl::may_go_the_short_way(const SendOptions& options) const noexcept {
  return !ended_ && !loans_.is_landing() && !core_.options.as && core_.fork_guard.is_this() &&
         is_queue_idle() && is_plain(options);
}

// A call whose CPU time is to be taken goes the other way.
[[gnu::flatten]] bool Producer::Impl::try_send_small(ConstByteSpan payload,
                                                     const SendOptions& options) noexcept {
  if (payload.size() > Message::kInlineBytes || payload.data() == nullptr ||
      CpuCharge::is_due(payload.size(), calls_) || !may_go_the_short_way(options)) [[unlikely]]
    return false;
  Publisher& publisher = *core_.publisher;
  KeptMutex& mutex = core_.consumers->mutex();
  mutex.lock_and_keep();
  const bool is_sent = publisher.try_publish_small_to_only(payload, options.type, options.user) ||
                       publisher.try_publish_small({&payload, 1}, options.type, options.user) == 1;
  mutex.unlock();
  if (!is_sent) return false;
  ++calls_;
  core_.note_small_sent(publisher.published(), payload.size());
  return true;
}

Result<std::size_t> Producer::Impl::send_batch(std::span<const ConstByteSpan> payloads,
                                               const SendOptions& options) {
  std::size_t sent = 0;
  while (sent < payloads.size()) {
    sent += send_small_ones(payloads.subspan(sent), options);
    if (sent == payloads.size()) break;
    // It is larger, or has to wait; without memory even for an error what was sent still counts.
    const auto next = guarded([&] { return send(payloads[sent], options); });
    if (!next && sent == 0) return tl::unexpected(next.error());
    if (!next) break;
    ++sent;
  }
  return sent;
}

// Those at the front, as far as nothing has to be waited for: one lock and one look at who sleeps.
std::size_t Producer::Impl::send_small_ones(std::span<const ConstByteSpan> payloads,
                                            const SendOptions& options) noexcept {
  if (!may_go_the_short_way(options)) return 0;
  const auto is_small = [](ConstByteSpan payload) {
    return payload.size() <= Message::kInlineBytes &&
           (payload.data() != nullptr || payload.empty());
  };
  const auto end = std::ranges::find_if_not(payloads, is_small);
  const CpuCharge charge(*core_.metrics.meter(), payloads.size() * Message::kInlineBytes, calls_++);
  Lock held = core_.lock_and_keep();
  const std::size_t sent = core_.publisher->try_publish_small(
      payloads.first(static_cast<std::size_t>(end - payloads.begin())), options.type, options.user);
  held.unlock();
  const std::uint64_t before = core_.publisher->published() - sent;
  for (std::size_t i = 0; i < sent; ++i) core_.note_small_sent(before + i + 1, payloads[i].size());
  return sent;
}

// What else cannot be read the engine tells, of payloads that do not fit in a record.
Result<void> Producer::Impl::check_address(ConstByteSpan payload) const {
  if (payload.data() != nullptr || payload.empty()) [[likely]]
    return {};
  return tl::unexpected(core_.named(at_nullptr(payload)));
}

Result<void> Producer::Impl::send(ConstByteSpan payload, const SendOptions& options) {
  GANTRY_TRY(check_address(payload));
  if (carriers_.converts(options)) {
    std::vector<Draft::Part> parts;
    parts.push_back(part_of(payload));
    return send(std::move(parts), options);
  }
  if (payload.size() <= Message::kInlineBytes) return send_small(payload, options);
  const CpuCharge charge(*core_.metrics.meter(), payload.size(), calls_++);
  GANTRY_TRY(await_turn(options.deadline));
  if (auto sent = carriers_.try_send_beside(payload, options, *core_.lane)) return *std::move(sent);
  Draft::Part part = part_of(payload);
  return carriers_.send_in_slot({&part, 1}, options, *core_.lane);
}

Result<void> Producer::Impl::send(std::vector<Draft::Part> parts, const SendOptions& options) {
  if (parts.empty()) return send_small({}, options);
  GANTRY_TRY(carriers_.settle(parts, options));
  Bytes copied = 0;  // the rest takes no time
  for (const Draft::Part& part : parts) copied += part.copied.size();
  const CpuCharge charge(*core_.metrics.meter(), copied, calls_++);
  GANTRY_TRY(await_turn(options.deadline));
  if (auto sent = carriers_.try_send_beside(parts, options)) return *std::move(sent);
  return carriers_.send_in_slot(parts, options, *core_.lane);
}

// ---- sending in the background -------------------------------------------------------------

Result<Ticket> Producer::Impl::send_async(SendJob&& job) {
  GANTRY_TRY(check_open());
  GANTRY_TRY(loans_.check_landed());
  GANTRY_TRY(check_address(job.payload));
  if (carriers_.converts(job.options) && job.parts.empty())
    job.parts.push_back(part_of(std::exchange(job.payload, {})));
  if (!queue_) {
    const auto end_stream = [this] {
      const Lock held = core_.lock();
      core_.consumers->end_stream();
    };
    auto queue =
        std::make_unique<SendQueue>([this](SendJob& queued) { return send_queued(queued); },
                                    core_.options.spin, core_.options.progress_cpus, end_stream);
    const Lock held = core_.lock();  // explain() may be on another thread
    queue_ = std::move(queue);
    quick_up_to_ = quick_up_to(SendQueue::is_without_cpu(core_.options.progress_cpus));
  }
  // First: a message that is sent must have its ticket.
  if (auto ready = queue_->prepare(); !ready)
    return tl::unexpected(core_.named(std::move(ready).error()));
  job.cause = trace::last_received;
  auto done = is_quick(job) ? send_at_once(job) : std::nullopt;
  auto ticket = done ? queue_->push_done(std::move(*done)) : queue_->push(std::move(job));
  if (!ticket) return tl::unexpected(core_.named(std::move(ticket).error()));
  return ticket;
}

// Copying it takes less than handing it over, and it need not wait: not for a window, and not for
// what is sent before it.
bool Producer::Impl::is_quick(const SendJob& job) const noexcept {
  if (!queue_->is_idle()) return false;
  Bytes bytes = job.payload.size();
  for (const Draft::Part& part : job.parts) {
    if (part.moved) return false;  // gone, if it had to be tried again
    bytes += part.copied.size();
  }
  return bytes <= quick_up_to_ && core_.mode_of(job.options) != SendMode::streamed;
}

// Never waits for its credit: nothing when there is none, or what is there went elsewhere.
std::optional<Result<void>> Producer::Impl::send_at_once(SendJob& job) {
  SendOptions options = job.options;
  options.deadline = Deadline::now();
  Bytes bytes = job.payload.size();
  for (const Draft::Part& part : job.parts) bytes += part.bytes.size();
  const bool needs_slot = !job.parts.empty() || bytes > Message::kInlineBytes;
  core_.keep_lock();
  if (!needs_slot && try_send_small(job.payload, options)) return Result<void>();
  if (needs_slot && job.parts.empty()) {
    const CpuCharge charge(*core_.metrics.meter(), bytes, calls_++);
    if (auto beside = carriers_.try_send_beside(job.payload, options, *core_.lane)) {
      if (!*beside && beside->error().code == Code::timed_out) return std::nullopt;
      return beside;
    }
  }
  if (!gate_.has_credit(needs_slot, bytes)) return std::nullopt;
  const auto send_in_slot = [&](std::span<Draft::Part> parts) {
    return carriers_.send_in_slot(parts, options, *core_.lane, Carriers::Memory::available);
  };
  const auto send_payload = [&] {
    const CpuCharge charge(*core_.metrics.meter(), bytes, calls_++);
    Draft::Part part = part_of(job.payload);
    return send_in_slot({&part, 1});
  };
  auto sent = !needs_slot         ? send(job.payload, options)
              : job.parts.empty() ? send_payload()
                                  : send_in_slot(job.parts);
  if (!sent && sent.error().code == Code::timed_out) return std::nullopt;
  return sent;
}

// On the progress thread.
Result<void> Producer::Impl::send_queued(SendJob& job) {
  trace::last_received = job.cause;
  if (!job.parts.empty()) return carriers_.send_in_slot(job.parts, job.options, *queue_lane_);
  if (auto sent = carriers_.try_send_beside(job.payload, job.options, *queue_lane_))
    return *std::move(sent);
  Draft::Part part = part_of(job.payload);
  return carriers_.send_in_slot({&part, 1}, job.options, *queue_lane_);
}

Outcome Producer::Impl::outcome(Ticket ticket) const noexcept {
  return queue_ && core_.fork_guard.is_this() ? queue_->outcome(ticket) : Outcome::failed;
}

Result<void> Producer::Impl::wait(Ticket ticket, Deadline deadline) {
  GANTRY_TRY(check_process());
  if (!queue_) return core_.refuse(Code::invalid_argument, "no such ticket");
  return queue_->wait(ticket, deadline, core_.options.interrupt_descriptor);
}

Result<int> Producer::Impl::sent_descriptor() {
  GANTRY_TRY(check_process());
  if (!queue_)
    return core_.refuse(Code::invalid_argument, "there is no ticket to tell of yet",
                        "call send_async() first");
  return queue_->event_descriptor();
}

void Producer::Impl::note_woken() noexcept {
  if (queue_ && core_.fork_guard.is_this()) queue_->note_woken();
}

// ---- memory that the caller fills ----------------------------------------------------------

Result<Loan> Producer::Impl::loan(Bytes size, Deadline deadline) {
  const CpuCharge charge(*core_.metrics.meter(), size, calls_++);
  GANTRY_TRY(check_open());
  if (size == 0)
    return core_.refuse(Code::invalid_argument, "a loan of 0 bytes",
                        "send() an empty payload instead");
  GANTRY_TRY(stay_in_order(deadline));
  return loans_.lend({shared_from_this(), &loans_}, size, deadline);
}

Result<void> Producer::Impl::publish(Loan loan, const SendOptions& options) {
  GANTRY_TRY(loans_.check(loan, options));
  GANTRY_TRY(await_turn(options.deadline));
  return loans_.publish(std::move(loan), options);
}

Result<EarlyMessage> Producer::Impl::send_early(std::vector<Draft::Part> parts,
                                                const SendOptions& options) {
  GANTRY_TRY(check_open());
  GANTRY_TRY(loans_.check_landed());
  if (parts.empty())
    return core_.refuse(Code::invalid_argument, "send_early() of a draft without segments",
                        "add a block of Producer::pool() to it: Draft::move()");
  GANTRY_TRY(stay_in_order(options.deadline));
  return loans_.send_early({shared_from_this(), &loans_}, parts, options);
}

// ---- the producer as its users see it ------------------------------------------------------

namespace {

constexpr Bytes kUnsure = ~Bytes{0};  // it may be large

// To be told once a message of `bytes` was published.
template <class Impl>
void tell(Impl& impl, detail::FarSide* far_side, Bytes bytes) noexcept {
  if (far_side != nullptr) [[unlikely]]
    far_side->has_sent(bytes);
  if (HandedCallers* const there = impl.connector().handed(); there != nullptr) [[unlikely]]
    there->has_sent(bytes);
}
template <class Sent, class Impl>
Sent told(Sent sent, Impl& impl, detail::FarSide* far_side, Bytes bytes) noexcept {
  if (sent) tell(impl, far_side, bytes);
  return sent;
}

}  // namespace

Producer::Producer(std::shared_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
Producer::Producer(Producer&&) noexcept = default;
Producer& Producer::operator=(Producer&& other) noexcept {
  std::swap(impl_, other.impl_);
  std::swap(far_side_, other.far_side_);
  return *this;
}
Producer::~Producer() {
  if (impl_) impl_->shut_down();
}

Result<Producer> Producer::open(std::string_view name, const ProducerOptions& options,
                                std::shared_ptr<Engine> engine) {
  return guarded([&]() -> Result<Producer> {
    GANTRY_ASSIGN(auto impl, Impl::make(name, options, std::move(engine)));
    return Producer(std::move(impl));
  });
}

Result<Producer> Producer::connect(std::string_view name, const ProducerOptions& options,
                                   std::shared_ptr<Engine> engine, Deadline deadline) {
  return guarded([&]() -> Result<Producer> {
    GANTRY_ASSIGN(auto impl, Impl::make(name, options, std::move(engine), Impl::Reach::calls));
    GANTRY_TRY(impl->connector().wait_for_inbox(deadline));
    return Producer(std::move(impl));
  });
}

Result<void> Producer::send(ConstByteSpan payload, const SendOptions& options) {
  if (impl_ != nullptr && impl_->try_send_small(payload, options)) [[likely]] {
    tell(*impl_, far_side_.get(), payload.size());
    return Result<void>();
  }
  const auto slow_send = [&]() __attribute__((noinline, cold)) {
    return guarded_on(impl_, far_side_, "Producer", [&] {
      return told(impl_->send(payload, options), *impl_, far_side_.get(), payload.size());
    });
  };
  return slow_send();
}
Result<std::size_t> Producer::send_batch(std::span<const ConstByteSpan> payloads,
                                         const SendOptions& options) {
  return guarded_on(impl_, far_side_, "Producer", [&] {
    return told(impl_->send_batch(payloads, options), *impl_, far_side_.get(), kUnsure);
  });
}
Result<void> Producer::send(Draft draft, const SendOptions& options) {
  return guarded_on(impl_, far_side_, "Producer", [&] {
    return told(impl_->send(std::move(draft), options), *impl_, far_side_.get(), kUnsure);
  });
}
Result<void> Producer::send(Block block, const SendOptions& options) {
  return guarded([&] { return send(Draft().move(std::move(block)), options); });
}
Result<Ticket> Producer::send_async(ConstByteSpan payload, const SendOptions& options) {
  if (impl_ != nullptr) [[likely]]
    if (const auto sent = impl_->try_send_small_async(payload, options))
      return told(Result<Ticket>(*sent), *impl_, far_side_.get(), payload.size());
  return guarded_on(impl_, "Producer", [&] {
    return told(impl_->send_async({payload, {}, options}), *impl_, far_side_.get(), kUnsure);
  });
}
Result<Ticket> Producer::send_async(Draft draft, const SendOptions& options) {
  return guarded_on(impl_, "Producer", [&] {
    return told(impl_->send_async({{}, std::move(draft.parts()), options}), *impl_, far_side_.get(),
                kUnsure);
  });
}
Outcome Producer::outcome(Ticket ticket) const noexcept {
  return impl_ ? impl_->outcome(ticket) : Outcome::failed;
}
Result<void> Producer::wait(Ticket ticket, Deadline deadline) {
  return guarded_on(impl_, far_side_, "Producer", [&] { return impl_->wait(ticket, deadline); });
}
Result<int> Producer::sent_descriptor() {
  return guarded_on(impl_, "Producer", [&] { return impl_->sent_descriptor(); });
}
void Producer::note_woken() noexcept {
  if (impl_) impl_->note_woken();
}
Result<Loan> Producer::loan(Bytes size, Deadline deadline) {
  return guarded_on(impl_, far_side_, "Producer", [&] { return impl_->loan(size, deadline); });
}
Result<void> Producer::publish(Loan loan, const SendOptions& options) {
  return guarded_on(impl_, far_side_, "Producer", [&] {
    return told(impl_->publish(std::move(loan), options), *impl_, far_side_.get(), kUnsure);
  });
}
Result<EarlyMessage> Producer::send_early(Draft draft, const SendOptions& options) {
  return guarded_on(impl_, far_side_, "Producer", [&] {
    return told(impl_->send_early(std::move(draft.parts()), options), *impl_, far_side_.get(),
                kUnsure);
  });
}
Pool Producer::pool() const {
  GANTRY_ASSERT(impl_ != nullptr);  // there is no pool without a producer
  return impl_->shared_pool();
}
Result<void> Producer::wait_for_consumer(Deadline deadline, unsigned count) {
  return guarded_on(impl_, far_side_, "Producer", [&]() -> Result<void> {
    GANTRY_TRY(impl_->check_process());
    if (far_side_ && impl_->connector().is_alone()) GANTRY_TRY(far_side_->reconnect(deadline));
    return impl_->wait_for_consumer(deadline, count);
  });
}
Result<void> Producer::close(Deadline deadline) {
  return guarded_on(impl_, far_side_, "Producer", [&]() -> Result<void> {
    // From now on a caller that has vanished does not have more time than its bridge gives it.
    static_cast<void>(impl_->connector().finish_handed(Deadline::now()));
    GANTRY_TRY(impl_->close(deadline));
    GANTRY_TRY(impl_->connector().finish_handed(deadline));
    return far_side_ ? far_side_->finish(deadline) : Result<void>();
  });
}
MetricsReport Producer::metrics() const {
  return impl_ ? impl_->metrics() : MetricsReport();
}
ChannelExplanation Producer::explain(Bytes payload) const {
  if (!impl_) return {};
  ChannelExplanation told = impl_->explain(payload);
  if (far_side_) told.link = far_side_->path();
  return told;
}

}  // namespace gantry
