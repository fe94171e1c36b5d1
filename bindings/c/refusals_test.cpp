// c/refusals_test.cpp: what is refused, with which code and which words; and the structs' sizes.

#include <array>
#include <limits>
#include <thread>

#include "test_ends.hpp"

namespace gantry::c::test {
namespace {

using Refusals = Ends;

TEST(Codes, HaveFrozenNumbersAndNames) {
  const std::array<const char*, 20> names{"ok",
                                          "invalid_argument",
                                          "not_found",
                                          "already_exists",
                                          "permission_denied",
                                          "out_of_memory",
                                          "too_large",
                                          "timed_out",
                                          "busy",
                                          "interrupted",
                                          "closed",
                                          "peer_gone",
                                          "aborted",
                                          "peer_misbehaved",
                                          "unsupported",
                                          "system",
                                          "device_full",
                                          "device_lost",
                                          "kernel_fault",
                                          "build_failed"};
  for (std::size_t i = 0; i < names.size(); ++i)
    EXPECT_STREQ(gantry_code_name(static_cast<gantry_code>(i)), names[i]);
  for (const gantry_code other :
       {-1, 20, std::numeric_limits<gantry_code>::max(), std::numeric_limits<gantry_code>::min()})
    EXPECT_STREQ(gantry_code_name(other), "unknown");
}

// Sizes and offsets of version 0 on machines of 64 bits: whoever was compiled against it has them.
TEST(Structs, HaveFrozenLayouts) {
  EXPECT_EQ(sizeof(gantry_error), 32U);
  EXPECT_EQ(sizeof(gantry_runtime_options), 32U);
  EXPECT_EQ(sizeof(gantry_pool_options), 32U);
  EXPECT_EQ(sizeof(gantry_tensor), 136U);
  EXPECT_EQ(sizeof(gantry_part), 48U);
  EXPECT_EQ(sizeof(gantry_send_options), 24U);
  EXPECT_EQ(sizeof(gantry_producer_options), 64U);
  EXPECT_EQ(offsetof(gantry_producer_options, spin_ns), 32U);
  EXPECT_EQ(offsetof(gantry_producer_options, pool), 56U);
  EXPECT_EQ(sizeof(gantry_consumer_options), 40U);
  EXPECT_EQ(sizeof(gantry_message_info), 80U);
  EXPECT_EQ(offsetof(gantry_message_info, wants_reply), 72U);
  EXPECT_EQ(sizeof(gantry_segment), 168U);
}

TEST_F(Refusals, AStructWithoutItsSizeIsRefusedByName) {
  Owned<gantry_producer> made;
  gantry_producer_options options{};
  for (const std::size_t size : {std::size_t{0}, std::size_t{7}, sizeof options - 1,
                                 std::size_t{4097}, std::numeric_limits<std::size_t>::max()}) {
    options.size = size;
    EXPECT_REFUSED(gantry_producer_open(runtime(), "c", &options, Out(made)),
                   GANTRY_INVALID_ARGUMENT, "gantry_producer_options: its size is",
                   "gantry_producer_options x = {sizeof x}");
    EXPECT_EQ(made, nullptr);
  }
}

TEST_F(Refusals, AStructOfANewerCallerIsTakenIfWhatIsNewIs0) {
  struct Newer {
    gantry_producer_options known;
    std::uint64_t later;
  } options{};
  options.known.size = sizeof options;
  options.known.slots = 2;
  options.later = 1;
  Owned<gantry_producer> made;
  EXPECT_REFUSED(gantry_producer_open(runtime(), "c", &options.known, Out(made)),
                 GANTRY_UNSUPPORTED, "gantry_producer_options: a field behind the 64 bytes",
                 "leave it 0");
  options.later = 0;
  EXPECT_OK(gantry_producer_open(runtime(), "c", &options.known, Out(made)));
}

TEST_F(Refusals, AStructToBeFilledMayBeLarger) {
  const auto out = producer();
  const auto in = consumer();
  send(out, bytes_of(1, 100));
  const auto message = receive(in);
  struct Newer {
    gantry_message_info known;
    std::uint64_t later;
    std::uint64_t beyond;
  } info{};
  info.known.size = sizeof info - sizeof info.beyond;
  info.later = info.beyond = 77;
  ASSERT_OK(gantry_message_get_info(message.get(), &info.known));
  EXPECT_EQ(info.known.bytes, 100U);
  EXPECT_EQ(info.known.size, sizeof info - sizeof info.beyond);
  EXPECT_EQ(info.later, 0U);
  EXPECT_EQ(info.beyond, 77U);  // behind the caller's struct
  info.known.size = sizeof info.known - 1;
  EXPECT_REFUSED(gantry_message_get_info(message.get(), &info.known), GANTRY_INVALID_ARGUMENT,
                 "gantry_message_info: its size is 79, not 80", "");
}

TEST_F(Refusals, PartsOfANewerCallerHaveTheirOwnStride) {
  struct Newer {
    gantry_part known;
    std::uint64_t later;
  };
  std::array<Newer, 3> parts{};
  const auto out = producer();
  const auto in = consumer();
  const auto bytes = bytes_of(0, 50);
  for (Newer& part : parts) {
    part.known = part_of(bytes);
    part.known.size = sizeof(Newer);
  }
  ASSERT_OK(gantry_send(out.get(), &parts[0].known, 3, kPatienceNs, nullptr));
  const auto message = receive(in);
  ASSERT_EQ(info_of(message.get()).segments, 3U);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(are_of(segment_of(message.get(), i).data, 50, 0));
  parts[1].known.size = sizeof(gantry_part);
  EXPECT_REFUSED(gantry_send(out.get(), &parts[0].known, 3, 0, nullptr), GANTRY_INVALID_ARGUMENT,
                 "parts[1]: its size is not that of parts[0]", "");
  parts[1].known.size = 0;
  EXPECT_REFUSED(gantry_send(out.get(), &parts[0].known, 3, 0, nullptr), GANTRY_INVALID_ARGUMENT,
                 "gantry_part: its size is 0", "");
}

TEST_F(Refusals, PartsThatCannotBeAreNamed) {
  const auto out = producer();
  const auto in = consumer();
  const auto bytes = bytes_of(0, 50);
  Owned<gantry_pool> pool;
  Owned<gantry_block> block;
  void* data = nullptr;
  ASSERT_OK(gantry_producer_pool(out.get(), Out(pool)));
  ASSERT_OK(gantry_pool_allocate(pool.get(), 64, Out(block), &data));
  const auto refused = [&](const gantry_part& part, gantry_code code, const char* words) {
    EXPECT_REFUSED(gantry_send(out.get(), &part, 1, kPatienceNs, nullptr), code, words, "");
  };
  gantry_part part = part_of(bytes);
  part.block = block.get();
  refused(part, GANTRY_INVALID_ARGUMENT, "parts[0]: more than one of data, block and message");
  part = part_of(block.get());
  part.bytes = 64;
  EXPECT_OK(gantry_send(out.get(), &part, 1, kPatienceNs, nullptr));
  part.bytes = 65;
  refused(part, GANTRY_INVALID_ARGUMENT, "65 bytes of a block of 64");
  part = part_of(bytes);
  part.data = nullptr;
  refused(part, GANTRY_INVALID_ARGUMENT, "parts[0]: its bytes are at NULL");
  part = part_of(bytes);
  gantry_tensor tensor{GANTRY_UINT, 8, 1, 1, {50}, {1}};
  part.tensor = &tensor;
  EXPECT_OK(gantry_send(out.get(), &part, 1, kPatienceNs, nullptr));
  tensor.shape[0] = 51;
  refused(part, GANTRY_INVALID_ARGUMENT,
          "a tensor of u8 [51] does not fit its segment of 50 bytes");
  tensor = {GANTRY_UINT, 8, 1, 9, {1}, {1}};
  refused(part, GANTRY_INVALID_ARGUMENT, " does not fit its segment of 50 bytes");
  const std::vector<gantry_part> many(GANTRY_MAX_PARTS + 1, part_of(bytes));
  EXPECT_OK(gantry_send(out.get(), many.data(), GANTRY_MAX_PARTS, kPatienceNs, nullptr));
  EXPECT_REFUSED(gantry_send(out.get(), many.data(), many.size(), 0, nullptr), GANTRY_TOO_LARGE,
                 "65 parts; at most 64", "");
  EXPECT_REFUSED(gantry_send(out.get(), nullptr, 1, 0, nullptr), GANTRY_INVALID_ARGUMENT,
                 "parts is NULL", "");
  EXPECT_OK(gantry_send(out.get(), nullptr, 0, kPatienceNs, nullptr));  // an empty message
}

TEST_F(Refusals, TimeoutsAreMinusOneZeroOrATime) {
  const auto out = producer();
  const auto in = consumer();
  Owned<gantry_message> message;
  for (const std::int64_t no_time : {std::int64_t{-2}, std::numeric_limits<std::int64_t>::min()})
    EXPECT_REFUSED(gantry_receive(in.get(), no_time, Out(message)), GANTRY_INVALID_ARGUMENT,
                   "which is no time", "-1 waits for ever");
  EXPECT_REFUSED(gantry_receive(in.get(), 0, Out(message)), GANTRY_TIMED_OUT, "'c'", "");
  EXPECT_REFUSED(gantry_receive(in.get(), 1, Out(message)), GANTRY_TIMED_OUT, "'c'", "");
  send(out, bytes_of(1, 10));
  EXPECT_OK(gantry_receive(in.get(), std::numeric_limits<std::int64_t>::max(), Out(message)));
  send(out, bytes_of(1, 10));
  EXPECT_OK(gantry_receive(in.get(), kForEver, Out(message)));
  send(out, bytes_of(1, 10));
  EXPECT_OK(gantry_receive(in.get(), 0, Out(message)));
}

TEST_F(Refusals, NullIsRefusedAndNotFollowed) {
  const auto out = producer();
  const auto in = consumer();
  gantry_producer* no_producer = nullptr;
  gantry_consumer* no_consumer = nullptr;
  gantry_message* no_message = nullptr;
  std::uint64_t ticket = 1;
  std::size_t bytes = 1;
  int descriptor = 1;
  void* data = &bytes;
  const auto null = [](gantry_code code, const char* words) {
    EXPECT_REFUSED(code, GANTRY_INVALID_ARGUMENT, words, "");
  };
  null(gantry_runtime_create(nullptr, nullptr), "runtime is NULL");
  null(gantry_status_json(nullptr, nullptr, 0, &bytes), "runtime is NULL");
  null(gantry_producer_open(nullptr, "c", nullptr, &no_producer), "runtime is NULL");
  null(gantry_producer_open(runtime(), nullptr, nullptr, &no_producer), "name is NULL");
  null(gantry_producer_open(runtime(), "c", nullptr, nullptr), "producer is NULL");
  null(gantry_producer_connect(nullptr, "c", nullptr, 0, &no_producer), "runtime is NULL");
  null(gantry_client_connect(nullptr, "c", nullptr, 0, &no_producer), "runtime is NULL");
  null(gantry_stage_output(nullptr, "c", &no_producer), "runtime is NULL");
  null(gantry_producer_wait_for_consumers(nullptr, 1, 0), "producer is NULL");
  null(gantry_send(nullptr, nullptr, 0, 0, nullptr), "producer is NULL");
  null(gantry_send_async(nullptr, nullptr, 0, 0, nullptr, &ticket), "producer is NULL");
  null(gantry_send_async(out.get(), nullptr, 0, 0, nullptr, nullptr), "ticket is NULL");
  null(gantry_ticket_wait(nullptr, 0, 0), "producer is NULL");
  gantry_loan* loan = nullptr;
  null(gantry_loan_take(nullptr, 1, 0, &loan, &data), "producer is NULL");
  null(gantry_loan_take(out.get(), 1, 0, &loan, nullptr), "data is NULL");
  null(gantry_loan_publish(out.get(), nullptr, 0, nullptr, 0, nullptr), "loan is NULL");
  gantry_pool* pool = nullptr;
  gantry_block* block = nullptr;
  null(gantry_pool_create(nullptr, nullptr), "pool is NULL");
  null(gantry_pool_allocate(nullptr, 1, &block, &data), "pool is NULL");
  null(gantry_pool_find(nullptr, data, &block, nullptr, nullptr), "pool is NULL");
  null(gantry_producer_pool(nullptr, &pool), "producer is NULL");
  null(gantry_producer_descriptor(nullptr, &descriptor), "producer is NULL");
  null(gantry_producer_close(nullptr, 0), "producer is NULL");
  gantry_call* call = nullptr;
  null(gantry_call_begin(nullptr, nullptr, 0, 0, nullptr, &call), "client is NULL");
  null(gantry_call_wait(nullptr, 0, &no_message, &descriptor), "call is NULL");
  null(gantry_consumer_open(nullptr, "c", nullptr, 0, &no_consumer), "runtime is NULL");
  null(gantry_inbox_open(nullptr, "c", nullptr, &no_consumer), "runtime is NULL");
  null(gantry_server_open(nullptr, "c", nullptr, &no_consumer), "runtime is NULL");
  null(gantry_stage_input(nullptr, "c", &no_consumer), "runtime is NULL");
  null(gantry_receive(nullptr, 0, &no_message), "consumer is NULL");
  null(gantry_receive(in.get(), 0, nullptr), "message is NULL");
  null(gantry_receive_into(nullptr, nullptr, 0, 0, &bytes, nullptr), "consumer is NULL");
  null(gantry_receive_into(in.get(), nullptr, 1, 0, &bytes, nullptr), "buffer is NULL");
  null(gantry_consumer_rejoin(nullptr, 0), "consumer is NULL");
  null(gantry_consumer_descriptor(nullptr, &descriptor), "consumer is NULL");
  null(gantry_message_get_info(nullptr, nullptr), "info is NULL");
  null(gantry_message_segment(nullptr, 0, nullptr), "segment is NULL");
  gantry_view* view = nullptr;
  null(gantry_message_view(nullptr, 0, &view, &data), "message is NULL");
  null(gantry_reply(nullptr, nullptr, 0, 0, nullptr), "request is NULL");
  null(gantry_refuse(nullptr, GANTRY_BUSY, nullptr, nullptr), "request is NULL");
  gantry_free(nullptr);
}

TEST_F(Refusals, WhatTheLibraryRefusesComesWithItsWords) {
  const auto out = producer();
  Owned<gantry_producer> other;
  EXPECT_REFUSED(gantry_producer_open(runtime(), "c", nullptr, Out(other)), GANTRY_ALREADY_EXISTS,
                 "'c'", "");
  EXPECT_REFUSED(gantry_producer_open(runtime(), "no/name", nullptr, Out(other)),
                 GANTRY_INVALID_ARGUMENT, "no/name", "");
  gantry_producer_options options{};
  options.size = sizeof options;
  options.slots = 65;
  EXPECT_REFUSED(gantry_producer_open(runtime(), "d", &options, Out(other)),
                 GANTRY_INVALID_ARGUMENT, "65", "");
  options.slots = 64;
  options.mode = 5;
  EXPECT_REFUSED(gantry_producer_open(runtime(), "d", &options, Out(other)),
                 GANTRY_INVALID_ARGUMENT, "no send mode has the number 5", "");
  options.mode = GANTRY_MODE_IMMUTABLE;
  options.spin_ns = -2;
  EXPECT_REFUSED(gantry_producer_open(runtime(), "d", &options, Out(other)),
                 GANTRY_INVALID_ARGUMENT, "spin_ns is -2", "-1 never polls");
  options.spin_ns = -1;
  EXPECT_OK(gantry_producer_open(runtime(), "d", &options, Out(other)));
  Owned<gantry_consumer> in;
  EXPECT_REFUSED(gantry_consumer_open(runtime(), "nobody", nullptr, 0, Out(in)), GANTRY_TIMED_OUT,
                 "nobody", "");
  gantry_consumer_options consuming{};
  consuming.size = sizeof consuming;
  consuming.when_slow = 4;
  EXPECT_REFUSED(gantry_consumer_open(runtime(), "c", &consuming, 0, Out(in)),
                 GANTRY_INVALID_ARGUMENT, "slow consumers has the number 4", "");
  consuming.when_slow = 0;
  consuming.senders = 1;
  EXPECT_REFUSED(gantry_consumer_open(runtime(), "c", &consuming, 0, Out(in)),
                 GANTRY_INVALID_ARGUMENT, "has one sender", "inbox");
  EXPECT_REFUSED(gantry_stage_input(runtime(), "frames", Out(in)), GANTRY_NOT_FOUND, "frames",
                 "pipeline file");
  EXPECT_REFUSED(gantry_stage_output(runtime(), "frames", Out(other)), GANTRY_NOT_FOUND, "frames",
                 "pipeline file");
}

TEST_F(Refusals, APoolWithoutRoomSaysWhoHasIt) {
  gantry_pool_options options{};
  options.size = sizeof options;
  options.name = "tiny";
  options.budget_bytes = 1 << 20;
  options.slab_bytes = 1 << 20;
  Owned<gantry_pool> pool;
  ASSERT_OK(gantry_pool_create(&options, Out(pool)));
  Owned<gantry_block> block;
  Owned<gantry_block> other;
  void* data = nullptr;
  EXPECT_REFUSED(gantry_pool_allocate(pool.get(), 0, Out(block), &data), GANTRY_INVALID_ARGUMENT,
                 "tiny", "");
  EXPECT_REFUSED(gantry_pool_allocate(pool.get(), (1 << 20) + 1, Out(block), &data),
                 GANTRY_TOO_LARGE, "tiny", "");
  EXPECT_EQ(data, nullptr);
  ASSERT_OK(gantry_pool_allocate(pool.get(), 1 << 20, Out(block), &data));
  EXPECT_REFUSED(gantry_pool_allocate(pool.get(), 1, Out(other), &data), GANTRY_OUT_OF_MEMORY,
                 "tiny", "");
  block.reset();
  EXPECT_OK(gantry_pool_allocate(pool.get(), 1, Out(other), &data));
}

TEST_F(Refusals, EachThreadHasItsOwnLastError) {
  gantry_pool_create(nullptr, nullptr);
  EXPECT_EQ(gantry_last_error()->code, GANTRY_INVALID_ARGUMENT);
  EXPECT_EQ(gantry_last_error()->size, sizeof(gantry_error));
  std::thread([] {
    EXPECT_EQ(gantry_last_error()->code, GANTRY_OK);
    EXPECT_STREQ(gantry_last_error()->message, "");
    gantry_refuse(nullptr, GANTRY_BUSY, nullptr, nullptr);
    EXPECT_STREQ(gantry_last_error()->message, "request is NULL");
  }).join();
  EXPECT_STREQ(gantry_last_error()->message, "pool is NULL");
  Owned<gantry_pool> pool;
  EXPECT_OK(gantry_pool_create(nullptr, Out(pool)));
  EXPECT_STREQ(gantry_last_error()->message, "pool is NULL");  // a success leaves it
}

TEST_F(Refusals, LongWordsAreCutOff) {
  const std::string name(5000, 'x');
  Owned<gantry_producer> made;
  EXPECT_EQ(gantry_producer_open(runtime(), name.c_str(), nullptr, Out(made)),
            GANTRY_INVALID_ARGUMENT);
  EXPECT_LT(std::strlen(gantry_last_error()->message), 2048U);
}

}  // namespace
}  // namespace gantry::c::test
