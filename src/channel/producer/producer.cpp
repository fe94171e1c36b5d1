#include "channel/producer/producer.hpp"

#include <algorithm>
#include <new>

#include "base/event.hpp"
#include "base/fork_error.hpp"
#include "base/numa_nodes.hpp"
#include "base/worker_thread.hpp"
#include "channel/naming/access.hpp"
#include "channel/producer/mode_choice.hpp"
#include "channel/status/status_text.hpp"
#include "channel/wire/draft_checks.hpp"
#include "channel/wire/step.hpp"

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

std::string_view reader_of(Producer::Impl::Reach reach) {
  using Reach = Producer::Impl::Reach;
  return reach == Reach::listens ? "consumer" : reach == Reach::calls ? "inbox" : "client";
}

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
                                                             Reach reach) {
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
  impl->engine_name_ = engine->name();
  GANTRY_ASSIGN(impl->lane_, engine->open_lane());
  GANTRY_ASSIGN(impl->queue_lane_, engine->open_lane());
  if (wants_second_copier(options)) {
    GANTRY_ASSIGN(auto lane, engine->open_lane());
    impl->second_ =
        std::make_unique<SecondCopier>(std::move(lane), options.spin, options.progress_cpus);
  }
  GANTRY_TRY(impl->set_up(name, options, reach));
  return impl;
}

Result<void> Producer::Impl::set_up(std::string_view name, const ProducerOptions& options,
                                    Reach reach) {
  core_.name = name;
  core_.options = options;
  converts_ = options.as.has_value();
  core_.spin = options.spin;
  reach_ = reach;
  told_event_ = options.consumers_event;
  if (reach != Reach::listens) core_.options.consumers = 1;
  opened_ns_ = monotonic_ns();
  GANTRY_ASSIGN(core_.options.directory, channel_directory(options.directory, options.access));
  GANTRY_ASSIGN(core_.metrics, MetricsMaker::make_for_end(options.metrics_descriptor));
  core_.counters = MetricsMaker::page(core_.metrics);
  MetricsMaker::close_descriptor(core_.metrics);
  GANTRY_ASSIGN(core_.memory, Region::create(shared_size(sizeof(ProducerPage)), "gantry-producer"));
  auto* page = new (core_.memory.data()) ProducerPage{};
  page->magic = kProducerMagic;
  page->version = kFormatVersion;
  page->slots = options.slots;
  page->who = encode_name(name_of(options));
  core_.trace.join(core_.options.directory, trace::EndKind::producer, name);
  core_.trace.set_channel(trace::channel_of(core_.memory.descriptor()));
  core_.consumers = std::make_unique<ConsumerSet>(
      core_.pool,
      ConsumerSet::Limits{options.slots, core_.options.consumers, options.history,
                          options.bytes_in_flight, !options.memory.has_value(), reader_of(reach)});
  const Bytes most_bytes = options.memory ? 0 : core_.pool.report().budget_bytes / kPlacesShare;
  core_.rotation = Rotation(std::min(options.slots + options.history, kMaxSlots),
                            std::min(most_bytes, kMostInPlaces));
  if (reach == Reach::listens) {
    GANTRY_TRY(check_reach(core_.options.directory, core_.name, options.access));
    GANTRY_ASSIGN(
        claim_, Claim::take(core_.options.directory, core_.name, core_.options.interrupt_descriptor,
                            file_access(core_.options.access)));
  }
  GANTRY_ASSIGN(core_.options.acceptor, Acceptor::of(options));
  listener_.emplace(core_.options.acceptor, *this, claim_.listener(), core_.options.access);
  GANTRY_TRY(listener_->start());
  core_.metrics.meter()->opened();
  return {};
}

void Producer::Impl::shut_down() noexcept {
  const bool is_ours = fork_guard_.is_this();
  if (queue_) {
    if (is_ours) queue_->request_stop();
    if (is_ours) {
      gate_.stop();
      const Lock held = core_.lock();
      core_.consumers->wake_producer();  // it may wait for a credit
    }
    queue_->stop();
  }
  if (listener_) listener_->stop();
  if (!is_ours) return;  // the connection and the name are the parent's
  claim_.give_up();
  // The memory stays for messages still in the consumers' hands; only the connection is cut.
  const Lock held = core_.lock();
  core_.consumers->hang_up();
}

Producer::Impl::~Impl() {
  if (core_.consumers) shut_down();
}

Result<void> Producer::Impl::close(Deadline deadline) {
  GANTRY_TRY(ended_ ? check_process() : check_sends());
  ended_ = true;  // first: whatever comes of the wait, nothing more is accepted
  if (!is_queue_idle()) queue_->request_end();
  if (auto sent = stay_in_order(deadline); !sent) {
    if (sent.error().code == Code::timed_out)
      sent.error().hint = "they still go, then the end of the stream: close() again waits for that";
    return sent;
  }
  Lock held = core_.lock();
  core_.consumers->end_stream();
  auto waited = gate_.wait_until(
      held, deadline, [this] { return core_.consumers->all_taken(); },
      [this] { return not_taken(); });
  GANTRY_STEP(stream_taken);
  return waited;
}

WaitReason Producer::Impl::not_taken() const {
  constexpr auto kKind = WaitReason::Kind::end;
  const std::string untaken = count_text(core_.consumers->untaken(), "message");
  if (core_.consumers->count() != 0) return {kKind, "", untaken + " not received in time"};
  const std::string purpose = core_.consumers->untaken() == 0 ? "to learn that the stream has ended"
                                                              : "to receive " + untaken;
  return {kKind, "for a first consumer " + purpose, "no consumer joined in time " + purpose};
}

Result<void> Producer::Impl::wait_for_consumer(Deadline deadline, unsigned count) {
  if (count > core_.options.consumers)
    return tl::unexpected(core_.named(
        {Code::invalid_argument,
         fmt::format("waiting for {} consumers; it takes {}", count, core_.options.consumers),
         ""}));
  GANTRY_TRY(check_process());
  GANTRY_TRY(stay_in_order(deadline));
  if (reach_ == Reach::calls) return wait_for_inbox(deadline);
  Lock held = core_.lock();
  const auto why = [this, count]() -> WaitReason {
    constexpr auto kKind = WaitReason::Kind::consumer;
    const unsigned joined = core_.consumers->count();
    if (joined == 0 && count == 1)
      return {kKind, core_.consumers->lost() ? "for a consumer" : "for a first consumer",
              "no consumer joined in time"};
    return {kKind, fmt::format("for {}: {} joined", count_text(count, "consumer"), joined),
            fmt::format("{} of {} consumers joined in time", joined, count)};
  };
  return gate_.wait_until(
      held, deadline, [this, count] { return core_.consumers->count() >= count; }, why,
      CreditGate::Lost::is_fine);
}

// ---- the consumers, as the acceptor tells ---------------------------------------------------

bool Producer::Impl::has_place() const {
  const Lock held = core_.lock();
  return core_.consumers->has_place();
}

bool Producer::Impl::holds_too_much(const PeerIdentity& peer) const {
  const Lock held = core_.lock();
  core_.consumers->forget_departed();
  return core_.consumers->holds_too_much(peer.uid);
}

bool Producer::Impl::allows(SlowConsumer policy) const {
  return core_.options.consumers_may_block || policy != SlowConsumer::block;
}

Result<unsigned> Producer::Impl::admit(std::unique_ptr<ConsumerResources> consumer,
                                       Region ring_memory) {
  consumer->trace = &core_.trace;
  const Lock held = core_.lock();
  GANTRY_ASSIGN(const unsigned index,
                core_.consumers->admit(std::move(consumer), std::move(ring_memory)));
  core_.metrics.meter()->connected();
  calling_ = false;
  consumers_changed();
  return index;
}

void Producer::Impl::consumer_left(unsigned consumer) {
  if (reach_ == Reach::calls) sweep_if_stale(core_.options.directory, core_.name, Deadline::now());
  const Lock held = core_.lock();
  for (const auto& one : core_.consumers->consumers())
    if (one->id() == consumer) GANTRY_PROBE(peer_gone, core_.name.c_str(), one->resources().pid);
  core_.consumers->left(consumer);
  consumers_changed();
}

// Waiting threads look at the consumers.
void Producer::Impl::consumers_changed() noexcept {
  core_.consumers->wake_producer();
  if (told_event_ >= 0) ring(told_event_);
}

void Producer::Impl::departed_died() {
  if (reach_ == Reach::calls) sweep_if_stale(core_.options.directory, core_.name, Deadline::now());
  const Lock held = core_.lock();
  core_.consumers->forget_departed();
}

// ---- what was passed on --------------------------------------------------------------------

void Producer::Impl::watch_wakes(const WakeWatcher& watch) {
  const Lock held = core_.lock();
  gate_.watch_wakes(watch);
}

void Producer::Impl::credits_came() {
  const Lock held = core_.lock();
  gate_.credits_came();
}

// ---- what may go wrong ---------------------------------------------------------------------

Result<void> Producer::Impl::check_process() const {
  return check_not_forked(fork_guard_, "channel", core_.name);
}

Result<void> Producer::Impl::check_open() const {
  GANTRY_TRY(check_process());
  if (ended_)
    return fail(Code::invalid_argument,
                fmt::format("channel '{}': the stream was ended", core_.name));
  return {};
}

Result<void> Producer::Impl::check_sends() const {
  GANTRY_TRY(check_open());
  if (!sends_early_) return {};
  return fail(Code::busy,
              fmt::format("channel '{}': a message that was sent early has not landed", core_.name),
              "say that all of it has landed, EarlyMessage::land(), or drop it");
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

}  // namespace gantry
