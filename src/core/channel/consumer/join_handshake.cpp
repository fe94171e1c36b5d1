#include "core/channel/consumer/join_handshake.hpp"

#include <new>

#include "core/channel/naming/access.hpp"
#include "core/channel/naming/rendezvous.hpp"

namespace gantry {
namespace {

Result<Region> make_consumer_page(const ConsumerOptions& options) {
  GANTRY_ASSIGN(Region memory,
                Region::create(shared_size(sizeof(ConsumerPage)), "gantry-consumer"));
  auto* page = new (memory.data()) ConsumerPage{};
  page->magic = kConsumerMagic;
  page->version = kFormatVersion;
  page->who = encode_name(name_of(options));
  return memory;
}

}  // namespace

Result<void> JoinHandshake::ask(int send_fd) {
  payloads_.begin();
  core_.producer_memory = Region();
  GANTRY_TRY(admit_peer(send_fd, core_.options.access));
  GANTRY_TRY(send_hello(send_fd, Purpose::join, wire_token(core_.options.access)));
  GANTRY_STEP(hello_said);
  return {};
}

// The welcome; then the slabs there are already, see AnnouncedSlabs::introduce(); then "ready".
Result<bool> JoinHandshake::hear(int send_fd, Received& received) {
  if (core_.producer_memory.data() == nullptr) {
    GANTRY_TRY(accept_welcome(send_fd, received));
    return false;
  }
  if (!received.closed &&
      (received.packet.kind == PacketKind::slab || received.packet.kind == PacketKind::slabs)) {
    GANTRY_TRY(payloads_.learn(received));
    return false;
  }
  GANTRY_ASSIGN(const Received ready, expect(std::move(received), PacketKind::ready, 0));
  GANTRY_STEP(ready_heard);
  return true;
}

Result<void> JoinHandshake::accept_welcome(int send_fd, Received& received) {
  GANTRY_ASSIGN(Received welcome, expect(std::move(received), PacketKind::welcome, 3));
  GANTRY_STEP(welcome_heard);
  GANTRY_ASSIGN(core_.producer_memory,
                Region::import(welcome.fds[0].release(), shared_size(sizeof(ProducerPage))));
  GANTRY_ASSIGN(core_.ring_memory,
                Region::import(welcome.fds[1].release(), shared_size(sizeof(RingPage))));
  GANTRY_ASSIGN(WakeSender wakes_producer, WakeSender::adopt(std::move(welcome.fds[2])));
  core_.producer_wake = std::make_shared<const WakeSender>(std::move(wakes_producer));
  core_.trace.set_channel(trace::channel_of(core_.producer_memory.descriptor()));
  core_.producer_memory.close_descriptor();
  core_.ring_memory.close_descriptor();
  GANTRY_TRY(check_pages());
  GANTRY_ASSIGN(core_.own_memory, make_consumer_page(core_.options));
  WirePacket joining;
  joining.kind = PacketKind::join;
  joining.slots = core_.options.depth;
  joining.held = static_cast<std::uint32_t>(core_.options.when_slow);
  GANTRY_ASSIGN(const WakeSender wakes_us, waiter_.make_wake());
  const std::array<int, 3> fds{core_.own_memory.descriptor(), wakes_us.descriptor(),
                               core_.metrics.descriptor()};
  GANTRY_TRY(send_wire(send_fd, joining, fds));
  GANTRY_STEP(join_said);
  return {};
}

Result<void> JoinHandshake::check_pages() const {
  const ProducerPage& page = core_.page();
  const RingPage& ring = core_.ring_page();
  if (page.magic != kProducerMagic || page.version != kFormatVersion || ring.magic != kRingMagic ||
      ring.version != kFormatVersion)
    return fail(
        Code::peer_misbehaved,
        fmt::format("the producer's pages are of another format: versions {} and {}, magics {:#x} "
                    "and {:#x}; version {}, {:#x} and {:#x} are read here",
                    page.version, ring.version, page.magic, ring.magic, kFormatVersion,
                    kProducerMagic, kRingMagic));
  return {};
}

}  // namespace gantry
