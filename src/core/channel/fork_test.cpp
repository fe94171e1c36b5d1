#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <gantry/call.hpp>
#include <thread>

#include "core/base/test_effort.hpp"
#include "core/channel/test_child.hpp"
#include "core/channel/test_support.hpp"

// What a fork() copies belongs to the parent: every call on it is an error, and to drop it does
// nothing. The exit status of a child is the number of its first check that failed.
namespace gantry {
namespace {

using test::Child;
using test::client_options;
using test::consumer_options;
using test::Gate;
using test::make_producer;
using test::options_in;
using test::pattern;
using test::same;
using test::server_options;
using test::soon;

void require(bool holds, int number) {
  if (!holds) ::_exit(number);
}

template <class T>
void require_refused(const Result<T>& result, int number) {
  require(!result && result.error().code == Code::invalid_argument &&
              result.error().message.find("fork()") != std::string::npos,
          number);
}

class Fork : public testing::Test {
 protected:
  Fork() {
    options_.slots = 4;
    out_.emplace(*make_producer("frames", options_));
    in_.emplace(*Consumer::open("frames", consumer_options(options_), soon()));
  }
  void exchange(std::uint64_t first, std::uint64_t last) {
    for (std::uint64_t i = first; i <= last; ++i) {
      const Bytes size = i % 2 == 0 ? 20 : 5000;
      ASSERT_TRUE(out_->send(pattern(size, i), soon()));
      const auto message = in_->receive(soon());
      ASSERT_TRUE(message) << message.error().message;
      EXPECT_EQ(message->sequence(), i);
      EXPECT_TRUE(same(message->bytes(), pattern(size, i)));
    }
  }

  test::ScratchDirectory directory_;
  ProducerOptions options_ = options_in(directory_);
  std::optional<Producer> out_;
  std::optional<Consumer> in_;
  Gate gate_;
};

// What the copies know is old by then: it makes every consumer look like a liar.
TEST_F(Fork, CopiesThatAreDroppedLateCutNothing) {
  exchange(1, 3);
  Child child([this](const Child&) {
    gate_.wait();
    out_.reset();
    in_.reset();
  });
  exchange(4, 30);
  gate_.open();
  EXPECT_EQ(child.wait(), 0);
  exchange(31, 60);
  EXPECT_TRUE(out_->explain().status.departed.empty());
}

TEST_F(Fork, CallsOnCopiesOfAChannelAreErrors) {
  exchange(1, 1);
  auto loan = out_->loan(5000, soon());
  ASSERT_TRUE(loan);
  Child child([&](const Child&) {
    require_refused(out_->send(pattern(20, 9), soon()), 1);
    require_refused(out_->send(pattern(5000, 9), soon()), 2);
    const auto payload = pattern(20, 9);
    require_refused(out_->send_async(payload), 3);
    require_refused(out_->loan(10, soon()), 4);
    require_refused(out_->publish(std::move(*loan)), 5);
    require_refused(out_->wait_for_consumer(soon()), 6);
    require_refused(out_->close(soon()), 7);
    require_refused(in_->receive(soon()), 8);
    require_refused(in_->receive_early(soon()), 9);
    std::vector<std::byte> buffer(10);
    require_refused(in_->receive_into(buffer, soon()), 10);
    require_refused(in_->rejoin(soon()), 11);
    require_refused(in_->event_descriptor(), 12);
    require_refused(Consumer::receive_any(std::span(&*in_, 1), soon()), 13);
    static_cast<void>(out_->explain());
    static_cast<void>(in_->explain());
  });
  EXPECT_EQ(WEXITSTATUS(child.wait()), 0);
  ASSERT_TRUE(out_->publish(std::move(*loan)));
  ASSERT_TRUE(in_->receive(soon())) << "the parent's own loan";
  exchange(3, 20);
}

// Both have messages of the parent's in hand, and an Incoming.
TEST_F(Fork, WhatACopyHasInHandStaysTheParents) {
  ASSERT_TRUE(out_->send(pattern(5000, 1), soon()));
  ASSERT_TRUE(out_->send(pattern(100'000, 2), {.deadline = soon(), .mode = SendMode::pipelined}));
  std::optional<Message> held(*in_->receive(soon()));
  std::optional<Incoming> landing(*in_->receive_early(soon()));
  Child child([&](const Child&) {
    require_refused(landing->next(soon()), 1);
    require_refused(landing->whole(soon()), 2);
    held.reset();
    landing.reset();
  });
  EXPECT_EQ(WEXITSTATUS(child.wait()), 0);
  exchange(3, 20);
  EXPECT_TRUE(same(held->bytes(), pattern(5000, 1))) << "nobody released it";
  const auto message = landing->whole(soon());
  ASSERT_TRUE(message);
  EXPECT_TRUE(same(message->bytes(), pattern(100'000, 2)));
}

TEST_F(Fork, CallsOnCopiesOfAServerAndItsClientAreErrors) {
  auto server = *Server::open("sum", server_options(options_in(directory_)),
                              std::make_shared<test::PlainEngine>());
  std::optional<Client> client;
  std::thread connecting([&] {
    client.emplace(*Client::connect("sum", client_options(options_in(directory_)),
                                    std::make_shared<test::PlainEngine>(), soon()));
  });
  EXPECT_EQ(server.next(Deadline::after(std::chrono::milliseconds(1))).error().code,
            Code::timed_out);
  connecting.join();
  auto pending = *client->call_async(pattern(100, 1));
  std::optional<Request> request(*server.next(soon()));
  Child child([&](const Child&) {
    require_refused(client->call(pattern(100, 2)), 1);
    require_refused(pending.wait(soon()), 2);
    require_refused(client->event_descriptor(), 3);
    require_refused(client->reconnect(soon()), 4);
    require_refused(server.next(soon()), 5);
    require_refused(request->reply(pattern(100, 3)), 6);
    require_refused(request->loan(100, soon()), 7);
    request.reset();
    client.reset();
    const Server dropped(std::move(server));
  });
  EXPECT_EQ(WEXITSTATUS(child.wait()), 0);
  ASSERT_TRUE(request->reply(pattern(100, 4)));
  const auto reply = pending.wait(soon());
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_TRUE(same(reply->bytes(), pattern(100, 4)));
}

/// Forks a child that opens ends; whether it has ended well in time.
bool child_opens_ends(const ProducerOptions& options, int number) {
  const pid_t child = ::fork();
  if (child == 0) {
    const auto out = make_producer("of-child-" + std::to_string(number), options);
    ::_exit(out ? 0 : 1);
  }
  const Deadline deadline = soon();
  int status = -1;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    if (!deadline.passed()) continue;
    ::kill(child, SIGKILL);
    ::waitpid(child, &status, 0);
    return false;
  }
  return status == 0;
}

// Nothing that belongs to the process is in that thread's hands when the child begins.
TEST_F(Fork, AChildOpensEndsWhateverAThreadOfItsParentWasDoing) {
  if (kTestStride != 1) GTEST_SKIP() << "a sanitizer's allocator stays locked in such a child";
  std::atomic<bool> enough{false};
  std::thread opens([&] {
    while (!enough) ASSERT_TRUE(make_producer("of-thread", options_));
  });
  for (int i = 0; i < 300; ++i)
    if (!child_opens_ends(options_, i)) {
      ADD_FAILURE() << "child " << i << " hung or failed";
      break;
    }
  enough = true;
  opens.join();
}

}  // namespace
}  // namespace gantry
