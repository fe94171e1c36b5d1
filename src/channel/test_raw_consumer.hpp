#pragma once  // channel/test_raw_consumer.hpp: a consumer that joins by hand.

#include <gtest/gtest.h>

#include <array>
#include <new>

#include "base/bell.hpp"
#include "channel/format.hpp"
#include "channel/metrics_page.hpp"
#include "channel/protocol.hpp"
#include "channel/test_support.hpp"

namespace gantry::test {

inline void make_consumer_page(const Region& memory) {
  auto* page = new (memory.data()) ConsumerPage{};
  page->magic = kConsumerMagic;
  page->version = kFormatVersion;
}

/// What a test writes into the consumer's page is up to it; nobody sleeps on the bell.
struct Impostor {
  ConsumerPage& page() { return *reinterpret_cast<ConsumerPage*>(memory.data()); }
  Fd socket;
  Region memory;
  Bell::Made bell{};  // and a copy of the pull that the producer was given
};

/// The rest of the handshake, from behind the welcome on.
inline Impostor impersonate(Fd socket, SlowReader policy = SlowReader::block, unsigned depth = 0) {
  Impostor impostor{std::move(socket), *Region::create(shared_size(sizeof(ConsumerPage)), "x"),
                    *Bell::make()};
  const auto metrics = *MetricsMaker::make_own();
  make_consumer_page(impostor.memory);
  WirePacket packet;
  packet.kind = PacketKind::join;
  packet.held = static_cast<std::uint32_t>(policy);
  packet.slots = depth;
  const std::array<int, 3> fds{impostor.memory.descriptor(), impostor.bell.pull.descriptor(),
                               metrics.descriptor()};
  EXPECT_TRUE(send_wire(impostor.socket.get(), packet, fds));
  auto answer = receive_wire(impostor.socket.get(), soon());
  while (answer && answer->packet.kind == PacketKind::slab)
    answer = receive_wire(impostor.socket.get(), soon());
  EXPECT_TRUE(answer && expect(std::move(*answer), PacketKind::ready, 0));
  return impostor;
}

}  // namespace gantry::test
