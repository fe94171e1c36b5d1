// Slabs that are exported once, and sides of a session that lie about them. Over a shared link.
#include "net/remote/session/sending_side.hpp"

#include <gmock/gmock.h>

#include "net/remote/session/receiving_side.hpp"
#include "net/remote/session/test_hostile.hpp"

namespace gantry {
namespace {

using test::head_of;
using test::pattern;
using test::same;
using test::soon;

Result<std::unique_ptr<Link>> make_shared(int socket, const LinkOptions& options) {
  return make_shared_link(socket, std::make_shared<test::PlainEngine>(), options);
}

class ExportedSlab : public ::testing::Test {
 protected:
  static constexpr Bytes kBudget = Bytes{8} << 20;

  void SetUp() override {
    std::array<int, 2> ends{};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    near_ = make_shared(ends[0], {"far", std::chrono::milliseconds(0)}).value();
    far_ = make_shared(ends[1], {"near", std::chrono::milliseconds(0)}).value();
    ProducerOptions options = test::options_in(scratch_);
    options.pool.budget_bytes = kBudget;
    out_.emplace(test::make_producer("frames", options).value());
    in_.emplace(Consumer::open("frames", test::consumer_options(options), soon()).value());
  }
  [[nodiscard]] Message next(Bytes size, std::uint64_t seed) {
    EXPECT_TRUE(out_->send(pattern(size, seed), {.deadline = soon()}));
    return in_->receive(soon()).value();
  }
  [[nodiscard]] ExportedSlabs::Place find(const Message& message) {
    return slabs_.find(*near_, message, message.bytes()).value().value();
  }
  void expect_reads(const ExportedSlabs::Place& place, Bytes size, std::uint64_t seed) {
    std::vector<std::byte> into(size);
    far_->poll();  // what is shared has come
    const auto ticket = far_->get(Transfer::of(into, place.region, place.offset));
    ASSERT_TRUE(ticket) << to_string(ticket.error());
    ASSERT_TRUE(far_->wait(*ticket, soon()));
    EXPECT_TRUE(same(into, pattern(size, seed)));
  }

  const test::ScratchDirectory scratch_;
  std::unique_ptr<Link> near_, far_;
  std::optional<Producer> out_;
  std::optional<Consumer> in_;
  ExportedSlabs slabs_;
};

TEST_F(ExportedSlab, HoldsManyMessages) {
  const Message first = next(100'000, 1);
  const Message second = next(200'000, 2);
  const auto at_first = find(first);
  const auto at_second = find(second);
  EXPECT_EQ(at_first.region, at_second.region);
  EXPECT_NE(at_first.offset, at_second.offset);
  EXPECT_EQ(slabs_.size(), 1u);
  expect_reads(at_first, 100'000, 1);
  expect_reads(at_second, 200'000, 2);
  EXPECT_EQ(far_->report().pulled_bytes, 300'000u) << "it took the socket";
}

TEST_F(ExportedSlab, GoesWhenItsChannelHasUnmappedIt) {
  std::optional<Message> message(next(3'000'000, 1));  // a slab of its own
  const auto place = find(*message);
  expect_reads(place, 3'000'000, 1);
  slabs_.sweep();
  EXPECT_EQ(slabs_.size(), 1u);
  message.reset();
  // The producer drops the slab when it needs the room; the consumer hears of that.
  const Message larger = next(kBudget, 2);
  slabs_.sweep();
  ASSERT_EQ(slabs_.size(), 0u);
  expect_reads(find(larger), kBudget, 2);
  std::vector<std::byte> into(1000);
  const auto ticket = far_->get(Transfer::of(into, place.region, place.offset));
  ASSERT_TRUE(ticket);
  while (far_->outcome(*ticket) == Outcome::pending) {
    near_->poll();
    far_->poll();
  }
  EXPECT_EQ(far_->wait(*ticket, soon()).error().code, Code::not_found);
}

TEST_F(ExportedSlab, IsNoneOfWhatIsCopiedOut) {
  const Message small = next(40, 1);
  EXPECT_FALSE(slabs_.find(*near_, small, small.bytes()).value());
  EXPECT_EQ(slabs_.size(), 0u);
}

// ---- a side that lies about them -----------------------------------------------------------

class LyingSender : public ::testing::Test {
 protected:
  void open() {
    side_.reset();
    in_.reset();
    const ProducerOptions options = test::options_in(scratch_);
    auto out = test::make_producer("frames", options).value();
    in_.emplace(Consumer::open("frames", test::consumer_options(options), soon()).value());
    side_.emplace(std::make_unique<ReceivingSide>(std::move(out)), 0, make_shared);
    region_ = Region::create(1 << 20, "slab").value();
    std::ranges::copy(pattern(region_.size(), 1), region_.data());
    exported_ = side_->peer().export_region(region_, RemoteAccess::read).value();
  }
  [[nodiscard]] RemoteHead part_at(std::uint64_t number, Bytes offset, Bytes bytes) const {
    RemoteHead head = head_of(number, {exported_.remote()});
    head.parts[0].offset = offset;
    head.parts[0].bytes = head.bytes = bytes;
    return head;
  }

  const test::ScratchDirectory scratch_;
  std::optional<Consumer> in_;
  Region region_;
  std::optional<test::SideAtWork> side_;
  Export exported_;
};

TEST_F(LyingSender, AnHonestOneIsServed) {
  open();
  side_->say(part_at(1, 70'001, 300'000));
  const auto message = in_->receive(soon());
  ASSERT_TRUE(message) << to_string(message.error());
  EXPECT_TRUE(same(message->bytes(), ConstByteSpan(region_.data() + 70'001, 300'000)));
}

// Its link asks for what is not there, and is told that it must not.
TEST_F(LyingSender, MemoryBeyondASlabIsNotReached) {
  struct Lie {
    Bytes claimed, offset, bytes;
  };
  for (const Lie lie :
       {Lie{2 << 20, (1 << 20) - 1, 2}, Lie{2 << 20, 1 << 20, 100'000},
        Lie{~Bytes{0}, ~Bytes{0} - 100'000, 100'000}, Lie{~Bytes{0}, Bytes{1} << 40, 100'000}}) {
    open();
    ASSERT_TRUE(in_);
    RemoteHead head = part_at(1, lie.offset, lie.bytes);
    head.parts[0].region.bytes = lie.claimed;
    side_->say(head);
    const RemoteEnd end = side_->end();
    EXPECT_EQ(end.kind, RemoteEnd::Kind::broken) << to_string(end.why);
    side_->drop();
    EXPECT_EQ(in_->receive(soon()).error().code, Code::peer_gone) << lie.offset;
  }
}

TEST_F(LyingSender, AnOffsetThatCannotBeEndsTheSession) {
  for (const Bytes offset : {(Bytes{1} << 20) - 99'999, ~Bytes{0}, ~Bytes{0} - 99'999}) {
    open();
    side_->say(part_at(1, offset, 100'000));
    EXPECT_EQ(side_->end().why.code, Code::peer_misbehaved) << offset;
    side_->drop();
    EXPECT_EQ(in_->receive(soon()).error().code, Code::peer_gone);
  }
}

}  // namespace
}  // namespace gantry
