// What TCP itself allows: the kernel's copies out of the payload and into one reused buffer.

#include <fcntl.h>
#include <sys/uio.h>

#include <array>

#include "../support/system/cpus.hpp"
#include "subjects.hpp"

namespace gantry::bench {
namespace {

/// Says what comes. Of a fixed size: whoever receives it knows where the payload goes.
struct Header {
  std::uint64_t number = 0;
  std::uint64_t bytes = 0;
};

template <class Word>
ConstByteSpan bytes_of(const Word& word) {
  return std::as_bytes(std::span(&word, 1));
}

template <class Word>
Result<Word> read_word(const Descriptor& socket) {
  Word word{};
  if (auto got = read_all(socket.get(), std::as_writable_bytes(std::span(&word, 1))); !got)
    return Unexpected(got.error());
  return word;
}

class SocketRequester final : public Requester {
 public:
  SocketRequester(Descriptor socket, bool has_header)
      : socket_(std::move(socket)), has_header_(has_header) {}

  Result<void> send(const Payload& payload) override {
    return has_header_ ? send_with_header(payload.bytes())
                       : write_all(socket_.get(), payload.bytes());
  }
  Result<std::uint64_t> receive() override { return read_word<std::uint64_t>(socket_); }

 private:
  /// As one piece, so that a small message is one packet.
  Result<void> send_with_header(ConstByteSpan payload) {
    Header header{++number_, payload.size()};
    const std::array<iovec, 2> pieces{
        iovec{&header, sizeof header},
        iovec{const_cast<std::byte*>(payload.data()), payload.size()}};
    const auto written = ::writev(socket_.get(), pieces.data(), pieces.size());
    if (written < static_cast<ssize_t>(sizeof header))
      return Unexpected(system_error("a header"));  // a socket that blocks takes that much at once
    return write_all(socket_.get(), payload.subspan(static_cast<Bytes>(written) - sizeof header));
  }

  Descriptor socket_;
  bool has_header_;
  std::uint64_t number_ = 0;
};

class SocketResponder final : public Responder {
 public:
  SocketResponder(Descriptor socket, Bytes bytes, bool has_header)
      : socket_(std::move(socket)), place_(bytes), has_header_(has_header) {}

  Result<std::uint64_t> receive() override {
    if (has_header_) {
      const auto header = read_word<Header>(socket_);
      if (!header) return Unexpected(header.error());
      if (header->number != ++number_ || header->bytes != place_.bytes().size())
        return Unexpected({Code::peer_misbehaved, "a header of no message", ""});
    }
    if (auto got = read_all(socket_.get(), place_.bytes()); !got) return Unexpected(got.error());
    return checksum(place_.bytes());
  }
  Result<void> reply(std::uint64_t sum) override { return write_all(socket_.get(), bytes_of(sum)); }

 private:
  Descriptor socket_;
  Buffer place_;
  bool has_header_;
  std::uint64_t number_ = 0;
};

class TcpSocket final : public Subject {
 public:
  TcpSocket(TcpPair pair, Bytes bytes, bool has_header)
      : pair_(std::move(pair)), bytes_(bytes), has_header_(has_header) {}

  // Each end keeps its own descriptor only, so that the other one's death is an end of file.
  Result<std::unique_ptr<Requester>> open_requester() override {
    pair_.answering.reset();
    return std::make_unique<SocketRequester>(std::move(pair_.asking), has_header_);
  }
  Result<std::unique_ptr<Responder>> open_responder(int) override {
    pair_.asking.reset();
    return std::make_unique<SocketResponder>(std::move(pair_.answering), bytes_, has_header_);
  }

 private:
  TcpPair pair_;
  Bytes bytes_;
  bool has_header_;
};

Result<std::unique_ptr<Subject>> make_blocking(const Network& network, const Case& what) {
  auto pair = network.connect();
  if (!pair) return Unexpected(pair.error());
  return std::make_unique<TcpSocket>(std::move(*pair), what.bytes, true);
}

/// Where both ends have to share a CPU, they sleep.
Result<std::unique_ptr<Subject>> make_polling(const Network& network, const Case& what) {
  auto pair = network.connect();
  if (!pair) return Unexpected(pair.error());
  const auto cpus = pick_cpus();
  if (cpus && !cpus->shared())
    for (const Descriptor* end : {&pair->asking, &pair->answering})
      ::fcntl(end->get(), F_SETFL, O_NONBLOCK);
  return std::make_unique<TcpSocket>(std::move(*pair), what.bytes, false);
}

}  // namespace

SubjectKind recv_into_place(const Network& network) {
  return {.name = kIntoPlaceName,
          .make = [&network](const Case& what) { return make_blocking(network, what); },
          .most_in_flight = kLinkInFlight};
}

SubjectKind tcp_ping_pong(const Network& network) {
  constexpr Bytes kPing = 64;
  return {.name = kTcpPingPongName,
          .make = [&network](const Case& what) { return make_polling(network, what); },
          .most_bytes = kPing};
}

}  // namespace gantry::bench
