#include "limits/exchange.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>

namespace gantry::test {
namespace {

constexpr std::array kSizes{Bytes{1},       Bytes{64},      Bytes{65},
                            Bytes{4} << 10, Bytes{1} << 20, Bytes{5} << 20};

Deadline soon() {
  return Deadline::after(std::chrono::seconds(30));
}

Deadline a_moment() {
  return Deadline::after(std::chrono::milliseconds(20));
}

std::byte byte_of(Bytes size, Bytes at) {
  return static_cast<std::byte>(at * 31 + (at >> 12) * 7 + size);
}

// Without an exception where memory is missing, as a user's own buffer might be.
class Payload {
 public:
  explicit Payload(Bytes size) : data_(static_cast<std::byte*>(std::malloc(size))), size_(size) {
    for (Bytes i = 0; data_ != nullptr && i < size; ++i) data_[i] = byte_of(size, i);
  }
  ~Payload() { std::free(data_); }
  Payload(const Payload&) = delete;
  Payload& operator=(const Payload&) = delete;

  [[nodiscard]] bool is_there() const noexcept { return data_ != nullptr; }
  [[nodiscard]] ConstByteSpan bytes() const noexcept { return {data_, size_}; }

 private:
  std::byte* data_;
  Bytes size_;
};

// Made behind an end, hence dropped before it.
struct Drop {
  Drop() noexcept = default;
  Drop(const Drop&) = delete;
  Drop& operator=(const Drop&) = delete;
  ~Drop() {
    if (before_drop != nullptr) before_drop();
  }
};

Result<void> check(ConstByteSpan got, const Payload& sent) {
  if (std::ranges::equal(got, sent.bytes())) return {};
  return tl::unexpected(Error{Code::system, "wrong bytes", {}});
}

tl::unexpected<Error> no_memory() {
  return tl::unexpected(Error{Code::out_of_memory, "no payload", {}});
}

template <class T>
tl::unexpected<Error> error_of(T& failed) {
  return tl::unexpected(std::move(failed.error()));
}

}  // namespace

ChannelFolder::ChannelFolder()
    : path_((std::filesystem::temp_directory_path() / "gantry-limits-XXXXXX").string()) {
  if (::mkdtemp(path_.data()) == nullptr) std::abort();
}
ChannelFolder::~ChannelFolder() {
  std::error_code none;
  std::filesystem::remove_all(path_, none);
}

Result<void> exchange(Runtime& runtime) {
  auto out = runtime.producer("frames");
  if (!out) return error_of(out);
  const Drop drop_out;
  auto in = runtime.consumer("frames", {}, soon());
  if (!in) return error_of(in);
  const Drop drop_in;
  for (const Bytes size : kSizes) {
    const Payload payload(size);
    if (!payload.is_there()) return no_memory();
    if (auto sent = out->send(payload.bytes(), soon()); !sent) return error_of(sent);
    auto message = in->receive(soon());
    if (!message) return error_of(message);
    if (auto right = check(message->bytes(), payload); !right) return right;
  }
  return {};
}

Result<void> call_and_reply(Runtime& runtime) {
  auto server = runtime.server("calls");
  if (!server) return error_of(server);
  const Drop drop_server;
  auto client = runtime.client("calls", {}, soon());
  if (!client) return error_of(client);
  const Drop drop_client;
  for (const Bytes size : kSizes) {
    const Payload payload(size);
    if (!payload.is_there()) return no_memory();
    CallOptions options;
    options.deadline = soon();
    auto pending = client->call_async(payload.bytes(), options);
    if (!pending) return error_of(pending);
    auto request = server->next(a_moment());
    while (!request && request.error().code == Code::timed_out) {
      // Who cannot be served for want of memory is let go.
      auto over = pending->wait(Deadline::now());
      if (!over && over.error().code != Code::timed_out) return error_of(over);
      request = server->next(a_moment());
    }
    if (!request) return error_of(request);
    if (auto right = check(request->message().bytes(), payload); !right) return right;
    if (auto replied = request->reply(request->message().bytes()); !replied)
      return error_of(replied);
    auto reply = pending->wait(soon());
    if (!reply) return error_of(reply);
    if (auto right = check(reply->bytes(), payload); !right) return right;
  }
  return {};
}

Result<void> deliver(Runtime& runtime) {
  InboxOptions options;
  std::optional<Error> departure;
  options.on_departure = [&](const Departure& one) { departure = one.why; };
  auto inbox = runtime.inbox("letters", options);
  if (!inbox) return error_of(inbox);
  const Drop drop_inbox;
  auto out = runtime.connect("letters", {}, soon());
  if (!out) return error_of(out);
  const Drop drop_out;
  for (const Bytes size : kSizes) {
    const Payload payload(size);
    if (!payload.is_there()) return no_memory();
    if (auto sent = out->send(payload.bytes(), soon()); !sent) return error_of(sent);
    auto delivery = inbox->receive(a_moment());
    while (!delivery && delivery.error().code == Code::timed_out && !departure)
      delivery = inbox->receive(a_moment());
    if (departure) return tl::unexpected(*departure);
    if (!delivery) return error_of(delivery);
    if (auto right = check(delivery->message.bytes(), payload); !right) return right;
  }
  return {};
}

}  // namespace gantry::test
