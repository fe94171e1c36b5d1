#include <utility>

#include "channel/producer.hpp"

// The producer as its users see it.
namespace gantry {

Producer::Producer(std::shared_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
Producer::Producer(Producer&&) noexcept = default;
Producer& Producer::operator=(Producer&& other) noexcept {
  std::swap(impl_, other.impl_);
  return *this;
}
Producer::~Producer() {
  if (impl_) impl_->shut_down();
}

Result<Producer> Producer::open(std::string_view name, const ChannelOptions& options,
                                std::shared_ptr<Engine> engine) {
  GANTRY_ASSIGN(auto impl, Impl::make(name, options, std::move(engine)));
  return Producer(std::move(impl));
}

Result<void> Producer::send(ConstByteSpan payload, Deadline deadline) {
  return impl_->send(payload, deadline);
}
Result<Loan> Producer::loan(Bytes size, Deadline deadline) {
  return impl_->loan(size, deadline);
}
Result<void> Producer::publish(Loan&& loan) {
  return impl_->publish(std::move(loan));
}
Result<void> Producer::publish(Block block, Deadline deadline) {
  return impl_->publish(std::move(block), deadline);
}
Pool Producer::pool() const {
  return impl_->pool();
}
Result<void> Producer::wait_for_consumer(Deadline deadline) {
  return impl_->wait_for_consumer(deadline);
}
Result<void> Producer::close(Deadline deadline) {
  return impl_->close(deadline);
}
MetricsReport Producer::metrics() const {
  return impl_->metrics();
}

}  // namespace gantry
