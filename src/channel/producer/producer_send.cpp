// send() and send_async(): credits, memory, copies, publication.

#include <algorithm>
#include <utility>

#include "base/clock.hpp"
#include "channel/producer/producer.hpp"
#include "channel/wire/draft_checks.hpp"
#include "channel/wire/step.hpp"

namespace gantry {

// ---- sending -------------------------------------------------------------------------------

Result<void> Producer::Impl::send_small(ConstByteSpan payload, const SendOptions& options) {
  const CpuCharge charge(*core_.metrics.meter(), payload.size(), calls_++);
  GANTRY_TRY(slow_send_small(payload, options));
  note_small_sent(payload.size());
  return {};
}

Result<void> Producer::Impl::send_uncounted(const SendOptions& options) {
  GANTRY_TRY(slow_send_small({}, options));
  GANTRY_PROBE(send, core_.name.c_str(), core_.consumers->published(), 0);
  if (trace::is_on_in_short()) [[unlikely]]
    core_.trace.sent_small(core_.consumers->published(), 0);
  return {};
}

bool Producer::Impl::may_go_the_short_way(const SendOptions& options) const noexcept {
  return !ended_ && !sends_early_ && !converts_ && fork_guard_.is_this() && is_queue_idle() &&
         is_plain(options);
}

// A call whose CPU time is to be taken goes the other way.
[[gnu::flatten]] bool Producer::Impl::try_send_small(ConstByteSpan payload,
                                                     const SendOptions& options) noexcept {
  if (payload.size() > Message::kInlineBytes || payload.data() == nullptr ||
      CpuCharge::is_due(payload.size(), calls_) || !may_go_the_short_way(options)) [[unlikely]]
    return false;
  Lock held = core_.lock();
  const bool is_sent =
      core_.consumers->try_publish_small({&payload, 1}, options.type, options.user) == 1;
  held.unlock();
  if (!is_sent) return false;
  ++calls_;
  note_small_sent(payload.size());
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
  Lock held = core_.lock();
  const std::size_t sent = core_.consumers->try_publish_small(
      payloads.first(static_cast<std::size_t>(end - payloads.begin())), options.type, options.user);
  held.unlock();
  for (std::size_t i = 0; i < sent; ++i) note_small_sent(payloads[i].size(), sent - 1 - i);
  return sent;
}

Result<void> Producer::Impl::slow_send_small(ConstByteSpan payload, const SendOptions& options) {
  GANTRY_TRY(check_sends());
  GANTRY_TRY(stay_in_order(options.deadline));
  Lock held = core_.lock();
  GANTRY_TRY(gate_.await_room(held, false, 0, options.deadline, lent_here()));
  if (is_plain(options) &&
      core_.consumers->try_publish_small({&payload, 1}, options.type, options.user) == 1)
    return {};
  RecordToSend message =
      record_for(options, PayloadLocation::here, static_cast<std::uint8_t>(payload.size()));
  message.small = payload;
  core_.consumers->publish(message, nullptr);
  return {};
}

// What else cannot be read the engine tells, of payloads that do not fit in a record.
Result<void> Producer::Impl::check_address(ConstByteSpan payload) const {
  if (payload.data() != nullptr || payload.empty()) [[likely]]
    return {};
  return fail(Code::invalid_argument, fmt::format("channel '{}': a payload of {} bytes at nullptr",
                                                  core_.name, payload.size()));
}

Result<void> Producer::Impl::send(ConstByteSpan payload, const SendOptions& options) {
  GANTRY_TRY(check_address(payload));
  if (converts(options)) {
    std::vector<Draft::Part> parts(1);
    parts.front().copied = parts.front().bytes = payload;
    return send(std::move(parts), options);
  }
  if (payload.size() <= Message::kInlineBytes) return send_small(payload, options);
  Draft::Part part;
  part.copied = part.bytes = payload;
  const CpuCharge charge(*core_.metrics.meter(), payload.size(), calls_++);
  GANTRY_TRY(check_sends());
  if (!is_queue_idle()) GANTRY_TRY(stay_in_order(options.deadline));
  if (auto sent = try_send_beside(payload, options, *lane_)) return *std::move(sent);
  return transmit({&part, 1}, options, *lane_);
}

bool Producer::Impl::is_for_beside(Bytes bytes, const SendOptions& options) const noexcept {
  const SendMode mode = options.mode == SendMode::automatic ? core_.options.mode : options.mode;
  return bytes <= core_.options.cell_bytes && is_plain(options) && mode != SendMode::immutable &&
         check_mode(mode);
}

// Nobody else may have published while this call copied.
Result<void> Producer::Impl::sent_by_two() const {
  return tl::unexpected(
      core_.named({Code::invalid_argument,
                   "two threads sent at once; a Producer is used by one thread at a time",
                   "guard it by a mutex, or open a producer for each thread"}));
}

// Two looks at the lock and a copy: no slot, no block, nothing that must be given back. It waits
// for the ring alone, since slots may be kept for ever. Nothing: it must go another way.
std::optional<Result<void>> Producer::Impl::try_send_beside(ConstByteSpan payload,
                                                            const SendOptions& options, Lane& lane,
                                                            const BesidePayload* told,
                                                            const ReshapePlan* reshape) {
  const Bytes size = reshape != nullptr ? reshape->destination_bytes() : payload.size();
  if (!is_for_beside(size, options)) return std::nullopt;
  Lock held = core_.lock();
  if (!core_.consumers->is_alone()) {
    // Slots may be kept for ever, but perhaps a consumer comes that needs none.
    if (core_.consumers->may_send(true, size)) return std::nullopt;
    auto room = gate_.await_room(held, true, size, options.deadline, lent_here(), true);
    if (!room) return room;
    if (!core_.consumers->is_alone()) return std::nullopt;
  }
  ConsumerSet::BesidePlan plan = core_.consumers->plan_beside();
  if (plan.place.empty()) {
    auto room = gate_.await_room(held, false, 0, options.deadline, lent_here());
    if (!room) return room;
    plan = core_.consumers->plan_beside();
    if (plan.place.empty()) return std::nullopt;  // others came meanwhile
  }
  const std::uint64_t before = core_.consumers->published();
  held.unlock();
  GANTRY_STEP(parts_placed);
  const std::uint64_t started = read_ticks();
  const ByteSpan place = plan.place.first(size);
  const Move move =
      reshape != nullptr ? Move::reshape(place, payload, *reshape) : Move::copy(place, payload);
  auto copied = copy_by(lane, move);
  if (!copied) return tl::unexpected(core_.named(std::move(copied).error()));
  GANTRY_STEP(copied);
  held.lock();
  if (core_.consumers->published() != before) [[unlikely]]
    return sent_by_two();
  const BesidePayload plain{size};
  if (!core_.consumers->try_publish_beside(plan, told == nullptr ? plain : *told, options.type,
                                           options.user))
    return std::nullopt;
  GANTRY_STEP(message_published);
  core_.last_copy = {move.destination, move.source,    move.bytes,    move.bytes,
                     SendMode::whole,  copied->engine, copied->cache, plan_of_move(move)};
  core_.counters->message(size);
  const std::uint64_t took = read_ticks() - started;
  core_.counters->copy(copied->engine, size, took);
  const std::uint64_t number = core_.consumers->published();
  GANTRY_PROBE(copy, core_.name.c_str(), size, static_cast<int>(copied->engine), took);
  GANTRY_PROBE(send, core_.name.c_str(), number, size);
  if (trace::is_on()) [[unlikely]] {
    core_.trace.copied(started, took, number, size, copied->engine, 1);
    core_.trace.sent(started, started + took, number, size);
  }
  return Result<void>();
}

std::optional<Result<void>> Producer::Impl::try_send_beside(std::span<const Draft::Part> parts,
                                                            const SendOptions& options) {
  if (parts.size() != 1) return std::nullopt;
  const Draft::Part& part = parts.front();
  if (part.moved || part.forwarded || part.copied.empty() || part.copied.data() == nullptr)
    return std::nullopt;
  const std::optional<Tensor> tensor = tensor_of(part);
  if (!tensor) return try_send_beside(part.copied, options, *lane_);
  if (size_of(part) > core_.options.cell_bytes) return std::nullopt;
  const auto told = payload_beside(size_of(part), *tensor);
  if (!told) return std::nullopt;
  return try_send_beside(part.copied, options, *lane_, &*told, plan_of(part));
}

Result<void> Producer::Impl::settle(std::span<Draft::Part> parts,
                                    const SendOptions& options) const {
  auto settled = settle_conversions(parts, wish_of(options, core_.options.as));
  if (!settled) return tl::unexpected(core_.named(std::move(settled).error()));
  return {};
}

Result<void> Producer::Impl::send(std::vector<Draft::Part> parts, const SendOptions& options) {
  if (parts.empty()) return send_small({}, options);
  GANTRY_TRY(settle(parts, options));
  Bytes copied = 0;  // the rest takes no time
  for (const Draft::Part& part : parts) copied += part.copied.size();
  const CpuCharge charge(*core_.metrics.meter(), copied, calls_++);
  GANTRY_TRY(check_sends());
  if (!is_queue_idle()) GANTRY_TRY(stay_in_order(options.deadline));
  if (auto sent = try_send_beside(parts, options)) return *std::move(sent);
  return transmit(parts, options, *lane_);
}

Result<Ticket> Producer::Impl::send_async(SendJob&& job) {
  GANTRY_TRY(check_sends());
  GANTRY_TRY(check_address(job.payload));
  if (converts(job.options) && job.parts.empty()) {
    job.parts.resize(1);
    job.parts.front().copied = job.parts.front().bytes = std::exchange(job.payload, {});
  }
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
  const SendMode mode =
      job.options.mode == SendMode::automatic ? core_.options.mode : job.options.mode;
  return bytes <= quick_up_to_ && mode != SendMode::streamed;
}

bool Producer::Impl::has_credit(bool needs_slot, Bytes bytes) {
  const Lock held = core_.lock();
  if (core_.consumers->lost() || core_.consumers->may_send(needs_slot, bytes)) return true;
  core_.consumers->refresh();
  return core_.consumers->lost() || core_.consumers->may_send(needs_slot, bytes);
}

// Never waits for its credit: nothing when there is none, or what is there went elsewhere.
std::optional<Result<void>> Producer::Impl::send_at_once(SendJob& job) {
  SendOptions options = job.options;
  options.deadline = Deadline::now();
  Bytes bytes = job.payload.size();
  for (const Draft::Part& part : job.parts) bytes += part.bytes.size();
  const bool needs_slot = !job.parts.empty() || bytes > Message::kInlineBytes;
  if (!needs_slot && try_send_small(job.payload, options)) return Result<void>();
  if (needs_slot && job.parts.empty()) {
    const CpuCharge charge(*core_.metrics.meter(), bytes, calls_++);
    if (auto beside = try_send_beside(job.payload, options, *lane_)) {
      if (!*beside && beside->error().code == Code::timed_out) return std::nullopt;
      return beside;
    }
  }
  if (!has_credit(needs_slot, bytes)) return std::nullopt;
  auto sent = needs_slot ? send_with_memory_at_hand(job, options) : send(job.payload, options);
  if (!sent && sent.error().code == Code::timed_out) return std::nullopt;
  return sent;
}

Result<void> Producer::Impl::send_with_memory_at_hand(SendJob& job, const SendOptions& options) {
  if (!job.parts.empty()) return transmit(job.parts, options, *lane_, at_hand_);
  Draft::Part part;
  part.copied = part.bytes = job.payload;
  const CpuCharge charge(*core_.metrics.meter(), job.payload.size(), calls_++);
  return transmit({&part, 1}, options, *lane_, at_hand_);
}

// On the progress thread.
Result<void> Producer::Impl::send_queued(SendJob& job) {
  trace::last_received = job.cause;
  if (!job.parts.empty()) return transmit(job.parts, job.options, *queue_lane_);
  if (auto sent = try_send_beside(job.payload, job.options, *queue_lane_)) return *std::move(sent);
  Draft::Part part;
  part.copied = part.bytes = job.payload;
  return transmit({&part, 1}, job.options, *queue_lane_);
}

Outcome Producer::Impl::outcome(Ticket ticket) const noexcept {
  return queue_ && fork_guard_.is_this() ? queue_->outcome(ticket) : Outcome::failed;
}

Result<void> Producer::Impl::wait(Ticket ticket, Deadline deadline) {
  GANTRY_TRY(check_process());
  if (!queue_)
    return fail(Code::invalid_argument, fmt::format("channel '{}': no such ticket", core_.name));
  return queue_->wait(ticket, deadline, core_.options.interrupt_descriptor);
}

Result<int> Producer::Impl::sent_descriptor() {
  GANTRY_TRY(check_process());
  if (!queue_)
    return fail(Code::invalid_argument,
                fmt::format("channel '{}': there is no ticket to tell of yet", core_.name),
                "call send_async() first");
  return queue_->event_descriptor();
}

void Producer::Impl::note_woken() noexcept {
  if (queue_ && fork_guard_.is_this()) queue_->note_woken();
}

Result<void> Producer::Impl::transmit(std::span<Draft::Part> parts, const SendOptions& options,
                                      Lane& lane, PayloadAllocator& memory) {
  GANTRY_TRY(settle(parts, options));
  // The second copier is the caller's; the progress thread copies alone.
  SecondCopier* const second = &lane == lane_.get() ? second_.get() : nullptr;
  return SendOperation({core_, gate_, memory, cache_uses_, lent_here()}, parts, options, lane,
                       second)
      .run();
}

}  // namespace gantry
