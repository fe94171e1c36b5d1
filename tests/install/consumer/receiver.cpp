// consumer/receiver.cpp: receives the stream and checks every byte of it.

#include "stream.hpp"

namespace {

bool is_as_sent(const gantry::Message& message, std::uint64_t number) {
  const auto bytes = message.bytes();
  if (message.sequence() != number || bytes.size() != stream::size_of(number)) return false;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] != stream::byte_at(number, i)) return false;
  }
  return true;
}

/// Messages received and found right until the end of the stream.
gantry::Result<std::uint64_t> receive_all(gantry::Consumer& consumer) {
  for (std::uint64_t number = 1;; ++number) {
    auto message = consumer.receive(gantry::Deadline::after(stream::kPatience));
    if (!message && message.error().code == gantry::Code::closed) return number - 1;
    if (!message) return tl::unexpected(message.error());
    if (!is_as_sent(*message, number)) {
      return tl::unexpected(gantry::Error{gantry::Code::peer_misbehaved,
                                          "message " + std::to_string(number) + " is not as sent",
                                          ""});
    }
  }
}

}  // namespace

int main() {
  auto runtime = gantry::Runtime::create();
  if (!runtime) return stream::fail("receiver", runtime.error());
  auto consumer = runtime->consumer(stream::kName, {}, gantry::Deadline::after(stream::kPatience));
  if (!consumer) return stream::fail("receiver", consumer.error());
  auto received = receive_all(*consumer);
  if (!received) return stream::fail("receiver", received.error());
  if (*received != stream::kMessages) {
    std::fprintf(stderr, "receiver: %llu messages\n", static_cast<unsigned long long>(*received));
    return 1;
  }
  std::printf("receiver: %llu messages, every byte as sent\n",
              static_cast<unsigned long long>(*received));
  return 0;
}
