// c/exchange_test.cpp: what is sent arrives, byte for byte, by every way that the interface has.

#include <poll.h>

#include <array>
#include <thread>

#include "test_ends.hpp"

namespace gantry::c::test {
namespace {

using Exchange = Ends;

constexpr std::array<std::size_t, 12> kSizes{0,    1,    63,     64,      65,      4095,
                                             4096, 4097, 65'536, 100'000, 1 << 20, 5'000'001};

TEST_F(Exchange, EachSizeArrivesAsItWasSent) {
  const auto out = producer();
  const auto in = consumer();
  for (std::size_t number = 0; number < kSizes.size(); ++number) {
    const auto sent = bytes_of(number, kSizes[number]);
    gantry_part part = part_of(sent);
    gantry_send_options options{};
    options.size = sizeof options;
    options.type = 7;
    options.user = number;
    ASSERT_OK(gantry_send(out.get(), &part, 1, kPatienceNs, &options));
    const auto message = receive(in);
    expect_bytes(message.get(), kSizes[number], number);
    const gantry_message_info info = info_of(message.get());
    EXPECT_EQ(info.sequence, number + 1);
    EXPECT_EQ(info.user, number);
    EXPECT_EQ(info.type, 7U);
    EXPECT_EQ(info.bytes, kSizes[number]);
    EXPECT_EQ(info.segments, 1U);
    EXPECT_EQ(info.wants_reply, 0);
  }
}

TEST_F(Exchange, TheEndOfTheStreamIsTold) {
  auto out = producer();
  const auto in = consumer();
  send(out, bytes_of(1, 100));
  Owned<gantry_message> message;
  std::thread closing([&] { EXPECT_OK(gantry_producer_close(out.get(), kPatienceNs)); });
  expect_bytes(receive(in).get(), 100, 1);
  EXPECT_REFUSED(gantry_receive(in.get(), kPatienceNs, Out(message)), GANTRY_CLOSED, "'c'", "");
  EXPECT_EQ(message, nullptr);
  closing.join();
  const gantry_code again = gantry_producer_close(out.get(), 0);  // closed twice: no harm
  EXPECT_TRUE(again == GANTRY_OK || again == GANTRY_INVALID_ARGUMENT) << told(again);
}

TEST_F(Exchange, AProducerThatIsFreedWithoutAnEndIsGone) {
  auto out = producer();
  const auto in = consumer();
  send(out, bytes_of(1, 100));
  out.reset();
  expect_bytes(receive(in).get(), 100, 1);
  Owned<gantry_message> message;
  EXPECT_REFUSED(gantry_receive(in.get(), kPatienceNs, Out(message)), GANTRY_PEER_GONE, "'c'", "");
  out = producer();
  ASSERT_OK(gantry_consumer_rejoin(in.get(), kPatienceNs));
  send(out, bytes_of(2, 100));
  expect_bytes(receive(in).get(), 100, 2);
}

gantry_tensor matrix(std::int64_t rows, std::int64_t columns) {
  return {GANTRY_FLOAT, 32, 1, 2, {rows, columns}, {columns, 1}};
}

TEST_F(Exchange, SegmentsKeepTheirBytesAndTensors) {
  const auto out = producer();
  const auto in = consumer();
  Owned<gantry_pool> pool;
  ASSERT_OK(gantry_producer_pool(out.get(), Out(pool)));
  Owned<gantry_block> block;
  void* data = nullptr;
  ASSERT_OK(gantry_pool_allocate(pool.get(), 6000, Out(block), &data));
  fill(data, 6000, 2);
  const gantry_tensor first = matrix(5, 20);
  const gantry_tensor second = matrix(10, 100);
  const auto copied = bytes_of(1, 400);
  const auto plain = bytes_of(3, 33);
  std::array parts{part_of(copied), part_of(block.get()), part_of(plain)};
  parts[0].tensor = &first;
  parts[1].tensor = &second;
  parts[1].bytes = 4000;  // of a block of 6000
  ASSERT_OK(gantry_send(out.get(), parts.data(), parts.size(), kPatienceNs, nullptr));
  block.reset();  // may be freed at once: the message keeps the memory
  const auto message = receive(in);
  EXPECT_EQ(info_of(message.get()).segments, 3U);
  EXPECT_EQ(info_of(message.get()).bytes, 400U + 4000 + 33);
  const std::array<std::size_t, 3> sizes{400, 4000, 33};
  const std::array<const gantry_tensor*, 3> tensors{&first, &second, nullptr};
  for (std::size_t i = 0; i < 3; ++i) {
    const gantry_segment segment = segment_of(message.get(), i);
    ASSERT_EQ(segment.bytes, sizes[i]);
    EXPECT_TRUE(are_of(segment.data, segment.bytes, i + 1));
    ASSERT_EQ(segment.has_tensor, tensors[i] == nullptr ? 0 : 1);
    if (tensors[i] == nullptr) continue;
    EXPECT_EQ(std::memcmp(&segment.tensor, tensors[i], sizeof(gantry_tensor)), 0);
  }
}

TEST_F(Exchange, ABlockTravelsWithoutACopy) {
  const auto out = producer();
  const auto in = consumer();
  Owned<gantry_pool> pool;
  ASSERT_OK(gantry_producer_pool(out.get(), Out(pool)));
  Owned<gantry_block> block;
  void* data = nullptr;
  ASSERT_OK(gantry_pool_allocate(pool.get(), 1 << 20, Out(block), &data));
  fill(data, 1 << 20, 1);
  const gantry_part part = part_of(block.get());
  ASSERT_OK(gantry_send(out.get(), &part, 1, kPatienceNs, nullptr));
  const auto message = receive(in);
  expect_bytes(message.get(), 1 << 20, 1);
  static_cast<unsigned char*>(data)[500'000] ^= 0xff;  // the reader sees the same memory
  const gantry_segment segment = segment_of(message.get());
  EXPECT_EQ(static_cast<const unsigned char*>(segment.data)[500'000],
            static_cast<unsigned char>(byte_at(1, 500'000) ^ 0xff));
}

TEST_F(Exchange, FindKnowsTheBlockOfAnAddress) {
  Owned<gantry_pool> pool;
  ASSERT_OK(gantry_pool_create(nullptr, Out(pool)));
  Owned<gantry_block> block;
  Owned<gantry_block> found;
  void* data = nullptr;
  ASSERT_OK(gantry_pool_allocate(pool.get(), 10'000, Out(block), &data));
  void* begin = nullptr;
  std::size_t bytes = 0;
  for (const std::size_t offset : {0, 1, 9'999}) {
    ASSERT_OK(gantry_pool_find(pool.get(), static_cast<char*>(data) + offset, Out(found), &begin,
                               &bytes));
    EXPECT_EQ(begin, data);
    EXPECT_EQ(bytes, 10'000U);
  }
  EXPECT_OK(gantry_pool_find(pool.get(), data, Out(found), nullptr, nullptr));
  EXPECT_REFUSED(gantry_pool_find(pool.get(), &bytes, Out(found), &begin, &bytes),
                 GANTRY_INVALID_ARGUMENT, "in no block of this pool", "");
  EXPECT_EQ(begin, nullptr);
  EXPECT_EQ(bytes, 0U);
  block.reset();
  found.reset();
  EXPECT_REFUSED(gantry_pool_find(pool.get(), data, Out(found), &begin, &bytes),
                 GANTRY_INVALID_ARGUMENT, "in no block", "");
}

TEST_F(Exchange, ALoanIsPublishedWithAndWithoutATensor) {
  gantry_producer_options options{};
  options.size = sizeof options;
  options.slots = 1;  // a loan with a tensor takes no second credit
  const auto out = producer(&options);
  const auto in = consumer();
  for (std::size_t number = 1; number <= 6; ++number) {
    Owned<gantry_loan> loan;
    void* data = nullptr;
    ASSERT_OK(gantry_loan_take(out.get(), 8000, kPatienceNs, Out(loan), &data));
    fill(data, 8000, number);
    const gantry_tensor tensor = matrix(10, 100);
    const gantry_tensor* const given = number % 2 == 0 ? &tensor : nullptr;
    const std::size_t bytes = number % 3 == 0 ? 0 : 4000;
    ASSERT_OK(gantry_loan_publish(out.get(), loan.get(), bytes, given, kPatienceNs, nullptr));
    EXPECT_REFUSED(gantry_loan_publish(out.get(), loan.get(), 0, given, 0, nullptr),
                   GANTRY_INVALID_ARGUMENT, "that loan is empty", "gantry_loan_take");
    const auto message = receive(in);
    expect_bytes(message.get(), bytes == 0 ? 8000 : 4000, number);
    EXPECT_EQ(segment_of(message.get()).has_tensor, given == nullptr ? 0 : 1);
  }
}

TEST_F(Exchange, AMemoryOfAPublishedLoanIsNotLentAgainWhileItIsRead) {
  const auto out = producer();
  const auto in = consumer();
  const gantry_tensor tensor = matrix(10, 100);
  std::vector<Owned<gantry_message>> held;
  for (std::size_t number = 0; number < 7; ++number) {
    Owned<gantry_loan> loan;
    void* data = nullptr;
    ASSERT_OK(gantry_loan_take(out.get(), 4000, kPatienceNs, Out(loan), &data));
    fill(data, 4000, number);
    ASSERT_OK(gantry_loan_publish(out.get(), loan.get(), 0, &tensor, kPatienceNs, nullptr));
    held.push_back(receive(in));
  }
  for (std::size_t number = 0; number < held.size(); ++number)
    expect_bytes(held[number].get(), 4000, number);
}

TEST_F(Exchange, AMessageTravelsOnWithItsTensors) {
  const auto out = producer();
  const auto in = consumer();
  Owned<gantry_producer> onward;
  Owned<gantry_consumer> last;
  ASSERT_OK(gantry_producer_open(runtime(), "onward", nullptr, Out(onward)));
  ASSERT_OK(gantry_consumer_open(runtime(), "onward", nullptr, kPatienceNs, Out(last)));
  const gantry_tensor tensor = matrix(5, 20);
  const auto bytes = bytes_of(1, 400);
  std::array parts{part_of(bytes), part_of(bytes)};
  parts[1].tensor = &tensor;
  ASSERT_OK(gantry_send(out.get(), parts.data(), 2, kPatienceNs, nullptr));
  const auto received = receive(in);
  Owned<gantry_view> view;
  void* data = nullptr;
  ASSERT_OK(gantry_message_view(received.get(), 0, Out(view), &data));
  const gantry_part part = part_of(received.get());
  EXPECT_REFUSED(gantry_send(onward.get(), &part, 1, 0, nullptr), GANTRY_BUSY, "views",
                 "free them");
  view.reset();
  const std::array twice{part, part};
  EXPECT_REFUSED(gantry_send(onward.get(), twice.data(), 2, 0, nullptr), GANTRY_INVALID_ARGUMENT,
                 "another part", "");
  ASSERT_OK(gantry_send(onward.get(), &part, 1, kPatienceNs, nullptr));
  EXPECT_REFUSED(gantry_send(onward.get(), &part, 1, 0, nullptr), GANTRY_INVALID_ARGUMENT,
                 "it was forwarded", "");
  gantry_segment segment{};
  segment.size = sizeof segment;
  EXPECT_REFUSED(gantry_message_segment(received.get(), 0, &segment), GANTRY_INVALID_ARGUMENT,
                 "it was forwarded", "");
  const auto message = receive(last);
  ASSERT_EQ(info_of(message.get()).segments, 2U);
  expect_bytes(message.get(), 400, 1);
  EXPECT_EQ(segment_of(message.get(), 0).has_tensor, 0);
  EXPECT_EQ(segment_of(message.get(), 1).has_tensor, 1);
}

TEST_F(Exchange, TicketsEndAndSayHow) {
  const auto out = producer();
  const auto in = consumer();
  int descriptor = -1;
  EXPECT_REFUSED(gantry_producer_descriptor(out.get(), &descriptor), GANTRY_INVALID_ARGUMENT, "",
                 "");
  EXPECT_EQ(descriptor, -1);
  const auto bytes = bytes_of(1, 3 << 20);
  const gantry_part part = part_of(bytes);
  std::array<std::uint64_t, 4> tickets{};
  for (std::uint64_t& ticket : tickets)
    ASSERT_OK(gantry_send_async(out.get(), &part, 1, kPatienceNs, nullptr, &ticket));
  for (const std::uint64_t ticket : tickets) {
    for (;;) {  // as a loop does: descriptor, ask, sleep
      ASSERT_OK(gantry_producer_descriptor(out.get(), &descriptor));
      const gantry_code code = gantry_ticket_wait(out.get(), ticket, 0);
      if (code == GANTRY_OK) break;
      ASSERT_EQ(code, GANTRY_TIMED_OUT) << told(code);
      pollfd entry{descriptor, POLLIN, 0};
      ASSERT_EQ(::poll(&entry, 1, 60'000), 1);
    }
    expect_bytes(receive(in).get(), bytes.size(), 1);
  }
  ASSERT_OK(gantry_producer_descriptor(out.get(), &descriptor));
  pollfd silent{descriptor, POLLIN, 0};
  EXPECT_EQ(::poll(&silent, 1, 0), 0);  // it has been noted that they ended
  std::uint64_t ticket = 0;  // nobody reads: the credits run out and the ticket's time passes
  for (int i = 0; i < 8; ++i) ASSERT_OK(gantry_send(out.get(), &part, 1, kPatienceNs, nullptr));
  ASSERT_OK(gantry_send_async(out.get(), &part, 1, 1'000'000, nullptr, &ticket));
  EXPECT_REFUSED(gantry_ticket_wait(out.get(), ticket, kForEver), GANTRY_TIMED_OUT, "'c'", "");
}

TEST_F(Exchange, ReceiveIntoCopiesAndKeepsWhatDoesNotFit) {
  const auto out = producer();
  const auto in = consumer();
  send(out, bytes_of(1, 5000));
  std::vector<unsigned char> buffer(5000);
  std::size_t received = 99;
  gantry_message_info info{};
  info.size = sizeof info;
  EXPECT_REFUSED(gantry_receive_into(in.get(), buffer.data(), 4999, 0, &received, &info),
                 GANTRY_INVALID_ARGUMENT, "5000", "");
  EXPECT_EQ(received, 0U);
  ASSERT_OK(gantry_receive_into(in.get(), buffer.data(), 5000, kPatienceNs, &received, &info));
  EXPECT_EQ(received, 5000U);
  EXPECT_TRUE(are_of(buffer.data(), received, 1));
  EXPECT_EQ(info.sequence, 1U);
  EXPECT_EQ(info.bytes, 5000U);
  EXPECT_REFUSED(gantry_receive_into(in.get(), buffer.data(), 5000, 0, &received, nullptr),
                 GANTRY_TIMED_OUT, "'c'", "");
}

TEST_F(Exchange, ALookReadsTheBytesWhereTheyLie) {
  const auto out = producer();
  const auto in = consumer();
  std::vector<const void*> places;
  for (std::size_t number = 0; number < 150; ++number) {  // 72 places, in turn
    send(out, bytes_of(number, 1000));
    Owned<gantry_message> looked;
    ASSERT_OK(gantry_look(in.get(), kPatienceNs, Out(looked)));
    expect_bytes(looked.get(), 1000, number);
    places.push_back(segment_of(looked.get()).data);
  }
  EXPECT_EQ(places[0], places[72]);
  EXPECT_NE(places[0], places[1]);
}

TEST_F(Exchange, NothingElseIsTakenUntilTheLookEnds) {
  const auto out = producer();
  const auto in = consumer();
  std::size_t number = 0;
  for (const std::size_t size : {10U, 1000U, 100'000U}) {
    for (const std::size_t seed : {number, number + 1}) send(out, bytes_of(seed, size));
    Owned<gantry_message> looked, none;
    ASSERT_OK(gantry_look(in.get(), kPatienceNs, Out(looked)));
    EXPECT_REFUSED(gantry_receive(in.get(), kPatienceNs, Out(none)), GANTRY_BUSY, "'c'", "end");
    EXPECT_REFUSED(gantry_look(in.get(), kPatienceNs, Out(none)), GANTRY_BUSY, "looked at", "end");
    std::size_t received = 0;
    EXPECT_REFUSED(gantry_receive_into(in.get(), &received, 8, 0, &received, nullptr), GANTRY_BUSY,
                   "looked at", "end");
    EXPECT_REFUSED(gantry_consumer_rejoin(in.get(), 0), GANTRY_BUSY, "looked at", "end");
    send(out, bytes_of(number + 2, size));
    const gantry_part part = part_of(looked.get());
    EXPECT_REFUSED(gantry_send(out.get(), &part, 1, 0, nullptr), GANTRY_INVALID_ARGUMENT,
                   "looked at", "receive");
    Owned<gantry_view> view;
    void* data = nullptr;
    ASSERT_OK(gantry_message_view(looked.get(), 0, Out(view), &data));
    expect_bytes(looked.get(), size, number);
    looked.reset();
    EXPECT_REFUSED(gantry_receive(in.get(), 0, Out(none)), GANTRY_BUSY, "looked at", "end");
    EXPECT_TRUE(are_of(data, size, number));
    view.reset();
    for (const std::size_t seed : {number + 1, number + 2})
      expect_bytes(receive(in).get(), size, seed);
    number += 3;
  }
}

TEST_F(Exchange, ALookOutlivesItsConsumer) {
  gantry_producer_options options{};
  options.size = sizeof options;
  options.consumers = 6;
  const auto out = producer(&options);
  for (const std::size_t size : {10U, 1000U, 100'000U}) {
    auto in = consumer();
    send(out, bytes_of(1, size));
    Owned<gantry_message> looked;
    ASSERT_OK(gantry_look(in.get(), kPatienceNs, Out(looked)));
    in.reset();
    const auto other = consumer();
    for (std::size_t number = 2; number < 150; ++number) {  // each place is written again
      send(out, bytes_of(number, 3000));
      expect_bytes(receive(other).get(), 3000, number);
    }
    expect_bytes(looked.get(), size, 1);
  }
}

TEST_F(Exchange, ALookThatFailsShowsNothing) {
  const auto out = producer();
  const auto in = consumer();
  Owned<gantry_message> none;
  EXPECT_REFUSED(gantry_look(in.get(), 0, Out(none)), GANTRY_TIMED_OUT, "'c'", "");
  EXPECT_REFUSED(gantry_look(nullptr, 0, Out(none)), GANTRY_INVALID_ARGUMENT, "consumer", "");
  EXPECT_REFUSED(gantry_look(in.get(), 0, nullptr), GANTRY_INVALID_ARGUMENT, "message", "");
  EXPECT_REFUSED(gantry_look(in.get(), -2, Out(none)), GANTRY_INVALID_ARGUMENT, "", "");
  Owned<gantry_consumer> inbox;
  ASSERT_OK(gantry_inbox_open(runtime(), "in", nullptr, Out(inbox)));
  EXPECT_REFUSED(gantry_look(inbox.get(), 0, Out(none)), GANTRY_UNSUPPORTED, "gantry_look",
                 "gantry_receive()");
  EXPECT_EQ(none, nullptr);
  send(out, bytes_of(1, 1000));
  expect_bytes(receive(in).get(), 1000, 1);
}

TEST_F(Exchange, ALoopReceivesByTheDescriptor) {
  const auto out = producer();
  const auto in = consumer();
  std::thread sending([&] {
    for (std::size_t number = 1; number <= 50; ++number) send(out, bytes_of(number, 2000));
  });
  int descriptor = -1;
  ASSERT_OK(gantry_consumer_descriptor(in.get(), &descriptor));
  for (std::size_t number = 1; number <= 50;) {
    Owned<gantry_message> message;
    const gantry_code code = gantry_receive(in.get(), 0, Out(message));
    if (code == GANTRY_OK) {
      expect_bytes(message.get(), 2000, number++);
      continue;
    }
    ASSERT_EQ(code, GANTRY_TIMED_OUT) << told(code);
    pollfd entry{descriptor, POLLIN, 0};
    ASSERT_EQ(::poll(&entry, 1, 60'000), 1);
  }
  sending.join();
}

TEST_F(Exchange, AnInboxTellsItsSendersApart) {
  Owned<gantry_consumer> inbox;
  gantry_consumer_options options{};
  options.size = sizeof options;
  options.senders = 2;
  ASSERT_OK(gantry_inbox_open(runtime(), "in", &options, Out(inbox)));
  std::array<Owned<gantry_producer>, 3> out;
  for (std::size_t i = 0; i < 2; ++i) {
    ASSERT_OK(gantry_producer_connect(runtime(), "in", nullptr, kPatienceNs, Out(out[i])));
    send(out[i], bytes_of(i, 300 + i));
  }
  EXPECT_REFUSED(gantry_producer_connect(runtime(), "in", nullptr, kPatienceNs, Out(out[2])),
                 GANTRY_BUSY, "'in'", "");
  std::uint64_t senders = 0;
  for (int i = 0; i < 2; ++i) {
    const auto message = receive(inbox);
    const gantry_message_info info = info_of(message.get());
    EXPECT_EQ(info.sender_pid, ::getpid());
    EXPECT_EQ(info.sender_uid, ::getuid());
    senders += info.sender;
    expect_bytes(message.get(), info.bytes, info.bytes - 300);
  }
  EXPECT_EQ(senders, 3U);  // numbers 1 and 2
  EXPECT_REFUSED(gantry_consumer_rejoin(inbox.get(), 0), GANTRY_UNSUPPORTED, "rejoin", "");
  std::size_t received = 0;
  EXPECT_REFUSED(gantry_receive_into(inbox.get(), &received, 8, 0, &received, nullptr),
                 GANTRY_UNSUPPORTED, "receive_into", "gantry_receive()");
}

TEST_F(Exchange, TheStatusIsTheChannelsAsJson) {
  const auto out = producer();
  std::size_t needed = 0;
  char small[4] = "abc";
  EXPECT_REFUSED(gantry_status_json(runtime(), small, sizeof small, &needed), GANTRY_TOO_LARGE,
                 "bytes", "larger");
  EXPECT_STREQ(small, "abc");
  EXPECT_REFUSED(gantry_status_json(runtime(), nullptr, 0, nullptr), GANTRY_TOO_LARGE, "", "");
  ASSERT_GT(needed, 100U);
  std::string text(needed + 1000, '?');
  ASSERT_OK(gantry_status_json(runtime(), text.data(), text.size(), &needed));
  text.resize(needed);
  EXPECT_EQ(text.back(), '\0');
  EXPECT_EQ(std::strlen(text.c_str()), needed - 1);
  EXPECT_NE(text.find("\"name\": \"c\""), std::string::npos) << text;
  EXPECT_NE(text.find("\"producer_pid\": " + std::to_string(::getpid())), std::string::npos);
}

}  // namespace
}  // namespace gantry::c::test
