#include "ends.hpp"

#include <algorithm>

namespace gantry::cli {
namespace {

Result<bool> is_own_end(const std::string& name, bool output) {
  return own_stage_endpoints().map([&](const std::vector<StageEndpoint>& ends) {
    return std::ranges::any_of(ends, [&](const StageEndpoint& end) {
      return end.channel == name && end.output == output;
    });
  });
}

}  // namespace

Result<Sender> Sender::open(const std::string& name, unsigned slots, const Interrupt& interrupt) {
  const auto into = [](auto end) { return Sender(End(std::move(end))); };
  const auto own = is_own_end(name, true);
  if (!own) return tl::unexpected(own.error());
  if (*own) return stage_output(name, {interrupt.descriptor()}).map(into);
  auto runtime = Runtime::create();
  if (!runtime) return tl::unexpected(runtime.error());
  ProducerOptions options;
  options.slots = slots;
  options.interrupt_descriptor = interrupt.descriptor();
  return runtime->producer(name, options).map(into);
}

// A stage's links are connected by `gantry run`, which also sees to it that they are.
Result<void> Sender::wait_for_consumer() {
  auto* const producer = std::get_if<Producer>(&end_);
  return producer != nullptr ? producer->wait_for_consumer() : Result<void>();
}

Result<Loan> Sender::loan(Bytes size) {
  return std::visit([&](auto& end) { return end.loan(size); }, end_);
}
Result<void> Sender::publish(Loan&& loan) {
  return std::visit([&](auto& end) { return end.publish(std::move(loan)); }, end_);
}
Result<void> Sender::send(ConstByteSpan payload) {
  return std::visit([&](auto& end) { return end.send(payload); }, end_);
}
Result<void> Sender::close() {
  return std::visit([](auto& end) { return end.close(); }, end_);
}

Result<Receiver> Receiver::open(const std::string& name, Deadline deadline,
                                const Interrupt& interrupt) {
  const auto into = [](auto end) { return Receiver(End(std::move(end))); };
  const auto own = is_own_end(name, false);
  if (!own) return tl::unexpected(own.error());
  if (*own) return stage_input(name, {interrupt.descriptor()}).map(into);
  auto runtime = Runtime::create();
  if (!runtime) return tl::unexpected(runtime.error());
  ConsumerOptions options;
  options.interrupt_descriptor = interrupt.descriptor();
  return runtime->consumer(name, options, deadline).map(into);
}

Result<Message> Receiver::receive(Deadline deadline) {
  return std::visit([&](auto& end) { return end.receive(deadline); }, end_);
}

}  // namespace gantry::cli
