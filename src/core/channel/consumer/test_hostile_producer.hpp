#pragma once  // channel/consumer/test_hostile_producer.hpp: plays a producer by hand, to whom a
              // consumer comes.

#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <functional>
#include <latch>
#include <new>
#include <thread>

#include "core/base/os/memfd.hpp"
#include "core/base/test_wakes.hpp"
#include "core/base/wake.hpp"
#include "core/channel/consumer/received_slabs.hpp"
#include "core/channel/naming/rendezvous.hpp"
#include "core/channel/test_support.hpp"
#include "core/channel/wire/format.hpp"
#include "core/channel/wire/protocol.hpp"

// A peer that breaks every rule it can: it costs itself the channel and nobody anything else.
namespace gantry::test {

/// Listens under the channel's name and plays a producer by hand.
class HostileProducer : public testing::Test {
 protected:
  HostileProducer() {
    page_->magic = kProducerMagic;
    page_->version = kFormatVersion;
    page_->slots = 8;
    ring_->magic = kRingMagic;
    ring_->version = kFormatVersion;
    ring_->cells = 16;
  }
  /// Serves one consumer, then calls `mischief`, which may wait for `first_held_`.
  template <class Mischief>
  Result<Message> receive_from(Mischief mischief, std::optional<Message>* hold_first = nullptr) {
    std::thread serving([&] {
      const Fd socket = accept_one();
      socket_ = socket.get();
      const auto hello = receive_wire(socket.get(), soon());
      const std::array<int, 3> fds{memory_.descriptor(), ring_memory_.descriptor(), pull_};
      send(PacketKind::welcome, fds);
      const auto join = receive_wire(socket.get(), soon());
      if (!join || join->closed) return;
      send(PacketKind::ready);
      mischief();
      const auto end = receive_wire(socket.get(), soon());  // until the consumer leaves
    });
    Result<Message> message = tl::unexpected(Error{});
    {
      auto in = Consumer::open("frames", options_, soon());
      if (hold_first != nullptr) {
        if (in)
          if (auto first = in->receive(soon())) *hold_first = std::move(*first);
        first_held_.count_down();
      }
      if (in)
        message = in->receive(soon());
      else
        message = tl::unexpected(in.error());
    }
    serving.join();
    return message;
  }
  /// The consumer ends by the mischief, in these words.
  void expect_refused(std::string_view words, std::function<void()> mischief) {
    const auto message = receive_from(std::move(mischief));
    ASSERT_FALSE(message) << words;
    EXPECT_EQ(message.error().code, Code::peer_misbehaved) << message.error().message;
    EXPECT_THAT(message.error().message, testing::HasSubstr(words));
  }
  Code code_from(std::function<void()> mischief) {
    const auto message = receive_from(std::move(mischief));
    return message ? Code::closed : message.error().code;
  }
  void send(PacketKind kind, std::span<const int> fds = {}, std::uint32_t slab = 0,
            Bytes bytes = 0) {
    WirePacket packet;
    packet.kind = kind;
    packet.slab = slab;
    packet.bytes = bytes;
    EXPECT_TRUE(send_wire(socket_, packet, fds));
  }
  void send_slab(std::uint32_t slab, const Region& region, Bytes bytes) {
    const int descriptor = region.descriptor();
    send(PacketKind::slab, std::span(&descriptor, 1), slab, bytes);
  }
  void publish(const MessageRecord& record) {
    ring_->ring[1].record = record;
    ring_->ring[1].sequence = 1;
  }
  static MessageRecord record(std::uint32_t slab, std::uint16_t slot, Bytes offset, Bytes bytes,
                              std::uint8_t kind = 1, std::uint8_t count = 1) {
    MessageRecord made{};
    made.header = {
        .number = 1, .ticks = 0, .user = 0, .type = 0, .slot = slot, .kind = kind, .count = count};
    const Place place{
        .offset = offset, .bytes = bytes, .slab = slab, .chunk_bytes = 0, .window_bytes = 0};
    std::memcpy(made.body.data(), &place, sizeof place);
    return made;
  }
  static MessageRecord beside(std::uint32_t place, std::uint32_t bytes, std::uint8_t count = 0,
                              const BesideTensor& tensor = {}) {
    MessageRecord made = record(0, kNoSlot, 0, 0, 3, count);
    const BesidePlace at{place, bytes};
    std::memcpy(made.body.data(), &at, sizeof at);
    std::memcpy(made.body.data() + sizeof at, &tensor, sizeof tensor);
    return made;
  }

  Fd accept_one() {
    EXPECT_TRUE(*wait_readable(claim_.listener(), soon()));
    Fd socket(::accept4(claim_.listener(), nullptr, nullptr, SOCK_CLOEXEC));
    accept_rights(socket.get(), true);
    return socket;
  }

  test::ScratchDirectory directory_;
  ConsumerOptions options_ = [this] {
    auto options = consumer_options(options_in(directory_));
    options.spin = std::chrono::seconds(30);  // sees the page change without being rung
    return options;
  }();
  Claim claim_ = *Claim::take(directory_.path(), "frames");
  Region memory_ = *Region::create(shared_size(sizeof(ProducerPage)), "x");
  Region ring_memory_ = *Region::create(shared_size(sizeof(RingPage)), "x");
  Region slab_ = *Region::create(8192, "x");
  WakeReceiver::Made wake_receiver_ = *WakeReceiver::make();
  int pull_ = wake_receiver_.wake_sender.descriptor();
  ProducerPage* page_ = new (memory_.data()) ProducerPage{};
  RingPage* ring_ = new (ring_memory_.data()) RingPage{};
  int socket_ = -1;
  std::latch first_held_{1};  // the consumer has what receive_from() was told to hold
};

}  // namespace gantry::test
