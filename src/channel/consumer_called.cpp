// The handshake, packet by packet; and a consumer whose producer came to it: one of an inbox's
// many.
#include <bit>

#include "base/event.hpp"
#include "channel/consumer.hpp"
#include "channel/incoming.hpp"

namespace gantry {

Result<void> Consumer::Impl::ask_to_join(int socket) {
  producer_memory_ = Region();  // of an attempt that failed
  return send_hello(socket, Purpose::join);
}

// The welcome; then the slabs there are already, see AnnouncedSlabs::introduce(); then "ready".
Result<bool> Consumer::Impl::hear(int socket, Received& received) {
  if (producer_memory_.data() == nullptr) {
    GANTRY_TRY(accept_welcome(socket, received));
    return false;
  }
  if (received.closed || received.packet.kind != PacketKind::slab)
    return expect(std::move(received), PacketKind::ready, 0).map([](const auto&) { return true; });
  GANTRY_TRY(slabs_.learn(received));
  return false;
}

Result<void> Consumer::Impl::accept_welcome(int socket, Received& received) {
  GANTRY_ASSIGN(Received welcome, expect(std::move(received), PacketKind::welcome, 4));
  GANTRY_ASSIGN(producer_memory_,
                Region::import(welcome.fds[0].release(), shared_size(sizeof(ProducerPage))));
  GANTRY_ASSIGN(ring_memory_,
                Region::import(welcome.fds[1].release(), shared_size(sizeof(RingPage))));
  producer_event_ = std::move(welcome.fds[2]);
  GANTRY_TRY(check_event(producer_event_.get()));
  GANTRY_TRY(check_pages());
  GANTRY_TRY(make_own_page());
  WirePacket joining;
  joining.kind = PacketKind::join;
  joining.slots = options_.depth;
  joining.held = static_cast<std::uint32_t>(options_.when_slow);
  const std::array<int, 3> fds{memory_.descriptor(), event_.get(), metrics_.descriptor()};
  return send_wire(socket, joining, fds);
}

Result<void> Consumer::Impl::settle(Fd socket) {
  GANTRY_ASSIGN(const PeerIdentity peer, peer_of(socket.get()));
  producer_pid_ = peer.pid;
  pidfd_ = peer_pidfd(socket.get(), peer.pid);
  socket_ = std::move(socket);
  const std::size_t cells = ring_page().cells;  // read once: the producer can write it any time
  if (!std::has_single_bit(cells) || cells > kCells)
    return fail(Code::peer_misbehaved, fmt::format("a ring of {} cells", cells));
  reader_.emplace(std::span(ring_page().ring).first(cells));
  report_after_ = static_cast<unsigned>(std::max<std::size_t>(cells / 4, 1));
  metrics_.meter()->connected();
  return {};
}

Result<std::shared_ptr<Consumer::Impl>> Consumer::Impl::make_called(std::string_view name,
                                                                    const ChannelOptions& options) {
  ChannelOptions own = options;
  own.metrics_descriptor = -1;  // that one is the inbox's
  GANTRY_ASSIGN(auto impl, prepare(name, own));
  impl->is_called_ = true;
  return impl;
}

Result<std::optional<Message>> Consumer::Impl::try_receive() {
  const std::uint64_t asked = read_ticks();
  if (next_is_small() && !broken_) {
    GANTRY_ASSIGN(auto message, take_small(asked, false));
    return message;
  }
  GANTRY_ASSIGN(const bool whole, look(Wanted::whole));
  if (!whole) {
    report_taken();
    return std::nullopt;
  }
  GANTRY_ASSIGN(auto message, hand_out(asked));
  return message;
}

void Consumer::Impl::wake_up() noexcept {
  disarm();
  std::array<pollfd, 3> entries{pollfd{event_.get(), POLLIN, 0}, pollfd{socket_.get(), POLLIN, 0},
                                pollfd{pidfd_.get(), POLLIN, 0}};
  if (::poll(entries.data(), entries.size(), 0) > 0) examine_peer(entries);
}

}  // namespace gantry
