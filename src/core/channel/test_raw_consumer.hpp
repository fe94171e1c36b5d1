#pragma once  // channel/test_raw_consumer.hpp: a consumer that joins by hand.

#include <gtest/gtest.h>

#include <array>
#include <new>

#include "core/base/wake.hpp"
#include "core/channel/test_support.hpp"
#include "core/channel/wire/format.hpp"
#include "core/channel/wire/metrics_page.hpp"
#include "core/channel/wire/protocol.hpp"

namespace gantry::test {

inline void make_consumer_page(const Region& memory) {
  auto* page = new (memory.data()) ConsumerPage{};
  page->magic = kConsumerMagic;
  page->version = kFormatVersion;
}

/// A test writes what it wants into the consumer's page; nobody sleeps on the wake-up socket.
struct Impostor {
  ConsumerPage& page() { return *reinterpret_cast<ConsumerPage*>(memory.data()); }
  Fd socket;
  Region memory;
  // and a copy of the wake-up sender that the producer was given
  WakeReceiver::Made wake_receiver{};
};

/// Does the rest of the handshake, after the welcome.
inline Impostor impersonate(Fd socket, SlowConsumer policy = SlowConsumer::block,
                            unsigned depth = 0) {
  Impostor impostor{std::move(socket), *Region::create(shared_size(sizeof(ConsumerPage)), "x"),
                    *WakeReceiver::make()};
  const auto metrics = *MetricsMaker::make_own();
  make_consumer_page(impostor.memory);
  WirePacket packet;
  packet.kind = PacketKind::join;
  packet.held = static_cast<std::uint32_t>(policy);
  packet.slots = depth;
  const std::array<int, 3> fds{impostor.memory.descriptor(),
                               impostor.wake_receiver.wake_sender.descriptor(),
                               metrics.descriptor()};
  EXPECT_TRUE(send_wire(impostor.socket.get(), packet, fds));
  auto answer = receive_wire(impostor.socket.get(), soon());
  while (answer &&
         (answer->packet.kind == PacketKind::slab || answer->packet.kind == PacketKind::slabs))
    answer = receive_wire(impostor.socket.get(), soon());
  EXPECT_TRUE(answer && expect(std::move(*answer), PacketKind::ready, 0));
  return impostor;
}

/// A consumer that joined by hand, and what its producer gave it.
struct Joined {
  [[nodiscard]] std::uint32_t producers_wait_flag() const {
    return reinterpret_cast<const ProducerPage*>(producer_page.data())->producer_sleeps.read();
  }
  Region producer_page;
  Fd wake_sender;  // it wakes the producer
  Impostor impostor;
};

/// Does the whole handshake, with the producer of `frames`.
inline Joined join_by_hand(const std::string& directory,
                           SlowConsumer policy = SlowConsumer::block) {
  Fd socket = *connect_to(directory, "frames.sock");
  EXPECT_TRUE(send_hello(socket.get(), Purpose::join));
  auto welcome = expect(*receive_wire(socket.get(), soon()), PacketKind::welcome, 3);
  EXPECT_TRUE(welcome);
  Region page = *Region::import(welcome->fds[0].release(), shared_size(sizeof(ProducerPage)));
  return {std::move(page), std::move(welcome->fds[2]), impersonate(std::move(socket), policy)};
}

}  // namespace gantry::test
