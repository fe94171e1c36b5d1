// nng: a pair socket over ipc: for each reader, or over tcp: for one. What is sent is copied into
// the library's message; read where the library received it. Both ends try again and again rather
// than sleep.

#include <nng/nng.h>
#include <nng/protocol/pair0/pair.h>

#include <cstring>

#include "peer.hpp"

namespace gantry::bench {
namespace {

Result<void> checked(const char* what, int status) {
  if (status == 0) return {};
  return Unexpected(peer_error(what, nng_strerror(status)));
}

/// A pair socket; closed when dropped.
class PairSocket {
 public:
  static Result<PairSocket> open() {
    nng_socket socket{};
    if (auto opened = checked("nng_pair0_open", nng_pair0_open(&socket)); !opened)
      return Unexpected(opened.error());
    nng_socket_set_size(socket, NNG_OPT_RECVMAXSZ, 0);  // no limit
    nng_socket_set_int(socket, NNG_OPT_SENDBUF, 8);
    nng_socket_set_int(socket, NNG_OPT_RECVBUF, 8);
    return PairSocket(socket);
  }
  PairSocket(PairSocket&& other) noexcept
      : socket_(std::exchange(other.socket_, nng_socket NNG_SOCKET_INITIALIZER)) {}
  PairSocket& operator=(PairSocket&&) = delete;
  ~PairSocket() {
    if (nng_socket_id(socket_) > 0) nng_close(socket_);
  }

  Result<void> listen(const std::string& at) {
    return checked("nng_listen", nng_listen(socket_, at.c_str(), nullptr, 0));
  }
  Result<void> dial(const std::string& to) {
    return checked("nng_dial", nng_dial(socket_, to.c_str(), nullptr, 0));
  }

  /// The parts as one message.
  Result<void> send(std::span<const ConstByteSpan> parts, Bytes size) {
    nng_msg* message = nullptr;
    if (auto made = checked("nng_msg_alloc", nng_msg_alloc(&message, size)); !made) return made;
    auto* to = static_cast<std::byte*>(nng_msg_body(message));
    for (const ConstByteSpan part : parts) {
      std::memcpy(to, part.data(), part.size());
      to += part.size();
    }
    const auto sent = checked("nng_sendmsg", nng_sendmsg(socket_, message, 0));
    if (!sent) nng_msg_free(message);
    return sent;
  }

  /// The sum of a message.
  Result<std::uint64_t> receive(const Poll& poll) {
    nng_msg* message = nullptr;
    int status = NNG_EAGAIN;
    while ((status = nng_recvmsg(socket_, &message, NNG_FLAG_NONBLOCK)) == NNG_EAGAIN) poll.again();
    if (auto come = checked("nng_recvmsg", status); !come) return Unexpected(come.error());
    const std::uint64_t sum =
        checksum({static_cast<const std::byte*>(nng_msg_body(message)), nng_msg_len(message)});
    nng_msg_free(message);
    return sum;
  }

 private:
  explicit PairSocket(nng_socket socket) : socket_(socket) {}
  nng_socket socket_;
};

class NngRequester final : public Requester {
 public:
  NngRequester(std::vector<PairSocket> sockets, Case what)
      : sockets_(std::move(sockets)), what_(std::move(what)) {}

  Result<void> send(const Payload& payload) override {
    const auto parts = parts_of(what_, payload.bytes());
    for (PairSocket& socket : sockets_)
      if (auto sent = socket.send(parts, what_.bytes); !sent) return sent;
    return {};
  }
  Result<std::uint64_t> receive() override {
    PairSocket& from = sockets_[reader_];
    reader_ = (reader_ + 1) % sockets_.size();
    return from.receive(Poll(what_));  // the sum of one word is that word
  }

 private:
  std::vector<PairSocket> sockets_;
  Case what_;
  std::size_t reader_ = 0;  // whose answer is next
};

class NngResponder final : public Responder {
 public:
  NngResponder(PairSocket socket, const Case& what) : socket_(std::move(socket)), poll_(what) {}

  Result<std::uint64_t> receive() override { return socket_.receive(poll_); }
  Result<void> reply(std::uint64_t sum) override {
    const ConstByteSpan part = std::as_bytes(std::span(&sum, 1));
    return socket_.send({&part, 1}, part.size());
  }

 private:
  PairSocket socket_;
  Poll poll_;
};

/// A variant is the address to meet at: of TCP, between two hosts, with one reader.
std::string address(const Assignment& told, int reader) {
  if (!told.variant.empty()) return told.variant;
  return "ipc://" + told.what.directory + "/nng-" + std::to_string(reader);
}

Result<std::unique_ptr<Requester>> open_requester(const Assignment& told) {
  std::vector<PairSocket> sockets;
  for (const int meeting : told.sockets) {
    auto socket = PairSocket::open();
    if (!socket) return Unexpected(socket.error());
    auto ready = socket->listen(address(told, static_cast<int>(sockets.size())));
    if (ready) ready = signal_over(meeting);
    if (!ready) return Unexpected(ready.error());
    sockets.push_back(std::move(*socket));
  }
  return std::make_unique<NngRequester>(std::move(sockets), told.what);
}

Result<std::unique_ptr<Responder>> open_responder(const Assignment& told) {
  auto socket = PairSocket::open();
  if (!socket) return Unexpected(socket.error());
  auto ready = await_over(told.sockets.front());
  if (ready) ready = socket->dial(address(told, told.post.reader));
  if (!ready) return Unexpected(ready.error());
  return std::make_unique<NngResponder>(std::move(*socket), told.what);
}

Result<std::string> version() {
  return version_text(std::string("nng ") + nng_version(),
                      reinterpret_cast<const void*>(&nng_version));
}

}  // namespace
}  // namespace gantry::bench

int main(int argc, char** argv) {
  using namespace gantry::bench;
  return run_peer(argc, argv, {open_requester, open_responder, version});
}
