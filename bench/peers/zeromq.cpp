// ZeroMQ over ipc: or tcp: sockets. One reader: PAIR; several, over ipc: XPUB to SUBs, answers by
// PUSH and PULL. Sent without a copy (the library reads our memory), read where the library
// received it. Both ends try again and again rather than sleep; the library's own threads run on
// other CPUs.

#include <zmq.h>

#include <memory>

#include "peer.hpp"

namespace gantry::bench {
namespace {

Error zmq_error(const char* what) {
  return peer_error(what, zmq_strerror(zmq_errno()));
}

struct EndContext {
  void operator()(void* context) const { zmq_ctx_term(context); }
};
struct EndSocket {
  void operator()(void* socket) const { zmq_close(socket); }
};
using Context = std::unique_ptr<void, EndContext>;
using Socket = std::unique_ptr<void, EndSocket>;

/// A message of ours or the library's; closed when dropped.
class Message {
 public:
  Message() { zmq_msg_init(&message_); }
  /// Memory that stays as it is until the answer has come.
  explicit Message(ConstByteSpan bytes) {
    auto* const data = const_cast<std::byte*>(bytes.data());
    zmq_msg_init_data(&message_, data, bytes.size(), [](void*, void*) {}, nullptr);
  }
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;
  ~Message() { zmq_msg_close(&message_); }

  zmq_msg_t* get() { return &message_; }
  ConstByteSpan bytes() {
    return {static_cast<const std::byte*>(zmq_msg_data(&message_)), zmq_msg_size(&message_)};
  }

 private:
  zmq_msg_t message_{};
};

Result<void> send(void* socket, Message& message, int flags) {
  while (zmq_msg_send(message.get(), socket, flags) < 0)
    if (zmq_errno() != EINTR) return Unexpected(zmq_error("zmq_msg_send"));
  return {};
}

Result<void> receive(void* socket, Message& message, const Poll& poll) {
  while (zmq_msg_recv(message.get(), socket, ZMQ_DONTWAIT) < 0) {
    if (zmq_errno() != EAGAIN && zmq_errno() != EINTR) return Unexpected(zmq_error("zmq_msg_recv"));
    poll.again();
  }
  return {};
}

void set(void* socket, int option, int value) {
  zmq_setsockopt(socket, option, &value, sizeof value);
}

Socket make_socket(const Context& context, int kind) {
  constexpr int kBufferBytes = 4 << 20;
  Socket socket(zmq_socket(context.get(), kind));
  for (const int option : {ZMQ_SNDHWM, ZMQ_RCVHWM, ZMQ_LINGER}) set(socket.get(), option, 0);
  for (const int option : {ZMQ_SNDBUF, ZMQ_RCVBUF}) set(socket.get(), option, kBufferBytes);
  return socket;
}

/// A variant is the address to meet at: of TCP, between two hosts.
std::string address(const Assignment& told, const char* name) {
  if (!told.variant.empty()) return told.variant;
  return "ipc://" + told.what.directory + "/zmq-" + name;
}

/// What an end sends over and what it receives from.
struct Ends {
  Context context{zmq_ctx_new()};
  Socket out;
  Socket in;
  [[nodiscard]] void* source() const { return in ? in.get() : out.get(); }
};

Result<void> bind_to(const Socket& socket, const std::string& to) {
  if (zmq_bind(socket.get(), to.c_str()) == 0) return {};
  return Unexpected(zmq_error("zmq_bind"));
}
Result<void> connect_to(const Socket& socket, const std::string& to) {
  if (zmq_connect(socket.get(), to.c_str()) == 0) return {};
  return Unexpected(zmq_error("zmq_connect"));
}

class ZmqRequester final : public Requester {
 public:
  ZmqRequester(Ends ends, Case what) : ends_(std::move(ends)), what_(std::move(what)) {}

  Result<void> send(const Payload& payload) override {
    std::size_t left = what_.segments.size();
    for (const ConstByteSpan part : parts_of(what_, payload.bytes())) {
      Message message(part);
      const int flags = --left > 0 ? ZMQ_SNDMORE : 0;
      if (auto sent = bench::send(ends_.out.get(), message, flags); !sent) return sent;
    }
    return {};
  }

  Result<std::uint64_t> receive() override {
    Message message;
    auto come = bench::receive(ends_.source(), message, Poll(what_));
    if (!come) return Unexpected(come.error());
    return checksum(message.bytes());  // of one word: that word
  }

 private:
  Ends ends_;
  Case what_;
};

class ZmqResponder final : public Responder {
 public:
  ZmqResponder(Ends ends, Case what) : ends_(std::move(ends)), what_(std::move(what)) {}

  Result<std::uint64_t> receive() override {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < what_.segments.size(); ++i) {
      Message part;
      if (auto come = bench::receive(ends_.source(), part, Poll(what_)); !come)
        return Unexpected(come.error());
      sum += checksum(part.bytes());
    }
    return sum;
  }

  Result<void> reply(std::uint64_t sum) override {
    if (zmq_send(ends_.out.get(), &sum, sizeof sum, 0) == sizeof sum) return {};
    return Unexpected(zmq_error("zmq_send"));
  }

 private:
  Ends ends_;
  Case what_;
};

Result<std::unique_ptr<Requester>> open_requester(const Assignment& told) {
  Ends ends;
  const bool is_pair = told.what.readers == 1;
  ends.out = make_socket(ends.context, is_pair ? ZMQ_PAIR : ZMQ_XPUB);
  auto ready = bind_to(ends.out, address(told, "requests"));
  if (!is_pair && ready) {
    for (const int option : {ZMQ_XPUB_NODROP, ZMQ_XPUB_VERBOSE}) set(ends.out.get(), option, 1);
    ends.in = make_socket(ends.context, ZMQ_PULL);
    ready = bind_to(ends.in, address(told, "replies"));
  }
  for (const int socket : told.sockets)
    if (ready) ready = signal_over(socket);
  for (unsigned reader = 0; ready && !is_pair && reader < told.what.readers; ++reader) {
    Message subscription;
    ready = receive(ends.out.get(), subscription, Poll(told.what));
  }
  if (!ready) return Unexpected(ready.error());
  return std::make_unique<ZmqRequester>(std::move(ends), told.what);
}

Result<std::unique_ptr<Responder>> open_responder(const Assignment& told) {
  Ends ends;
  const bool is_pair = told.what.readers == 1;
  auto ready = await_over(told.sockets.front());
  ends.out = make_socket(ends.context, is_pair ? ZMQ_PAIR : ZMQ_PUSH);
  if (ready) ready = connect_to(ends.out, address(told, is_pair ? "requests" : "replies"));
  if (!is_pair && ready) {
    ends.in = make_socket(ends.context, ZMQ_SUB);
    zmq_setsockopt(ends.in.get(), ZMQ_SUBSCRIBE, "", 0);
    ready = connect_to(ends.in, address(told, "requests"));
  }
  if (!ready) return Unexpected(ready.error());
  return std::make_unique<ZmqResponder>(std::move(ends), told.what);
}

Result<std::string> version() {
  int major = 0, minor = 0, patch = 0;
  zmq_version(&major, &minor, &patch);
  return version_text(
      "ZeroMQ " + std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch),
      reinterpret_cast<const void*>(&zmq_version));
}

}  // namespace
}  // namespace gantry::bench

int main(int argc, char** argv) {
  using namespace gantry::bench;
  return run_peer(argc, argv, {open_requester, open_responder, version});
}
