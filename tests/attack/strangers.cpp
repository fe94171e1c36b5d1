// Who connects and is not admitted, or never asks to be.
#include "attack/strangers.hpp"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cstring>
#include <optional>
#include <random>
#include <vector>

#include "attack/attackers.hpp"
#include "core/channel/wire/protocol.hpp"
#include "net/remote/bridge/hand_over.hpp"

namespace gantry::attack {
namespace {

/// A connected TCP socket whose close(2) waits for data that nobody reads.
class Lingering {
 public:
  Lingering() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const at = reinterpret_cast<sockaddr*>(&address);
    if (::bind(listener_.get(), at, size) != 0 || ::listen(listener_.get(), 1) != 0 ||
        ::getsockname(listener_.get(), at, &size) != 0)
      return;
    socket_ = Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::connect(socket_.get(), at, size) != 0) return;
    peer_ = Fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    const linger wait{1, 30};
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_LINGER, &wait, sizeof wait);
    const std::vector<char> bytes(64 << 10);
    while (::send(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT) > 0) continue;
  }
  [[nodiscard]] int descriptor() const noexcept { return socket_.get(); }
  void drop() { socket_ = Fd(); }

 private:
  Fd listener_, socket_, peer_;
};

template <std::size_t kCount>
void say_nothing(const std::string& directory) {
  std::vector<Fd> sockets(kCount);
  for (;;) {
    for (Fd& socket : sockets) {
      char byte = 0;
      if (socket && ::recv(socket.get(), &byte, 1, MSG_DONTWAIT) < 0) continue;
      socket = Fd();
      if (auto connected = connect_to(directory, "frames.sock")) socket = std::move(*connected);
    }
    note_blow();
    ::poll(nullptr, 0, 1);
  }
}

}  // namespace

void say_nothing_16(const std::string& directory) {
  say_nothing<16>(directory);
}
void say_nothing_64(const std::string& directory) {
  say_nothing<64>(directory);
}

void send_garbage(const std::string& directory) {
  std::mt19937_64 random(1);
  std::array<std::byte, 4096> bytes{};
  for (;;) {
    const auto socket = connect_to(directory, "frames.sock");
    if (!socket) continue;
    note_blow();
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    for (unsigned i = 0; i < 4; ++i)
      static_cast<void>(
          send_packet(socket->get(), std::span(bytes).first(1 + random() % bytes.size())));
  }
}

void send_lingering_sockets(const std::string& directory) {
  std::vector<Lingering> sent;
  for (;;) {
    const auto socket = connect_to(directory, "frames.sock");
    if (!socket) continue;
    Lingering& one = sent.emplace_back();
    const std::array<int, 1> fds{one.descriptor()};
    WirePacket packet;
    packet.kind = PacketKind::hello;
    packet.purpose = Purpose::join;
    static_cast<void>(send_wire(socket->get(), packet, fds));
    note_blow();
    one.drop();  // the copy in the packet is the last one
    if (sent.size() > 200) sent.clear();
    ::poll(nullptr, 0, 2);
  }
}

void hand_over_nonsense(const std::string& directory) {
  HandOffer offer;
  offer.request.channel = "frames";
  offer.stall_limit = std::chrono::milliseconds(100);
  std::optional<Lingering> given;  // one at a time: a caller has a reader's place
  std::array<Fd, 24> silent;       // more than a name has places for
  for (std::uint64_t i = 0;; ++i) {
    auto line = connect_to(directory, "frames.sock");
    if (!line || !send_hello(line->get(), Purpose::hand)) continue;
    note_blow();
    std::memcpy(offer.session.data(), &i, sizeof i);
    if (i % 4 == 0) {
      silent[i / 4 % silent.size()] = std::move(*line);
    } else if (i % 4 == 1) {
      static_cast<void>(send_packet(line->get(), std::as_bytes(std::span(&i, 1))));
    } else if (given.reset(); send_packet(line->get(), offer.encode())) {
      std::array<std::byte, RemoteAnswer::kMostBytes> answer{};
      static_cast<void>(
          receive_packet(line->get(), answer, Deadline::after(std::chrono::milliseconds(20))));
      const std::byte said{1};
      const std::array<int, 1> fds{given.emplace().descriptor()};
      static_cast<void>(send_packet(line->get(), {&said, 1}, fds));
    }
    ::poll(nullptr, 0, 1);
  }
}

void connect_and_close(const std::string& directory) {
  for (;; note_blow()) static_cast<void>(connect_to(directory, "frames.sock"));
}

}  // namespace gantry::attack
