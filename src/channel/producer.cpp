#include "channel/producer.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>

#include "base/assert.hpp"
#include "base/event.hpp"

namespace gantry {
namespace {

Result<Pool> own_pool(std::string_view name, PoolOptions options) {
  options.name = fmt::format("channel '{}'", name);
  return Pool::create(options);
}

}  // namespace

// ---- making and ending ---------------------------------------------------------------------

// By value as Producer::open() has it; the lane keeps the engine alive.
// NOLINTBEGIN(performance-unnecessary-value-param)
Result<std::shared_ptr<Producer::Impl>> Producer::Impl::make(std::string_view name,
                                                             const ChannelOptions& options,
                                                             std::shared_ptr<Engine> engine) {
  // NOLINTEND(performance-unnecessary-value-param)
  GANTRY_TRY(check_channel_name(name));
  if (options.slots == 0 || options.slots > kMaxSlots)
    return fail(Code::invalid_argument, fmt::format("channel '{}': {} slots; 1 to {} are possible",
                                                    name, options.slots, kMaxSlots));
  if (engine == nullptr)
    return fail(Code::invalid_argument, fmt::format("channel '{}': no engine given", name));
  auto pool = options.memory ? Result<Pool>(*options.memory) : own_pool(name, options.pool);
  if (!pool) return tl::unexpected(std::move(pool).error());
  if (!pool->is_shareable())
    return fail(Code::invalid_argument,
                fmt::format("channel '{}': its pool's memory is private to this process", name),
                "make the pool with RegionOptions::shareable");
  std::shared_ptr<Impl> impl(new Impl(std::move(*pool)));
  GANTRY_ASSIGN(impl->lane_, engine->open_lane());
  GANTRY_TRY(impl->set_up(name, options));
  return impl;
}

Result<void> Producer::Impl::set_up(std::string_view name, const ChannelOptions& options) {
  name_ = name;
  options_ = options;
  opened_ns_ = monotonic_ns();
  GANTRY_ASSIGN(options_.directory, channel_directory(options.directory));
  GANTRY_ASSIGN(metrics_, MetricsMaker::make_for_end(options.metrics_descriptor));
  counters_ = MetricsMaker::page(metrics_);
  GANTRY_ASSIGN(event_, make_event());
  GANTRY_ASSIGN(memory_, Region::create(shared_size(sizeof(ProducerPage)), "gantry-producer"));
  auto* page = new (memory_.data()) ProducerPage{};
  page->magic = kProducerMagic;
  page->version = kFormatVersion;
  page->slots = options.slots;
  ring_.emplace(std::span(page->cells).first(cells_for(options.slots)));
  slots_.resize(options.slots);
  GANTRY_ASSIGN(claim_, Claim::take(options_.directory, name_, options_.interrupt_descriptor));
  doorman_.emplace(*this, claim_.listener());
  GANTRY_TRY(doorman_->start());
  metrics_.meter()->opened();
  return {};
}

void Producer::Impl::shut_down() noexcept {
  if (doorman_) doorman_->stop();
  if (!maker_.is_this()) return;  // the line and the name are the parent's
  claim_.give_up();
  // The memory stays for messages still in the consumer's hands; only the line is cut.
  if (consumer_) ::shutdown(consumer_->socket.get(), SHUT_RDWR);
}

// What the consumer still holds it may read for as long as it likes: nobody else gets that memory.
Producer::Impl::~Impl() {
  shut_down();
  if (attached() == nullptr) return;
  look_at_consumer();
  for (Slot& slot : slots_)
    if (slot.state == Slot::State::published) slot.block.abandon();
}

Result<void> Producer::Impl::close(Deadline deadline) {
  if (!ended_) {
    ended_ = true;
    page().end.store(ring_->published() + 1, std::memory_order_seq_cst);  // [E]
    if (Attached* consumer = attached())
      if (consumer->ringer.must_ring(consumer->page().consumer_sleeps)) ring(consumer->event.get());
  }
  const auto all_taken = [this] { return attached() != nullptr && ring_->unread() == 0; };
  auto waited = wait_until(deadline, all_taken);
  if (!waited && waited.error().code == Code::timed_out)
    waited.error().message += fmt::format(": {} messages were not received", ring_->unread());
  return waited;
}

// ---- the consumer, as the doorman tells ----------------------------------------------------

std::array<int, 3> Producer::Impl::welcome_descriptors() const {
  return {memory_.descriptor(), event_.get(), metrics_.descriptor()};
}

bool Producer::Impl::has_consumer() const {
  return attached() != nullptr;
}

Result<void> Producer::Impl::admit(std::unique_ptr<Attached> consumer) {
  consumer_ = std::move(consumer);
  auto told = slabs_.introduce(consumer_->socket.get(), [this] {
    attached_.store(consumer_.get(), std::memory_order_seq_cst);
    metrics_.meter()->connected();
  });
  if (!told && attached() == nullptr) {  // it left, or cannot be told: another may come
    consumer_.reset();
    return told;
  }
  ring(event_.get());  // wait_for_consumer() and close() look at attached()
  if (!told) gone_.store(true, std::memory_order_release);
  return {};
}

void Producer::Impl::consumer_left() {
  gone_.store(true, std::memory_order_release);  // [G]
  ring(event_.get());
}

std::pair<WirePacket, std::vector<int>> Producer::Impl::status() const {
  WirePacket packet;
  packet.kind = PacketKind::status;
  packet.slots = options_.slots;
  packet.held = held_.load(std::memory_order_relaxed);  // display only
  packet.bytes = pool_.report().slab_bytes;
  packet.age_ns = monotonic_ns() - opened_ns_;
  std::vector<int> fds{metrics_.descriptor()};
  if (const Attached* consumer = attached()) {
    packet.peer_pid = consumer->pid;
    fds.push_back(consumer->metrics.descriptor());
  }
  return {packet, fds};
}

// ---- credits -------------------------------------------------------------------------------

Error Producer::Impl::named(Error error) const {
  error.message = fmt::format("channel '{}': {}", name_, error.message);
  return error;
}

Result<void> Producer::Impl::check_open() const {
  if (ended_)
    return fail(Code::invalid_argument, fmt::format("channel '{}': the stream was ended", name_));
  return {};
}

Result<void> Producer::Impl::check_peer() {
  if (misbehaved_)
    return fail(Code::peer_misbehaved,
                fmt::format("channel '{}': the consumer wrote nonsense into its page", name_));
  if (gone_.load(std::memory_order_acquire)) {  // [G]
    look_at_consumer();                         // what it took before it left still counts
    const Attached* consumer = attached();
    return fail(Code::peer_gone, fmt::format("channel '{}': the consumer (process {}) is gone",
                                             name_, consumer == nullptr ? 0 : consumer->pid));
  }
  return {};
}

// Brings the view of the consumer's progress up to date.
void Producer::Impl::look_at_consumer() {
  const Attached* consumer = attached();
  if (consumer == nullptr) return;
  if (!ring_->refresh(consumer->page().taken)) {
    misbehaved_ = true;
    return;
  }
  reclaim(consumer->page());
}

void Producer::Impl::reclaim(const ConsumerPage& page) {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    if (slot.state != Slot::State::published) continue;
    if (page.released.is_released(i, slot.sequence)) free_slot_of(slot);
  }
}

void Producer::Impl::free_slot_of(Slot& slot) noexcept {
  slot.block = Block();
  slot.state = Slot::State::free;
  held_.fetch_sub(1, std::memory_order_relaxed);
}

Producer::Impl::Slot* Producer::Impl::free_slot() noexcept {
  const auto found = std::find_if(slots_.begin(), slots_.end(),
                                  [](const Slot& slot) { return slot.state == Slot::State::free; });
  return found == slots_.end() ? nullptr : &*found;
}

bool Producer::Impl::any_published() const noexcept {
  return std::any_of(slots_.begin(), slots_.end(),
                     [](const Slot& slot) { return slot.state == Slot::State::published; });
}

// Waits for `ready`, looking at the consumer's page each turn. `ready` true wins over a consumer
// that left: what it had already given back is good.
template <class Ready>
Result<void> Producer::Impl::wait_until(Deadline deadline, Ready ready) {
  const auto look = [&] {
    look_at_consumer();
    return misbehaved_ || gone_.load(std::memory_order_acquire) || ready();
  };
  if (look() && ready() && !misbehaved_) return {};
  const std::uint64_t started = read_ticks();
  SleepIntent* const intents[] = {&page().producer_sleeps};
  for (;;) {
    WaitPoint point{intents, {{event_.get(), POLLIN, 0}}, options_.interrupt_descriptor};
    const Woken woken = wait_once(point, options_.spin, deadline, look);
    if (woken == Woken::look) drain(event_.get());
    look_at_consumer();
    if (ready() && !misbehaved_) break;
    GANTRY_TRY(check_peer());
    if (woken == Woken::interrupted)
      return fail(Code::interrupted, fmt::format("channel '{}': interrupted", name_));
    if (woken == Woken::timed_out)
      return fail(Code::timed_out,
                  attached() != nullptr
                      ? fmt::format("channel '{}': the consumer gave no slot back in time", name_)
                      : fmt::format("channel '{}': no consumer joined in time", name_));
  }
  metrics_.meter()->waited(read_ticks() - started);
  return {};
}

Result<void> Producer::Impl::wait_for_consumer(Deadline deadline) {
  return wait_until(deadline, [this] { return attached() != nullptr; });
}

// ---- sending -------------------------------------------------------------------------------

// Memory runs out while messages are on their way: wait for one to come back, as for a credit.
Result<Block> Producer::Impl::allocate(Bytes size, Deadline deadline) {
  for (;;) {
    auto block = pool_.allocate(size);
    if (block || block.error().code != Code::out_of_memory || !any_published()) return block;
    const auto before = held_.load(std::memory_order_relaxed);
    GANTRY_TRY(wait_until(
        deadline, [this, before] { return held_.load(std::memory_order_relaxed) < before; }));
  }
}

Result<void> Producer::Impl::await_slot(Deadline deadline) {
  GANTRY_TRY(check_peer());
  return wait_until(deadline,
                    [this] { return free_slot() != nullptr && ring_->unread() < slots_.size(); });
}

Result<Loan> Producer::Impl::loan(Bytes size, Deadline deadline) {
  const CpuCharge charge(*metrics_.meter(), size, calls_++);
  GANTRY_TRY(check_open());
  if (size == 0)
    return fail(Code::invalid_argument, fmt::format("channel '{}': a loan of 0 bytes", name_));
  GANTRY_TRY(await_slot(deadline));
  GANTRY_ASSIGN(Block block, allocate(size, deadline));
  if (auto told = slabs_.announce(block.slab()); !told)
    return tl::unexpected(named(std::move(told).error()));
  Slot& slot = *free_slot();
  slot.state = Slot::State::loaned;
  slot.block = std::move(block);
  held_.fetch_add(1, std::memory_order_relaxed);
  const auto token = static_cast<std::uint64_t>(&slot - slots_.data());
  return Loan(shared_from_this(), token, slot.block.bytes());
}

void Producer::Impl::give_back(std::uint64_t token) noexcept {
  free_slot_of(slots_[token]);
}

void Producer::Impl::publish_record(const MessageHeader& header, ConstByteSpan small) {
  const std::uint64_t ticks = is_timed(header, ring_->published() + 1) ? read_ticks() : 0;
  ring_->publish([&](MessageRecord& record) {
    // The far line first: the polled one is ours only for as long as it takes to fill it.
    if (small.size() > kNearBytes)
      std::memcpy(record.small.data() + kNearBytes, small.data() + kNearBytes,
                  small.size() - kNearBytes);
    std::atomic_signal_fence(std::memory_order_seq_cst);  // for the compiler's eyes only
    if (!small.empty())
      std::memcpy(record.small.data(), small.data(), std::min(small.size(), kNearBytes));
    // Field by field, out of registers: a header put together in memory and read back as a whole
    // would wait for its parts to leave the store buffer.
    record.header.ticks = ticks;
    record.header.bytes = header.bytes;
    record.header.offset = header.offset;
    record.header.slab = header.slab;
    record.header.slot = header.slot;
  });
  if (Attached* consumer = attached())
    if (consumer->ringer.must_ring(consumer->page().consumer_sleeps)) ring(consumer->event.get());
  counters_->message(header.bytes);
}

Result<void> Producer::Impl::publish(Loan&& loan) {
  if (loan.keeper() != this)
    return fail(Code::invalid_argument,
                fmt::format("channel '{}': that loan is empty or of another channel", name_));
  GANTRY_TRY(check_open());
  GANTRY_TRY(check_peer());
  publish_slot(slots_[loan.token()], loan.bytes().size());
  loan.forget();
  return {};
}

Result<void> Producer::Impl::publish(Block block, Deadline deadline) {
  const CpuCharge charge(*metrics_.meter(), block.bytes().size(), calls_++);
  GANTRY_TRY(check_open());
  if (!pool_.owns(block))
    return fail(Code::invalid_argument,
                fmt::format("channel '{}': that block is empty or of another pool", name_),
                "allocate it from Producer::pool(), or send() a copy");
  GANTRY_TRY(await_slot(deadline));
  if (auto told = slabs_.announce(block.slab()); !told)
    return tl::unexpected(named(std::move(told).error()));
  Slot& slot = *free_slot();
  const Bytes size = block.bytes().size();
  slot.block = std::move(block);
  held_.fetch_add(1, std::memory_order_relaxed);
  publish_slot(slot, size);
  return {};
}

void Producer::Impl::publish_slot(Slot& slot, Bytes size) {
  const auto index = static_cast<std::uint32_t>(&slot - slots_.data());
  GANTRY_ASSERT(ring_->unread() < cells_for(slots_.size()));  // I3 of the ring
  slot.sequence = ring_->published() + 1;
  publish_record({.ticks = 0,
                  .bytes = size,
                  .offset = slot.block.offset(),
                  .slab = slot.block.slab(),
                  .slot = index},
                 {});
  slot.state = Slot::State::published;
}

Result<void> Producer::Impl::copy(ByteSpan to, ConstByteSpan from) {
  const std::uint64_t started = read_ticks();
  Completion completion;
  Move move = Move::copy(to, from);
  move.completion = &completion;
  GANTRY_ASSIGN(const Ticket ticket, lane_->submit(move, Use::synchronous));
  if (lane_->wait(ticket) != Outcome::done) return fail_copy(completion, from.size());
  counters_->copy(completion.engine, from.size(), read_ticks() - started);
  metrics_.meter()->cpu(completion.helper_cpu_ns);
  return {};
}

tl::unexpected<Error> Producer::Impl::fail_copy(const Completion& completion, Bytes bytes) const {
  const bool theirs = completion.cause == Cause::unreadable;
  return fail(
      theirs ? Code::invalid_argument : Code::system,
      fmt::format("channel '{}': copying {} bytes: the {} engine stopped after {}: {} at "
                  "{:#x}",
                  name_, bytes, to_string(completion.engine), completion.bytes_done,
                  to_string(completion.cause), completion.fault_address),
      theirs ? "the payload must stay mapped, and its file as long, until send() returns" : "");
}

Result<void> Producer::Impl::send(ConstByteSpan payload, Deadline deadline) {
  if (payload.size() > Message::kInlineBytes) {
    GANTRY_ASSIGN(Loan loan, this->loan(payload.size(), deadline));
    const CpuCharge charge(*metrics_.meter(), payload.size(), calls_);
    GANTRY_TRY(copy(loan.bytes(), payload));
    return publish(std::move(loan));
  }
  const CpuCharge charge(*metrics_.meter(), payload.size(), calls_++);
  if (!is_fine()) {
    GANTRY_TRY(check_open());
    GANTRY_TRY(check_peer());
  }
  if (ring_->unread() >= slots_.size())
    GANTRY_TRY(wait_until(deadline, [this] { return ring_->unread() < slots_.size(); }));
  publish_record({.ticks = 0, .bytes = payload.size(), .offset = 0, .slab = 0, .slot = kNoSlot},
                 payload);
  counters_->copy(CopyEngine::inline_, payload.size(), 0);
  return {};
}

}  // namespace gantry
