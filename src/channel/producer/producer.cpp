#include "channel/producer/producer.hpp"

#include <algorithm>
#include <new>

#include "base/event.hpp"
#include "base/fork_error.hpp"
#include "base/numa_nodes.hpp"
#include "base/worker_thread.hpp"
#include "channel/naming/access.hpp"
#include "channel/producer/wait_for_credit.hpp"
#include "channel/wire/step.hpp"

namespace gantry {
namespace {

Result<Pool> own_pool(std::string_view name, PoolOptions options) {
  options.name = fmt::format("channel '{}'", name);
  return Pool::create(options);
}

Result<void> check_options(std::string_view name, const ChannelOptions& options) {
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
  if (options.mode > SendMode::immutable)
    return refuse(fmt::format("mode {} is none", static_cast<int>(options.mode)));
  if (options.copy_threads > 2)
    return refuse(fmt::format("{} threads to copy; at most 2 are possible", options.copy_threads));
  return {};
}

// One for this thread, one for the consumer, one for the second copier.
bool wants_second_copier(const ChannelOptions& options) {
  if (options.copy_threads != 0) return options.copy_threads == 2;
  return !options.progress_cpus.empty() || usable_cpus() >= 3;
}

}  // namespace

// ---- making and ending ---------------------------------------------------------------------

// By value as Producer::open() has it; the lanes keep the engine alive.
// NOLINTBEGIN(performance-unnecessary-value-param)
Result<std::shared_ptr<Producer::Impl>> Producer::Impl::make(std::string_view name,
                                                             const ChannelOptions& options,
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

Result<void> Producer::Impl::set_up(std::string_view name, const ChannelOptions& options,
                                    Reach reach) {
  name_ = name;
  options_ = options;
  spin_ = options.spin;
  reach_ = reach;
  if (reach != Reach::listens) options_.consumers = 1;
  opened_ns_ = monotonic_ns();
  GANTRY_ASSIGN(options_.directory, channel_directory(options.directory, options.access));
  GANTRY_ASSIGN(metrics_, MetricsMaker::make_for_end(options.metrics_descriptor));
  counters_ = MetricsMaker::page(metrics_);
  MetricsMaker::close_descriptor(metrics_);
  GANTRY_ASSIGN(memory_, Region::create(shared_size(sizeof(ProducerPage)), "gantry-producer"));
  auto* page = new (memory_.data()) ProducerPage{};
  page->magic = kProducerMagic;
  page->version = kFormatVersion;
  page->slots = options.slots;
  consumers_ = std::make_unique<ConsumerSet>(
      pool_, ConsumerSet::Limits{options.slots, options_.consumers, options.history,
                                 options.bytes_in_flight, !options.memory.has_value()});
  if (reach == Reach::listens) {
    GANTRY_ASSIGN(claim_, Claim::take(options_.directory, name_, options_.interrupt_descriptor,
                                      file_access(options_.access)));
  }
  GANTRY_ASSIGN(options_.acceptor, Acceptor::of(options));
  listener_.emplace(options_.acceptor, *this, claim_.listener(), options_.access);
  GANTRY_TRY(listener_->start());
  metrics_.meter()->opened();
  return {};
}

void Producer::Impl::shut_down() noexcept {
  const bool is_ours = fork_guard_.is_this();
  if (queue_) {
    if (is_ours) queue_->request_stop();
    if (is_ours) {
      const Lock held = lock();
      consumers_->wake_producer();  // it may wait for a credit
    }
    queue_->stop();
  }
  if (listener_) listener_->stop();
  if (!is_ours) return;  // the connection and the name are the parent's
  claim_.give_up();
  // The memory stays for messages still in the consumers' hands; only the connection is cut.
  const Lock held = lock();
  consumers_->hang_up();
}

Producer::Impl::~Impl() {
  if (consumers_) shut_down();
}

Result<void> Producer::Impl::close(Deadline deadline) {
  GANTRY_TRY(check_process());
  GANTRY_TRY(stay_in_order(deadline));
  Lock held = lock();
  if (!ended_) {
    ended_ = true;
    consumers_->end_stream();
  }
  const auto is_taken = [this] { return consumers_->all_taken(); };
  auto waited = wait_until(held, deadline, is_taken);
  GANTRY_STEP(stream_taken);
  if (!waited && waited.error().code == Code::timed_out)
    waited.error().message += fmt::format(": {} messages were not received", consumers_->untaken());
  return waited;
}

Result<void> Producer::Impl::wait_for_consumer(Deadline deadline, unsigned count) {
  if (count > options_.consumers)
    return tl::unexpected(named(
        {Code::invalid_argument,
         fmt::format("waiting for {} consumers; it takes {}", count, options_.consumers), ""}));
  GANTRY_TRY(check_process());
  GANTRY_TRY(stay_in_order(deadline));
  if (reach_ == Reach::calls) return wait_for_inbox(deadline);
  Lock held = lock();
  return wait_until(
      held, deadline, [this, count] { return consumers_->count() >= count; }, Lost::is_fine);
}

// ---- the consumers, as the acceptor tells ---------------------------------------------------

bool Producer::Impl::has_place() const {
  const Lock held = lock();
  return consumers_->has_place();
}

bool Producer::Impl::holds_too_much(const PeerIdentity& peer) const {
  const Lock held = lock();
  consumers_->forget_departed();
  return consumers_->holds_too_much(peer.uid);
}

bool Producer::Impl::allows(SlowConsumer policy) const {
  return options_.consumers_may_block || policy != SlowConsumer::block;
}

Result<unsigned> Producer::Impl::admit(std::unique_ptr<ConsumerResources> consumer,
                                       Region ring_memory) {
  const Lock held = lock();
  GANTRY_ASSIGN(const unsigned index,
                consumers_->admit(std::move(consumer), std::move(ring_memory)));
  metrics_.meter()->connected();
  calling_ = false;
  consumers_changed();
  return index;
}

void Producer::Impl::consumer_left(unsigned consumer) {
  if (reach_ == Reach::calls) sweep_if_stale(options_.directory, name_, Deadline::now());
  const Lock held = lock();
  consumers_->left(consumer);
  consumers_changed();
}

// Whoever waits looks at the consumers.
void Producer::Impl::consumers_changed() noexcept {
  consumers_->wake_producer();
  if (told_event_ >= 0) ring(told_event_);
}

void Producer::Impl::departed_died() {
  if (reach_ == Reach::calls) sweep_if_stale(options_.directory, name_, Deadline::now());
  const Lock held = lock();
  consumers_->forget_departed();
}

// ---- what was passed on --------------------------------------------------------------------

// Under the lock, when the caller goes its way: is there anything that it would have to look after?
void Producer::Impl::heed_forwards() {
  if (caller_waits_ || !consumers_->holds_forwards()) return;
  const bool news = !std::exchange(acceptor_heeds_, true);
  if (news) page().producer_sleeps.announce();
  consumers_->refresh();  // what came before the announcement
  if (news) listener_->look_again();
}

// Under the lock.
void Producer::Impl::stop_heeding() noexcept {
  if (acceptor_heeds_) page().producer_sleeps.withdraw();
  acceptor_heeds_ = false;
}

void Producer::Impl::watch_wakes(const WakeWatcher& watch) {
  const Lock held = lock();
  consumers_->watch_wakes(acceptor_heeds_, watch);
}

void Producer::Impl::credits_came() {
  const Lock held = lock();
  if (!acceptor_heeds_) return;  // a caller waits by now: the ring is its
  consumers_->drain_wakes();
  stop_heeding();
  consumers_->refresh();
  heed_forwards();
}

// ---- what may go wrong ---------------------------------------------------------------------

Error Producer::Impl::named(Error error) const {
  error.message = fmt::format("channel '{}': {}", name_, error.message);
  return error;
}

Result<void> Producer::Impl::check_process() const {
  return check_not_forked(fork_guard_, "channel", name_);
}

Result<void> Producer::Impl::check_open() const {
  GANTRY_TRY(check_process());
  if (ended_)
    return fail(Code::invalid_argument, fmt::format("channel '{}': the stream was ended", name_));
  return {};
}

Result<void> Producer::Impl::check_readers() const {
  if (consumers_->lost()) return tl::unexpected(named(*consumers_->lost()));
  return {};
}

// Nothing overtakes what send_async() was given.
Result<void> Producer::Impl::stay_in_order(Deadline deadline) {
  if (is_queue_idle()) return {};
  auto waited = queue_->wait_until_idle(deadline, options_.interrupt_descriptor);
  if (!waited) return tl::unexpected(named(std::move(waited).error()));
  return {};
}

}  // namespace gantry
