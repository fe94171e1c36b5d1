#include "beside.hpp"

#include <sys/stat.h>

#include <cstring>
#include <gantry/gantry.hpp>
#include <new>

#include "shared_memory.hpp"

namespace gantry::bench {
namespace {

constexpr std::chrono::seconds kMeeting{30};  // both are being started; more is a fault
constexpr const char* kName = "stream";

/// What all three processes share; a place for one message follows it.
struct Shared {
  Flag copied;
  Flag read;
  alignas(64) std::atomic<std::uint64_t> messages{0};
};

Shared& shared_in(const Mapping& memory) {
  return *reinterpret_cast<Shared*>(memory.bytes().data());
}

ByteSpan place_in(const Mapping& memory) {
  return memory.bytes().subspan(sizeof(Shared), StreamBeside::kMessage);
}

/// Answers once `message` has gone by, then repeats it until something fails. With the default
/// options of a program's channel.
template <class Message>
void repeat(Link& link, Message message) {
  auto done = message();
  if (done) link.send(Answer{});
  while (done) done = message();
  link.send(Answer::failure(to_string(done.error())));
}

void send_on(Link& link, const std::string& directory) {
  auto runtime = Runtime::create({.directory = directory});
  auto out = runtime ? runtime->producer(kName) : Unexpected(runtime.error());
  auto met = out ? out->wait_for_consumer(Deadline::after(kMeeting)) : Unexpected(out.error());
  if (!met) {
    link.send(Answer::failure(to_string(met.error())));
    return;
  }
  const Buffer buffer(StreamBeside::kMessage);
  std::memset(buffer.bytes().data(), 1, buffer.bytes().size());
  repeat(link, [&] { return out->send(buffer.bytes()); });
}

void receive_on(Link& link, const std::string& directory, Shared& shared) {
  auto runtime = Runtime::create({.directory = directory});
  auto in = runtime ? runtime->consumer(kName, {}, Deadline::after(kMeeting))
                    : Unexpected(runtime.error());
  if (!in) {
    link.send(Answer::failure(to_string(in.error())));
    return;
  }
  repeat(link, [&]() -> Result<void> {
    const auto message = in->receive();
    if (!message) return Unexpected(message.error());
    const std::uint64_t sum = checksum(message->bytes());
    asm volatile("" : : "r"(sum));                            // read, whoever wants it
    shared.messages.fetch_add(1, std::memory_order_relaxed);  // a figure; no data comes with it
    return {};
  });
}

void copy_on(Link& link, Shared& shared, ByteSpan place) {
  const Buffer buffer(StreamBeside::kMessage);
  std::memset(buffer.bytes().data(), 1, buffer.bytes().size());
  repeat(link, [&, turn = std::uint64_t{0}]() mutable -> Result<void> {
    await(shared.read, turn);
    std::memcpy(place.data(), buffer.bytes().data(), place.size());
    raise(shared.copied, ++turn);
    return {};
  });
}

void read_on(Link& link, Shared& shared, ByteSpan place) {
  repeat(link, [&, turn = std::uint64_t{0}]() mutable -> Result<void> {
    await(shared.copied, ++turn);
    const std::uint64_t sum = checksum(place);
    asm volatile("" : : "r"(sum));                            // read, whoever wants it
    shared.messages.fetch_add(1, std::memory_order_relaxed);  // a figure; no data comes with it
    raise(shared.read, turn);
    return {};
  });
}

}  // namespace

Result<std::unique_ptr<StreamBeside>> StreamBeside::start(Beside what, const std::string& directory,
                                                          const CpuPair& cpus) {
  auto memory = Mapping::shared(sizeof(Shared) + kMessage);
  if (!memory) return Unexpected(memory.error());
  std::unique_ptr<StreamBeside> made(new StreamBeside(std::move(*memory)));
  Shared& shared = *new (made->memory_.bytes().data()) Shared;
  const ByteSpan place = place_in(made->memory_);
  const std::string own = directory + "/beside";
  if (::mkdir(own.c_str(), S_IRWXU) != 0) return Unexpected(system_error(own));
  const bool copies = what == Beside::copies;
  const auto add = [&](const char* role, int cpu, const Child::Body& body) -> Result<void> {
    auto child = Child::start(role, cpu, body);
    if (!child) return Unexpected(child.error());
    made->ends_.push_back(std::move(*child));
    return {};
  };
  const auto writes = add("the writing end of the stream beside", cpus.requester, [&](Link& link) {
    copies ? copy_on(link, shared, place) : send_on(link, own);
  });
  if (!writes) return Unexpected(writes.error());
  const auto reads = add("the reading end of the stream beside", cpus.responder, [&](Link& link) {
    copies ? read_on(link, shared, place) : receive_on(link, own, shared);
  });
  if (!reads) return Unexpected(reads.error());
  if (auto flows = await_ready(made->ends_); !flows) return Unexpected(flows.error());
  return made;
}

std::uint64_t StreamBeside::messages() const noexcept {
  return shared_in(memory_).messages.load(std::memory_order_relaxed);
}

}  // namespace gantry::bench
