// c/rpc_test.cpp: calls and replies.

#include <poll.h>

#include <array>
#include <thread>

#include "test_ends.hpp"

namespace gantry::c::test {
namespace {

class Calls : public Ends {
 protected:
  Calls() {
    EXPECT_OK(gantry_server_open(runtime(), "serve", nullptr, Out(server_)));
    EXPECT_OK(gantry_client_connect(runtime(), "serve", nullptr, kPatienceNs, Out(client_)));
  }
  [[nodiscard]] Owned<gantry_call> begin(const std::vector<unsigned char>& bytes,
                                         std::uint32_t type = 0,
                                         std::int64_t timeout_ns = kPatienceNs) const {
    Owned<gantry_call> call;
    const gantry_part part = part_of(bytes);
    gantry_send_options options{};
    options.size = sizeof options;
    options.type = type;
    EXPECT_OK(gantry_call_begin(client_.get(), &part, 1, timeout_ns, &options, Out(call)));
    return call;
  }
  static void reply(const Owned<gantry_message>& request, const std::vector<unsigned char>& bytes) {
    const gantry_part part = part_of(bytes);
    EXPECT_OK(gantry_reply(request.get(), &part, 1, kPatienceNs, nullptr));
  }

  Owned<gantry_consumer> server_;
  Owned<gantry_producer> client_;
  int is_over_ = -1;
  Owned<gantry_message> answer_;
};

TEST_F(Calls, EachReplyIsThatOfItsRequest) {
  std::vector<Owned<gantry_call>> calls;
  for (std::size_t i = 0; i < 5; ++i)
    calls.push_back(begin(bytes_of(i, 100 + i), static_cast<std::uint32_t>(i)));
  std::vector<Owned<gantry_message>> requests;
  for (std::size_t i = 0; i < 5; ++i) {
    requests.push_back(receive(server_));
    const gantry_message_info info = info_of(requests[i].get());
    expect_bytes(requests[i].get(), 100 + i, i);
    EXPECT_EQ(info.type, i);
    EXPECT_EQ(info.wants_reply, 1);
    EXPECT_NE(info.correlation, 0U);
    EXPECT_NE(info.deadline_ns, 0U);
    EXPECT_EQ(info.sender_pid, ::getpid());
  }
  for (std::size_t i = 5; i-- > 0;) reply(requests[i], bytes_of(10 + i, 70'000));
  EXPECT_EQ(info_of(requests[0].get()).wants_reply, 0);
  EXPECT_REFUSED(gantry_reply(requests[0].get(), nullptr, 0, 0, nullptr), GANTRY_INVALID_ARGUMENT,
                 "has been answered", "");
  for (std::size_t i = 0; i < 5; ++i) {
    ASSERT_OK(gantry_call_wait(calls[i].get(), kPatienceNs, Out(answer_), &is_over_));
    EXPECT_EQ(is_over_, 1);
    expect_bytes(answer_.get(), 70'000, 10 + i);
    EXPECT_REFUSED(gantry_call_wait(calls[i].get(), 0, Out(answer_), nullptr),
                   GANTRY_INVALID_ARGUMENT, "its outcome was taken", "");
  }
}

TEST_F(Calls, ARefusalReachesTheClientWithItsCodeAndWords) {
  const auto call = begin(bytes_of(1, 10));
  const auto request = receive(server_);
  EXPECT_REFUSED(gantry_refuse(request.get(), GANTRY_OK, "", ""), GANTRY_INVALID_ARGUMENT,
                 "not refused with GANTRY_OK", "gantry_reply()");
  ASSERT_OK(gantry_refuse(request.get(), GANTRY_NOT_FOUND, "no such model", "train one"));
  EXPECT_REFUSED(gantry_call_wait(call.get(), kPatienceNs, Out(answer_), &is_over_),
                 GANTRY_NOT_FOUND, "no such model", "");
  EXPECT_EQ(is_over_, 1);
}

TEST_F(Calls, ARequestThatIsFreedWithoutAReplyIsAborted) {
  const auto call = begin(bytes_of(1, 10));
  receive(server_).reset();
  EXPECT_REFUSED(gantry_call_wait(call.get(), kPatienceNs, Out(answer_), &is_over_), GANTRY_ABORTED,
                 "", "");
}

TEST_F(Calls, ACallIsOverAtItsTimeAndNotAtItsWaits) {
  const auto call = begin(bytes_of(1, 10));
  EXPECT_REFUSED(gantry_call_wait(call.get(), 0, Out(answer_), &is_over_), GANTRY_TIMED_OUT,
                 "no reply in time", "");
  EXPECT_EQ(is_over_, 0);
  const auto brief = begin(bytes_of(2, 10), 0, 1'000'000);
  EXPECT_REFUSED(gantry_call_wait(brief.get(), kForEver, Out(answer_), &is_over_), GANTRY_TIMED_OUT,
                 "no reply in time", "");
  EXPECT_EQ(is_over_, 1);
  const auto request = receive(server_);
  expect_bytes(request.get(), 10, 1);
  reply(request, bytes_of(3, 10));
  EXPECT_OK(gantry_call_wait(call.get(), kPatienceNs, Out(answer_), &is_over_));
}

TEST_F(Calls, AFreedCallIsCancelled) {
  auto call = begin(bytes_of(1, 10));
  const auto request = receive(server_);
  EXPECT_EQ(info_of(request.get()).wants_reply, 1);
  call.reset();
  EXPECT_EQ(info_of(request.get()).wants_reply, 0);
}

TEST_F(Calls, ALoopAwaitsRepliesByTheDescriptor) {
  std::vector<Owned<gantry_call>> calls;
  std::thread serving([&] {
    for (std::size_t i = 0; i < 8; ++i) reply(receive(server_), bytes_of(20 + i, 100));
  });
  for (std::size_t i = 0; i < 8; ++i) calls.push_back(begin(bytes_of(i, 10)));
  int descriptor = -1;
  for (std::size_t left = calls.size(); left != 0;) {
    ASSERT_OK(gantry_producer_descriptor(client_.get(), &descriptor));
    for (std::size_t i = 0; i < calls.size(); ++i) {
      if (!calls[i]) continue;
      const gantry_code code = gantry_call_wait(calls[i].get(), 0, Out(answer_), nullptr);
      if (code == GANTRY_TIMED_OUT) continue;
      ASSERT_EQ(told(code), "ok");
      expect_bytes(answer_.get(), 100, 20 + i);
      calls[i].reset();
      --left;
    }
    pollfd entry{descriptor, POLLIN, 0};
    ASSERT_TRUE(left == 0 || ::poll(&entry, 1, 60'000) == 1);
  }
  serving.join();
  ASSERT_OK(gantry_producer_descriptor(client_.get(), &descriptor));
  pollfd silent{descriptor, POLLIN, 0};
  EXPECT_EQ(::poll(&silent, 1, 0), 0);  // it has been noted that they ended
}

TEST_F(Calls, PoolsTakeRequestsAndRepliesWithoutACopy) {
  Owned<gantry_pool> pool;
  ASSERT_OK(gantry_pool_create(nullptr, Out(pool)));
  gantry_consumer_options serving{};
  serving.size = sizeof serving;
  serving.pool = pool.get();
  gantry_producer_options asking{};
  asking.size = sizeof asking;
  asking.pool = pool.get();
  Owned<gantry_consumer> server;
  Owned<gantry_producer> client;
  ASSERT_OK(gantry_server_open(runtime(), "pooled", &serving, Out(server)));
  ASSERT_OK(gantry_client_connect(runtime(), "pooled", &asking, kPatienceNs, Out(client)));
  Owned<gantry_pool> same;
  ASSERT_OK(gantry_producer_pool(client.get(), Out(same)));
  Owned<gantry_block> block;
  void* data = nullptr;
  ASSERT_OK(gantry_pool_allocate(same.get(), 1 << 20, Out(block), &data));
  fill(data, 1 << 20, 1);
  const gantry_part part = part_of(block.get());
  Owned<gantry_call> call;
  ASSERT_OK(gantry_call_begin(client.get(), &part, 1, kPatienceNs, nullptr, Out(call)));
  const auto request = receive(server);
  expect_bytes(request.get(), 1 << 20, 1);
  fill(data, 1 << 20, 2);
  ASSERT_OK(gantry_reply(request.get(), &part, 1, kPatienceNs, nullptr));
  ASSERT_OK(gantry_call_wait(call.get(), kPatienceNs, Out(answer_), nullptr));
  expect_bytes(answer_.get(), 1 << 20, 2);
}

TEST_F(Calls, WhatAClientHasNotIsSaid) {
  EXPECT_REFUSED(gantry_send(client_.get(), nullptr, 0, 0, nullptr), GANTRY_UNSUPPORTED,
                 "gantry_send: a client has no stream", "gantry_call_begin()");
  EXPECT_REFUSED(gantry_producer_close(client_.get(), 0), GANTRY_UNSUPPORTED,
                 "gantry_producer_close: a client has no stream", "");
  Owned<gantry_pool> pool;
  EXPECT_REFUSED(gantry_producer_pool(client_.get(), Out(pool)), GANTRY_UNSUPPORTED,
                 "gantry_producer_pool", "");
  Owned<gantry_call> call;
  const auto out = producer();
  EXPECT_REFUSED(gantry_call_begin(out.get(), nullptr, 0, 0, nullptr, Out(call)),
                 GANTRY_INVALID_ARGUMENT, "is no client", "gantry_client_connect()");
  gantry_send_options options{};
  options.size = sizeof options;
  options.user = 1;
  EXPECT_REFUSED(gantry_call_begin(client_.get(), nullptr, 0, 0, &options, Out(call)),
                 GANTRY_INVALID_ARGUMENT, "neither a mode nor a word", "leave");
  gantry_producer_options asking{};
  asking.size = sizeof asking;
  asking.history = 1;
  Owned<gantry_producer> other;
  EXPECT_REFUSED(gantry_client_connect(runtime(), "serve", &asking, 0, Out(other)),
                 GANTRY_INVALID_ARGUMENT, "no history", "leave");
  const auto in = consumer();
  send(out, bytes_of(1, 10));
  EXPECT_REFUSED(gantry_reply(receive(in).get(), nullptr, 0, 0, nullptr), GANTRY_INVALID_ARGUMENT,
                 "is no request", "gantry_server_open()");
}

TEST_F(Calls, AfterItsServerAClientFindsTheNext) {
  EXPECT_OK(gantry_producer_wait_for_consumers(client_.get(), 1, kPatienceNs));
  const auto call = begin(bytes_of(1, 10));
  server_.reset();
  EXPECT_REFUSED(gantry_call_wait(call.get(), kPatienceNs, Out(answer_), &is_over_),
                 GANTRY_PEER_GONE, "'serve'", "");
  EXPECT_REFUSED(gantry_producer_wait_for_consumers(client_.get(), 1, 0), GANTRY_TIMED_OUT, "serve",
                 "");
  ASSERT_OK(gantry_server_open(runtime(), "serve", nullptr, Out(server_)));
  ASSERT_OK(gantry_producer_wait_for_consumers(client_.get(), 1, kPatienceNs));
  const auto next = begin(bytes_of(2, 10));
  reply(receive(server_), bytes_of(3, 10));
  ASSERT_OK(gantry_call_wait(next.get(), kPatienceNs, Out(answer_), nullptr));
  expect_bytes(answer_.get(), 10, 3);
}

}  // namespace
}  // namespace gantry::c::test
