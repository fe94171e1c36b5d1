// One end of a channel, for tests/orders/two_versions, which compiles it with two libraries.
//   two_versions FOLDER send|receive
// Exit 0: all messages were sent, or came whole; 3: the other end was refused, and the words say
// which formats both have; 1: anything else.
#include <cstdio>
#include <cstring>
#include <gantry/runtime.hpp>
#include <string>

namespace {

using namespace gantry;  // NOLINT: a program

constexpr unsigned kMessages = 40;
constexpr std::chrono::seconds kPatience{10};

// Small ones in a record, beside it, in a slot, in chunks.
std::vector<std::byte> payload(std::uint64_t number) {
  constexpr std::size_t kSizes[]{8, 64, 65, 4096, 4097, 70'000, 2'000'000};
  std::vector<std::byte> bytes(kSizes[number % 7]);
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>((number * 131 + i * 7) ^ i >> 8);
  return bytes;
}

int refused(const char* what, const Error& error) {
  std::fprintf(stderr, "%s: %s: %s\n", what, std::string(to_string(error.code)).c_str(),
               error.message.c_str());
  return error.message.find("version") == std::string::npos ? 1 : 3;
}

int send_all(Runtime& runtime, const std::string& folder) {
  ProducerOptions options;
  options.directory = folder;
  auto producer = runtime.producer("frames", options);
  if (!producer) return refused("opening", producer.error());
  if (auto there = producer->wait_for_consumer(Deadline::after(kPatience)); !there)
    return refused("waiting", there.error());
  for (std::uint64_t i = 0; i < kMessages; ++i)
    if (auto sent = producer->send(payload(i), Deadline::after(kPatience)); !sent)
      return refused("sending", sent.error());
  auto closed = producer->close(Deadline::after(kPatience));
  return closed ? 0 : refused("closing", closed.error());
}

int receive_all(Runtime& runtime, const std::string& folder) {
  ConsumerOptions options;
  options.directory = folder;
  auto consumer = runtime.consumer("frames", options, Deadline::after(kPatience));
  if (!consumer) return refused("joining", consumer.error());
  for (std::uint64_t i = 0; i < kMessages; ++i) {
    auto message = consumer->receive(Deadline::after(kPatience));
    if (!message) return refused("receiving", message.error());
    const auto wanted = payload(i);
    if (message->bytes().size() != wanted.size() ||
        std::memcmp(message->bytes().data(), wanted.data(), wanted.size()) != 0) {
      std::fprintf(stderr, "message %lu has wrong bytes\n", static_cast<unsigned long>(i));
      return 1;
    }
  }
  return 0;
}

}  // namespace

int main(int count, char** words) {
  if (count != 3) return 2;
  auto runtime = gantry::Runtime::create();
  if (!runtime) return refused("runtime", runtime.error());
  return std::strcmp(words[2], "send") == 0 ? send_all(*runtime, words[1])
                                            : receive_all(*runtime, words[1]);
}
