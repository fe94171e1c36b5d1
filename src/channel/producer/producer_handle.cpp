#include <gantry/channel/status.hpp>
#include <utility>

#include "base/assert.hpp"
#include "channel/producer/producer.hpp"
#include "channel/wire/far_sides.hpp"

// The producer as its users see it.
namespace gantry {
namespace {

constexpr Bytes kUnsure = ~Bytes{0};  // it may be large

// To be told once a message of `bytes` was published.
template <class Sent>
Sent told(Sent sent, detail::FarSide* far_side, Bytes bytes) noexcept {
  if (sent && far_side != nullptr) [[unlikely]]
    far_side->has_sent(bytes);
  return sent;
}

}  // namespace

std::optional<Error> FarSides::last_word(const Producer& producer) {
  return producer.impl_->consumers_trouble();
}
bool FarSides::is_alone(const Producer& producer) {
  return producer.impl_->is_alone();
}

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
    GANTRY_TRY(impl->wait_for_inbox(deadline));
    return Producer(std::move(impl));
  });
}

Result<void> Producer::send(ConstByteSpan payload, const SendOptions& options) {
  if (impl_ != nullptr && impl_->try_send_small(payload, options)) [[likely]]
    return told(Result<void>(), far_side_.get(), payload.size());
  return guarded_on(impl_, far_side_, "Producer", [&] {
    return told(impl_->send(payload, options), far_side_.get(), payload.size());
  });
}
Result<std::size_t> Producer::send_batch(std::span<const ConstByteSpan> payloads,
                                         const SendOptions& options) {
  return guarded_on(impl_, far_side_, "Producer", [&] {
    return told(impl_->send_batch(payloads, options), far_side_.get(), kUnsure);
  });
}
Result<void> Producer::send(Draft draft, const SendOptions& options) {
  return guarded_on(impl_, far_side_, "Producer", [&] {
    return told(impl_->send(std::move(draft.parts()), options), far_side_.get(), kUnsure);
  });
}
Result<void> Producer::send(Block block, const SendOptions& options) {
  return guarded_on(impl_, far_side_, "Producer", [&]() -> Result<void> {
    Draft draft;
    draft.move(std::move(block));
    return told(impl_->send(std::move(draft.parts()), options), far_side_.get(), kUnsure);
  });
}
Result<Ticket> Producer::send_async(ConstByteSpan payload, const SendOptions& options) {
  if (impl_ != nullptr) [[likely]]
    if (const auto sent = impl_->try_send_small_async(payload, options)) {
      if (far_side_) [[unlikely]]
        far_side_->has_sent(payload.size());
      return *sent;
    }
  return guarded_on(impl_, "Producer", [&] {
    return told(impl_->send_async({payload, {}, options}), far_side_.get(), kUnsure);
  });
}
Result<Ticket> Producer::send_async(Draft draft, const SendOptions& options) {
  return guarded_on(impl_, "Producer", [&] {
    return told(impl_->send_async({{}, std::move(draft.parts()), options}), far_side_.get(),
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
    return told(impl_->publish(std::move(loan), options), far_side_.get(), kUnsure);
  });
}
Result<EarlyMessage> Producer::send_early(Draft draft, const SendOptions& options) {
  return guarded_on(impl_, far_side_, "Producer", [&] {
    return told(impl_->send_early(std::move(draft.parts()), options), far_side_.get(), kUnsure);
  });
}
Pool Producer::pool() const {
  GANTRY_ASSERT(impl_ != nullptr);  // there is no pool without a producer
  return impl_->shared_pool();
}
Result<void> Producer::wait_for_consumer(Deadline deadline, unsigned count) {
  return guarded_on(impl_, far_side_, "Producer", [&]() -> Result<void> {
    GANTRY_TRY(impl_->check_process());
    if (far_side_ && impl_->is_alone()) GANTRY_TRY(far_side_->reconnect(deadline));
    return impl_->wait_for_consumer(deadline, count);
  });
}
Result<void> Producer::close(Deadline deadline) {
  return guarded_on(impl_, far_side_, "Producer", [&]() -> Result<void> {
    GANTRY_TRY(impl_->close(deadline));
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
