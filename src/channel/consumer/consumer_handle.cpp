#include <gantry/channel/status.hpp>

#include "channel/consumer/consumer.hpp"
#include "channel/wire/far_sides.hpp"

// The consumer as its users see it.
namespace gantry {

Consumer::Consumer(std::shared_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
Consumer::Consumer(Consumer&&) noexcept = default;
Consumer& Consumer::operator=(Consumer&& other) noexcept {
  std::swap(impl_, other.impl_);
  std::swap(far_side_, other.far_side_);
  return *this;
}
Consumer::~Consumer() {
  if (impl_) impl_->leave();
}

Result<Consumer> Consumer::open(std::string_view name, const ConsumerOptions& options,
                                Deadline deadline) {
  return guarded([&]() -> Result<Consumer> {
    GANTRY_ASSIGN(auto impl, Impl::make(name, options, deadline));
    return Consumer(std::move(impl));
  });
}

Result<Message> Consumer::receive(Deadline deadline) {
  return guarded_on(impl_, far_side_, "Consumer", [&] {
    const auto is_there = [this] { return impl_->has_something(); };
    while (far_side_ && !is_there() && far_side_->receive(deadline, is_there)) continue;
    return impl_->receive(deadline);
  });
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
    GANTRY_TRY(impl_->check_process());
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
