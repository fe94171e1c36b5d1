// consumer/sender.cpp: sends the stream; odd messages as copies, even ones written in place.

#include <vector>

#include "stream.hpp"

namespace {

void fill(gantry::ByteSpan bytes, std::uint64_t number) {
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = stream::byte_at(number, i);
}

gantry::Result<void> send_copy(gantry::Producer& producer, std::uint64_t number) {
  std::vector<std::byte> payload(stream::size_of(number));
  fill(payload, number);
  return producer.send(payload, gantry::Deadline::after(stream::kPatience));
}

gantry::Result<void> send_in_place(gantry::Producer& producer, std::uint64_t number) {
  auto loan = producer.loan(stream::size_of(number), gantry::Deadline::after(stream::kPatience));
  if (!loan) return tl::unexpected(loan.error());
  fill(loan->bytes(), number);
  return producer.publish(std::move(*loan));
}

gantry::Result<void> send_all(gantry::Producer& producer) {
  for (std::uint64_t number = 1; number <= stream::kMessages; ++number) {
    auto sent = number % 2 == 0 ? send_in_place(producer, number) : send_copy(producer, number);
    if (!sent) return sent;
  }
  return producer.close(gantry::Deadline::after(stream::kPatience));
}

// Before main() as well, all linked components are there, be they static or shared.
bool has_components() {
  auto runtime = gantry::Runtime::create();
  if (!runtime) return false;
  const auto refused = runtime->producer("stream@localhost");  // for want of a token
  return !refused && refused.error().code != gantry::Code::unsupported &&
         runtime->open_device("cpu");
}
const bool had_components = has_components();

}  // namespace

int main() {
  if (!had_components)
    return stream::fail("sender", {gantry::Code::system, "a component is missing", {}});
  auto runtime = gantry::Runtime::create();
  if (!runtime) return stream::fail("sender", runtime.error());
  auto producer = runtime->producer(stream::kName);
  if (!producer) return stream::fail("sender", producer.error());
  auto sent = send_all(*producer);
  return sent ? 0 : stream::fail("sender", sent.error());
}
