// What a bridge tells of its host's channels, and what nobody may make of it.
#include "net/remote/listing.hpp"

#include <gmock/gmock.h>

#include "net/remote/bridge/test_remote.hpp"

namespace gantry {
namespace {

using test::kToken;
using test::soon;

ChannelStatus busy_channel() {
  ChannelStatus channel;
  channel.name = "frames";
  channel.producer_pid = 4711;
  channel.producer_uid = 1000;
  channel.producer_state = ProcessState::running;
  channel.answered = true;
  channel.age = std::chrono::seconds(3);
  channel.slots = 8;
  channel.engine = "policy";
  channel.producer.messages = 42;
  ConsumerStatus consumer;
  consumer.pid = 4712;
  consumer.state = ProcessState::stopped;
  consumer.unread = 5;
  channel.consumers.push_back(consumer);
  return channel;
}

ChannelStatus silent_channel() {
  ChannelStatus channel;
  channel.name = "run-1/deaf";
  channel.producer_pid = 4713;
  channel.producer_state = ProcessState::zombie;
  channel.silence = "it does not answer";
  channel.age = std::chrono::milliseconds(7);
  return channel;
}

TEST(Listing, SaysThereWhatIsSaidHere) {
  const auto listed = decode_listing(encode_listing({busy_channel(), silent_channel()}));
  ASSERT_TRUE(listed) << to_string(listed.error());
  ASSERT_EQ(listed->size(), 2u);
  const ChannelStatus& busy = listed->front();
  EXPECT_EQ(busy.name, "frames");
  EXPECT_EQ(busy.producer_pid, 4711);
  EXPECT_EQ(busy.producer_uid, 1000u);
  EXPECT_EQ(busy.producer_state, ProcessState::running);
  EXPECT_TRUE(busy.answered);
  EXPECT_EQ(busy.slots, 8u);
  EXPECT_EQ(busy.engine, "policy");
  EXPECT_EQ(busy.producer.messages, 42u);
  ASSERT_EQ(busy.consumers.size(), 1u);
  EXPECT_EQ(busy.consumers[0].pid, 4712);
  EXPECT_EQ(busy.consumers[0].state, ProcessState::stopped);
  EXPECT_EQ(busy.consumers[0].unread, 5u);
  const ChannelStatus& silent = listed->back();
  EXPECT_EQ(silent.name, "run-1/deaf");
  EXPECT_EQ(silent.producer_state, ProcessState::zombie);
  EXPECT_FALSE(silent.answered);
  EXPECT_EQ(silent.silence, "it does not answer");
  EXPECT_EQ(silent.age, std::chrono::milliseconds(7));
}

TEST(Listing, WhatIsCutOffOrChangedIsRefusedOrHarmless) {
  const auto whole = encode_listing({busy_channel()});
  for (std::size_t size = 1; size < whole.size(); ++size) {
    const auto listed = decode_listing(ConstByteSpan(whole).first(size));
    ASSERT_FALSE(listed) << size;
    EXPECT_EQ(listed.error().code, Code::peer_misbehaved) << size;
  }
  for (std::size_t at = 0; at < whole.size(); ++at) {
    auto changed = whole;
    changed[at] ^= std::byte{0xff};
    const auto listed = decode_listing(changed);
    for (const ChannelStatus& channel : listed.value_or(std::vector<ChannelStatus>{}))
      for (const char c : channel.name + channel.silence + channel.engine)
        EXPECT_TRUE(c >= 0x20 && c < 0x7f) << "of byte " << at;
  }
}

TEST(Listing, WhatDoesNotFitIsLeftOut) {
  ChannelStatus channel = silent_channel();
  channel.silence = std::string(kLongestRemoteText, 'x');
  const std::vector<ChannelStatus> many(20'000, channel);
  const auto bytes = encode_listing(many);
  EXPECT_LE(bytes.size(), kMostListingBytes);
  const auto listed = decode_listing(bytes);
  ASSERT_TRUE(listed);
  EXPECT_GT(listed->size(), 10'000u);
  EXPECT_LT(listed->size(), many.size());
}

using RemoteListing = test::TwoHosts;

TEST_F(RemoteListing, ABridgeListsTheChannelsOfItsHost) {
  auto producer = test::make_producer("frames", there()).value();
  auto consumer = consume(name("frames")).value();
  const auto payload = test::pattern(1000, 1);
  ASSERT_TRUE(producer.send(payload));
  ASSERT_TRUE(consumer.receive(soon()));
  const auto listed = list_remote_channels(bridge_->address(), {.token = kToken}, soon());
  ASSERT_TRUE(listed) << to_string(listed.error());
  ASSERT_EQ(listed->size(), 1u);
  const ChannelStatus& channel = listed->front();
  EXPECT_EQ(channel.name, "frames");
  EXPECT_EQ(channel.producer_pid, ::getpid());
  EXPECT_EQ(channel.producer.messages, 1u);
  EXPECT_EQ(channel.producer.bytes, 1000u);
  ASSERT_EQ(channel.consumers.size(), 1u);
  EXPECT_EQ(channel.consumers[0].pid, ::getpid());
  EXPECT_EQ(channel.consumers[0].state, ProcessState::running);
}

// Each as that host's own list has it.
TEST_F(RemoteListing, InboxesAndServicesAreListedBesideChannels) {
  auto producer = test::make_producer("frames", there()).value();
  const auto engine = std::make_shared<test::PlainEngine>();
  InboxOptions inbox_options;
  inbox_options.channel = test::consumer_options(there());
  auto inbox = Inbox::open("parts", inbox_options).value();
  auto sender = connect_remote_inbox(name("parts").text(), here(), engine, soon());
  ASSERT_TRUE(sender) << to_string(sender.error());
  auto service = Server::open("service", test::server_options(there()), engine).value();
  const auto listed = list_remote_channels(bridge_->address(), {.token = kToken}, soon());
  ASSERT_TRUE(listed) << to_string(listed.error());
  const auto own = list_channels(there().directory).value();
  ASSERT_EQ(own.size(), 3u);
  ASSERT_EQ(listed->size(), 3u);
  for (std::size_t i = 0; i < own.size(); ++i) {
    EXPECT_EQ((*listed)[i].name, own[i].name);
    EXPECT_EQ((*listed)[i].is_inbox, own[i].is_inbox);
    EXPECT_EQ((*listed)[i].producer_pid, own[i].producer_pid);
    EXPECT_EQ((*listed)[i].producer_state, own[i].producer_state);
    EXPECT_EQ((*listed)[i].senders.size(), own[i].senders.size());
    ASSERT_EQ((*listed)[i].consumers.size(), own[i].consumers.size());
    for (std::size_t k = 0; k < own[i].consumers.size(); ++k) {
      EXPECT_EQ((*listed)[i].consumers[k].pid, own[i].consumers[k].pid);
      EXPECT_EQ((*listed)[i].consumers[k].uid, own[i].consumers[k].uid);
      EXPECT_EQ((*listed)[i].consumers[k].state, ProcessState::running);
    }
  }
}

TEST_F(RemoteListing, NobodyLooksWithoutTheToken) {
  const auto listed =
      list_remote_channels(bridge_->address(), {.token = "another token of 24 c."}, soon());
  ASSERT_FALSE(listed);
  EXPECT_EQ(listed.error().code, Code::permission_denied);
}

TEST_F(RemoteListing, AnEmptyHostHasNoChannels) {
  const auto listed = list_remote_channels(bridge_->address(), {.token = kToken}, soon());
  ASSERT_TRUE(listed) << to_string(listed.error());
  EXPECT_TRUE(listed->empty());
}

}  // namespace
}  // namespace gantry
