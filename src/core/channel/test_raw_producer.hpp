#pragma once  // channel/test_raw_producer.hpp: a producer that connects by hand.

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <new>

#include "core/base/wake.hpp"
#include "core/channel/test_support.hpp"
#include "core/channel/wire/connection.hpp"
#include "core/channel/wire/format.hpp"
#include "core/channel/wire/protocol.hpp"

namespace gantry::test {

/// Says and publishes whatever a test wants. One session.
class RawProducer {
 public:
  static constexpr std::uint32_t kCellsUsed = 16;

  explicit RawProducer(std::uint32_t cells = kCellsUsed) : cells_(cells) {
    page_->magic = kProducerMagic;
    page_->version = kFormatVersion;
    page_->slots = 8;
    ring_->magic = kRingMagic;
    ring_->version = kFormatVersion;
    ring_->cells = cells_;
  }
  static void say(const Fd& socket, PacketKind kind, std::span<const int> fds = {},
                  std::uint32_t slab = 0, Bytes bytes = 0) {
    WirePacket packet;
    packet.kind = kind;
    packet.purpose = Purpose::deliver;
    packet.slab = slab;
    packet.bytes = bytes;
    EXPECT_TRUE(send_wire(socket.get(), packet, fds));
  }
  static void greet(const Fd& socket) { greet(socket, socket); }
  static void greet(const Fd& send_fd, const Fd& receive_fd) {
    say(send_fd, PacketKind::hello);
    const auto hello = receive_wire(receive_fd.get(), soon());
    EXPECT_TRUE(hello && !hello->closed && hello->packet.purpose == Purpose::join);
  }
  /// Does the whole handshake.
  void join(const Fd& socket) {
    greet(socket);
    take_in(socket);
  }
  /// The same over a control connection that was given.
  void join_over(const Fd& line) {
    const ControlPair own = *make_control_pair();
    EXPECT_TRUE(send_control_end(line.get(), own.theirs.get()));
    greet(line, own.ours);
    take_in(line, own.ours);
  }
  /// Continues after the peer's hello was heard.
  void take_in(const Fd& socket) { take_in(socket, socket); }
  void take_in(const Fd& socket, const Fd& receive_fd) {
    accept_rights(receive_fd.get(), true);
    say(socket, PacketKind::welcome, welcome_);
    auto joined = receive_wire(receive_fd.get(), soon());
    ASSERT_TRUE(joined && joined->packet.kind == PacketKind::join && joined->fds.size() == 3);
    consumer_ = *Region::import(joined->fds[0].release(), shared_size(sizeof(ConsumerPage)));
    consumer_wake_ = *WakeSender::adopt(std::move(joined->fds[1]));
    say(socket, PacketKind::ready);
  }
  [[nodiscard]] static MessageRecord block(std::uint32_t slab, std::uint16_t slot, Bytes bytes) {
    MessageRecord made{};
    made.header = {
        .number = 1, .ticks = 0, .user = 0, .type = 0, .slot = slot, .kind = 1, .count = 1};
    const Place place{
        .offset = 0, .bytes = bytes, .slab = slab, .chunk_bytes = 0, .window_bytes = 0};
    std::memcpy(made.body.data(), &place, sizeof place);
    return made;
  }
  void publish(std::uint64_t sequence, const MessageRecord& record) {
    RingCell<MessageRecord>& cell = ring_->ring[sequence % cells_];
    cell.record = record;
    cell.sequence.store(sequence, std::memory_order_seq_cst);
  }
  /// Publishes the record again and again, as quickly as it is taken, whatever credits there are.
  /// Returns the sequence of the next one.
  std::uint64_t flood(MessageRecord record, const std::atomic<bool>& enough) {
    const ConsumerPage& page = consumer_page();
    WakeFilter wake_filter;
    std::uint64_t next = 1;
    while (!enough.load(std::memory_order_relaxed)) {
      if (next >= page.taken.load(std::memory_order_seq_cst) + cells_) continue;
      publish(next++, record);
      if (wake_filter.must_wake(page.consumer_sleeps)) consumer_wake_.ring();
    }
    return next;
  }
  /// Wakes the consumer if it sleeps.
  void wake() {
    if (wake_filter_.must_wake(consumer_page().consumer_sleeps)) consumer_wake_.ring();
  }
  /// Closes the other end of its wake-up socket.
  void drop_wake() { consumer_wake_.reset(); }

  [[nodiscard]] ProducerPage& page() noexcept { return *page_; }
  [[nodiscard]] RingPage& ring_page() noexcept { return *ring_; }
  [[nodiscard]] const ConsumerPage& consumer_page() const noexcept {
    return *reinterpret_cast<const ConsumerPage*>(consumer_.data());
  }
  /// The descriptor that wakes the consumer.
  [[nodiscard]] int consumer_wake() const noexcept { return consumer_wake_.descriptor(); }
  [[nodiscard]] int wake_sender() const noexcept { return wake_receiver_.wake_sender.descriptor(); }
  [[nodiscard]] const std::array<int, 3>& welcome() const noexcept { return welcome_; }

 private:
  std::uint32_t cells_;
  Region memory_ = *Region::create(shared_size(sizeof(ProducerPage)), "x");
  Region ring_memory_ = *Region::create(shared_size(sizeof(RingPage)), "x");
  Region consumer_;
  WakeSender consumer_wake_;
  WakeFilter wake_filter_;
  WakeReceiver::Made wake_receiver_ = *WakeReceiver::make();
  std::array<int, 3> welcome_{memory_.descriptor(), ring_memory_.descriptor(),
                              wake_receiver_.wake_sender.descriptor()};
  ProducerPage* page_ = new (memory_.data()) ProducerPage{};
  RingPage* ring_ = new (ring_memory_.data()) RingPage{};
};

}  // namespace gantry::test
