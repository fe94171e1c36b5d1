#include <gmock/gmock.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <atomic>
#include <cstdio>
#include <mutex>
#include <thread>

#include "core/base/test_effort.hpp"
#include "core/channel/queue/queue_protocol.hpp"
#include "core/channel/queue/test_queue.hpp"
#include "core/channel/rpc/client.hpp"
#include "core/channel/wire/protocol.hpp"

// A queue of work between threads: each item once, whole, in order; what comes back.
namespace gantry {
namespace {

using test::pattern;
using test::same;
using test::soon;
using testing::HasSubstr;
using testing::StartsWith;

using WorkQueues = test::Queues;

TEST_F(WorkQueues, EachItemComesOutWholeAndInOrder) {
  WorkQueue queue = open();
  WorkMember member = join();
  const std::vector<std::size_t> sizes = {0, 1, 64, 65, 4096, 4097, 65'536, 65'537, 3'000'000};
  for (std::size_t i = 0; i < sizes.size(); ++i)
    ASSERT_TRUE(member.put(pattern(sizes[i], i), soon()));
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    auto item = member.get(soon());
    ASSERT_TRUE(item) << to_string(item.error());
    EXPECT_EQ(item->segments(), 1u);
    EXPECT_TRUE(same(item->bytes(), pattern(sizes[i], i))) << sizes[i];
    EXPECT_EQ(item->number(), i + 1);
    EXPECT_EQ(item->tries(), 1u);
  }
  EXPECT_EQ(get_code(member), Code::timed_out);
}

TEST_F(WorkQueues, SegmentsAndTheirTensorsStayWhatTheyWere) {
  WorkQueue queue = open();
  WorkMember member = join();
  const std::vector<std::int64_t> shape = {2, 3};
  const Tensor tensor = Tensor::dense({DataType::floating, 32, 1}, shape);
  for (const std::size_t large : {std::size_t{24}, std::size_t{2'000'000}}) {
    const auto first = pattern(24, 1);
    const auto second = pattern(large, 2);
    auto block = member.pool().allocate(24);
    ASSERT_TRUE(block);
    std::ranges::copy(first, block->bytes().begin());
    ASSERT_TRUE(member.put(Draft().move(std::move(*block), tensor).copy(second), soon()));
    auto item = member.get(soon());
    ASSERT_TRUE(item) << to_string(item.error());
    ASSERT_EQ(item->segments(), 2u);
    EXPECT_EQ(item->segment(0).tensor, tensor);
    EXPECT_TRUE(same(item->segment(0).bytes.first(24), first));
    EXPECT_FALSE(item->segment(1).tensor);
    EXPECT_TRUE(same(item->segment(1).bytes, second));
    EXPECT_TRUE(item->segment(2).bytes.empty());
  }
}

// Four put, four get: every item reaches exactly one, with its bytes.
TEST_F(WorkQueues, EachItemReachesExactlyOneOfMany) {
  constexpr int kMembers = 4;
  const unsigned kItems = 400u / kTestStride;  // of each
  for (const Acknowledge acknowledge : {Acknowledge::on_get, Acknowledge::by_hand}) {
    WorkQueue queue = open();
    std::vector<std::thread> threads;
    std::mutex mutex;
    std::map<std::pair<std::uint32_t, std::uint32_t>, int> seen;
    std::atomic<int> putting = kMembers;
    for (std::uint32_t who = 0; who < kMembers; ++who) {
      threads.emplace_back([&, who] {
        WorkMember member = join();
        for (std::uint32_t i = 0; i < kItems; ++i) {
          auto bytes = pattern(i % 7 == 0 ? 100'000 : 12 + i, who * 1000 + i);
          std::memcpy(bytes.data(), &who, 4), std::memcpy(bytes.data() + 4, &i, 4);
          ASSERT_TRUE(member.put(bytes, soon()));
        }
        if (--putting == 0) queue.finish();
        ASSERT_TRUE(queue.wait_until_done(soon()));
      });
      threads.emplace_back([&] {
        WorkMember member = join(acknowledge);
        for (;;) {
          auto item = member.get(soon());
          if (!item) {
            ASSERT_EQ(item.error().code, Code::closed) << to_string(item.error());
            return;
          }
          std::uint32_t by = 0, i = 0;
          ASSERT_GE(item->bytes().size(), 8u);
          std::memcpy(&by, item->bytes().data(), 4), std::memcpy(&i, item->bytes().data() + 4, 4);
          auto wanted = pattern(i % 7 == 0 ? 100'000 : 12 + i, by * 1000 + i);
          std::memcpy(wanted.data(), &by, 4), std::memcpy(wanted.data() + 4, &i, 4);
          ASSERT_TRUE(same(item->bytes(), wanted));
          if (acknowledge == Acknowledge::by_hand) {
            ASSERT_TRUE(item->done());
          }
          const std::lock_guard lock(mutex);
          ++seen[{by, i}];
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(seen.size(), static_cast<std::size_t>(kMembers * kItems));
    for (const auto& [item, times] : seen) ASSERT_EQ(times, 1) << item.first << ", " << item.second;
    const WorkQueueReport report = queue.report();
    EXPECT_EQ(report.put, seen.size());
    EXPECT_EQ(report.acknowledged, seen.size());
    EXPECT_EQ(report.dropped + report.redelivered + report.in_hand + report.waiting_items, 0u);
  }
}

// Those who ask are served in the order in which they asked.
TEST_F(WorkQueues, WorkersAreServedInTurn) {
  WorkQueue queue = open();
  WorkMember first = join(), second = join(), putting = join();
  EXPECT_EQ(get_code(first), Code::timed_out);
  EXPECT_EQ(get_code(first, Deadline::after(std::chrono::milliseconds(1))), Code::timed_out);
  while (queue.report().waiting_workers < 1) EXPECT_EQ(get_code(first), Code::timed_out);
  EXPECT_EQ(get_code(second), Code::timed_out);
  while (queue.report().waiting_workers < 2) EXPECT_EQ(get_code(second), Code::timed_out);
  for (std::uint8_t i = 1; i <= 2; ++i) {
    const auto byte = static_cast<std::byte>(i);
    ASSERT_TRUE(putting.put({&byte, 1}, soon()));
  }
  EXPECT_EQ(second.get(soon())->number(), 2u);
  EXPECT_EQ(first.get(soon())->number(), 1u);
}

TEST_F(WorkQueues, WhatIsNotAcknowledgedGoesToAnother) {
  WorkQueue queue = open();
  WorkMember putting = join();
  const auto small = pattern(40, 1), large = pattern(900'000, 2);
  ASSERT_TRUE(putting.put(small, soon()));
  ASSERT_TRUE(putting.put(large, soon()));
  {
    WorkMember leaves = join(Acknowledge::by_hand);
    auto one = leaves.get(soon());
    auto other = leaves.get(soon());
    ASSERT_TRUE(one && other);
    ASSERT_TRUE(one->done());
    EXPECT_EQ(one->done().error().code, Code::invalid_argument);
  }  // with the other in hand
  WorkMember stays = join(Acknowledge::by_hand);
  {
    auto again = stays.get(soon());
    ASSERT_TRUE(again);
    EXPECT_EQ(again->number(), 2u);
    EXPECT_EQ(again->tries(), 2u);
    EXPECT_TRUE(same(again->bytes(), large));
  }  // given back
  auto third = stays.get(soon());
  ASSERT_TRUE(third);
  EXPECT_EQ(third->tries(), 3u);
  EXPECT_TRUE(same(third->bytes(), large));
  ASSERT_TRUE(third->done());
  queue.finish();
  ASSERT_TRUE(queue.wait_until_done(soon()));
  EXPECT_EQ(queue.report().redelivered, 2u);
  EXPECT_EQ(queue.report().acknowledged, 2u);
}

// The member's item outlives it, or not; the putter is there, or has left.
class LeftItems : public WorkQueues, public testing::WithParamInterface<std::tuple<bool, bool>> {};

TEST_P(LeftItems, ComeOutAgainAsTheyWerePut) {
  const auto [item_goes_first, putter_leaves] = GetParam();
  const std::array<Bytes, 4> sizes{70'000, 64, Bytes{20} << 20, 300'000};
  WorkQueue queue = open({.most_copied = 0});
  std::optional<WorkMember> putter = join(Acknowledge::on_get, 8);
  put_all(*putter, sizes);
  std::vector<WorkItem> kept;
  for (int leaves = 0; leaves < 3; ++leaves) {
    WorkMember leaver = join(Acknowledge::by_hand);
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      auto item = leaver.get(soon());
      ASSERT_TRUE(item) << to_string(item.error());
      ASSERT_TRUE(is_whole(*item, sizes));
      if (!item_goes_first) kept.push_back(std::move(*item));
    }
  }
  if (putter_leaves) putter.reset();
  WorkMember stays = join(Acknowledge::by_hand);
  expect_each_once(stays, sizes);
  // The items that the leavers still hold are untouched by all that happened since.
  for (const WorkItem& item : kept) EXPECT_TRUE(is_whole(item, sizes));
}

// The leavers are gone with their items, so each slot of the putter's is free again.
TEST_F(WorkQueues, ALeaversItemsGiveTheirSlotsBack) {
  constexpr unsigned kSlots = 4;
  WorkQueue queue = open({.most_copied = 0});
  WorkMember putter = join(Acknowledge::on_get, kSlots);
  for (unsigned round = 0; round < 6; ++round) {
    for (unsigned i = 0; i < kSlots; ++i)
      ASSERT_TRUE(putter.put(pattern(100'000, round * kSlots + i), soon())) << round;
    std::vector<WorkItem> kept;
    {
      WorkMember leaver = join(Acknowledge::by_hand);
      for (unsigned i = 0; i < kSlots; ++i) kept.push_back(*leaver.get(soon()));
    }
    WorkMember stays = join(Acknowledge::by_hand);
    for (unsigned i = 0; i < kSlots; ++i) {
      auto item = stays.get(soon());
      ASSERT_TRUE(item) << to_string(item.error());
      EXPECT_TRUE(same(item->bytes(), pattern(100'000, item->number() - 1)));
      ASSERT_TRUE(item->done());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, LeftItems, testing::Combine(testing::Bool(), testing::Bool()));

TEST_F(WorkQueues, AnItemThatNobodyFinishesIsDropped) {
  WorkQueue queue = open({.most_tries = 2});
  WorkMember member = join(Acknowledge::by_hand);
  ASSERT_TRUE(member.put(pattern(10, 1), soon()));
  for (unsigned i = 1; i <= 2; ++i) EXPECT_EQ(member.get(soon())->tries(), i);
  queue.finish();
  EXPECT_EQ(get_code(member, soon()), Code::closed);
  EXPECT_EQ(queue.report().dropped, 1u);
}

TEST_F(WorkQueues, APutterWaitsWhenItsSlotsAreFull) {
  WorkQueue queue = open({.most_copied = 2});
  WorkMember putting = join(Acknowledge::on_get, 3), working = join();
  int put = 0;
  while (putting.put(pattern(10, static_cast<std::uint64_t>(put)),
                     Deadline::after(std::chrono::milliseconds(200))))
    ++put;
  EXPECT_EQ(put, 2 + 3);
  for (int i = 0; i < put; ++i)
    EXPECT_TRUE(same(working.get(soon())->bytes(), pattern(10, static_cast<std::uint64_t>(i))));
  EXPECT_TRUE(putting.put(pattern(10, 9), soon()));
  EXPECT_TRUE(same(working.get(soon())->bytes(), pattern(10, 9)));
}

TEST_F(WorkQueues, WhatWasPutBeforeTheEndComesOutAndWhatComesAfterIsCounted) {
  WorkQueue queue = open();
  WorkMember member = join();
  for (std::uint64_t i = 0; i < 5; ++i) ASSERT_TRUE(member.put(pattern(200, i), soon()));
  queue.finish();
  for (std::uint64_t i = 0; i < 5; ++i) {
    const auto item = member.get(soon());
    ASSERT_TRUE(item) << i << ": " << item.error().message;
    EXPECT_TRUE(same(item->bytes(), pattern(200, i)));
  }
  EXPECT_EQ(get_code(member, soon()), Code::closed);
  ASSERT_TRUE(member.put(pattern(200, 9), soon()));
  while (queue.report().dropped == 0) EXPECT_EQ(get_code(member, soon()), Code::closed);
  EXPECT_EQ(queue.report().put, 5u);
}

// As far as that caller knows it is in, and what it puts was put before the end.
TEST_F(WorkQueues, FinishWaitsForACallerWhoseHandshakeIsUnderWay) {
  WorkQueue queue = open();
  WorkMember member = join();
  EXPECT_EQ(get_code(member), Code::timed_out);
  auto caller = connect_to(directory_.path(), "jobs.sock");
  ASSERT_TRUE(caller);
  ASSERT_TRUE(send_hello(caller->get(), Purpose::work));
  ASSERT_TRUE(receive_wire(caller->get(), soon()));  // its own hello
  queue.finish();
  ASSERT_TRUE(queue.wait_until_done(soon()));  // turns have passed since
  EXPECT_EQ(get_code(member), Code::timed_out);
  caller->reset();
  EXPECT_EQ(get_code(member, soon()), Code::closed);
}

// The first puts of a member that has just joined come before a finish() that follows them.
TEST_F(WorkQueues, WhatANewMemberPutsIsBeforeTheEnd) {
  for (int i = 0; i < 200 / kTestStride; ++i) {
    WorkQueue queue = open();
    WorkMember member = join();
    ASSERT_TRUE(member.put(pattern(10, 1), soon()));
    queue.finish();
    ASSERT_TRUE(member.get(soon())) << i;
    EXPECT_EQ(queue.report().dropped, 0u);
  }
}

// Four times as many as an honest member has in flight: some of its own may have been given up.
TEST_F(WorkQueues, AMemberWithoutEndOfRequestsWaitsWithFewOfThem) {
  WorkQueue queue = open();
  ClientOptions options;
  options.directory = directory_.path();
  const auto hog = ClientLink::make(Purpose::work, "jobs", options,
                                    std::make_shared<test::PlainEngine>(), soon());
  ASSERT_TRUE(hog);
  ASSERT_TRUE((*hog)->introduce(soon()));
  constexpr std::byte kWord{};
  for (std::uint64_t i = 1; i <= 3000; ++i)
    ASSERT_TRUE((*hog)->requests().send({&kWord, 1},
                                        {.deadline = soon(),
                                         .type = static_cast<std::uint32_t>(WorkQuestion::item),
                                         .user = static_cast<std::uint64_t>(RpcKind::request),
                                         .correlation = i}));
  // All but those in its ring have been taken by now.
  while (queue.report().waiting_workers < 4 * Client::kMaxCalls) std::this_thread::yield();
  EXPECT_EQ(queue.report().waiting_workers, 4 * Client::kMaxCalls);
  (*hog)->hang_up();
  WorkMember member = join();
  ASSERT_TRUE(member.put(pattern(100, 1), soon()));
  EXPECT_TRUE(same(member.get(soon())->bytes(), pattern(100, 1)));
}

TEST_F(WorkQueues, AMemberThatHoldsTooMuchIsToldSo) {
  WorkQueueOptions options;
  options.replies.slots = 2;
  WorkQueue queue = open(options);
  WorkMember member = join();
  for (std::uint64_t i = 0; i < 3; ++i) ASSERT_TRUE(member.put(pattern(100, i), soon()));
  auto one = member.get(soon());
  auto other = member.get(soon());
  ASSERT_TRUE(one && other);
  const auto third = member.get(soon());
  ASSERT_FALSE(third);
  EXPECT_EQ(third.error().code, Code::busy) << to_string(third.error());
  EXPECT_THAT(third.error().message, testing::HasSubstr("drop some"));
  *one = {};
  EXPECT_TRUE(same(member.get(soon())->bytes(), pattern(100, 2)));
}

// finish() has the dispatcher's event rung in most turns that threads of this process have.
TEST_F(WorkQueues, TurnsThatAreRungTryNoItemOfAMemberThatHoldsTooMuch) {
  constexpr std::uint64_t kItems = 20;
  WorkQueueOptions options;
  options.replies.slots = 1;
  options.most_tries = 1;
  WorkQueue queue = open(options);
  WorkMember member = join(Acknowledge::by_hand);
  for (std::uint64_t i = 0; i < kItems; ++i) ASSERT_TRUE(member.put(pattern(5000, i), soon()));
  auto item = member.get(soon());
  ASSERT_TRUE(item) << to_string(item.error());
  queue.finish();
  std::atomic<bool> is_over = false;
  std::thread turns([&] {
    while (!is_over) EXPECT_FALSE(queue.take_here());
  });
  for (int i = 0; i < 200 / kTestStride; ++i) EXPECT_EQ(get_code(member, soon()), Code::busy);
  for (std::uint64_t number = 1; number <= kItems && item; ++number) {
    EXPECT_EQ(item->number(), number);
    EXPECT_TRUE(item->done());
    *item = {};
    item = member.get(soon());
  }
  EXPECT_EQ(item.error().code, Code::closed) << to_string(item.error());
  is_over = true;
  turns.join();
  EXPECT_EQ(queue.report().dropped, 0u);
  EXPECT_EQ(queue.report().acknowledged, kItems);
}

TEST_F(WorkQueues, ItsDescriptorTellsOfAnItem) {
  WorkQueue queue = open();
  WorkMember putting = join(), working = join();
  EXPECT_EQ(working.event_descriptor().error().code, Code::invalid_argument);
  EXPECT_EQ(get_code(working), Code::timed_out);
  const auto descriptor = working.event_descriptor();
  ASSERT_TRUE(descriptor);
  ASSERT_TRUE(putting.put(pattern(10, 1), soon()));
  for (;;) {
    pollfd entry{*descriptor, POLLIN, 0};
    ASSERT_EQ(::poll(&entry, 1, 60'000), 1);
    auto item = working.get(Deadline::now());
    if (!item) continue;
    EXPECT_TRUE(same(item->bytes(), pattern(10, 1)));
    break;
  }
}

TEST_F(WorkQueues, WhenTheQueueGoesItsMembersHearOfIt) {
  std::optional<WorkQueue> queue = open();
  WorkMember member = join(Acknowledge::by_hand);
  ASSERT_TRUE(member.put(pattern(10, 1), soon()));
  auto item = member.get(soon());
  ASSERT_TRUE(item);
  EXPECT_EQ(get_code(member), Code::timed_out);
  queue.reset();
  EXPECT_EQ(get_code(member, soon()), Code::peer_gone);
  Result<void> put;
  for (int i = 0; put && i < 100; ++i) put = member.put(pattern(10, 2), soon());
  EXPECT_EQ(put.error().code, Code::peer_gone);
  EXPECT_TRUE(same(item->bytes(), pattern(10, 1)));
}

// It was empty: workers that ask again later hear the end of the stream, and no failure.
TEST_F(WorkQueues, AFinishedQueueThatHasGoneIsClosedForItsWorkers) {
  std::optional<WorkQueue> queue(open({}));
  WorkMember putter = join();
  WorkMember had_one = join();
  WorkMember had_none = join();
  ASSERT_TRUE(putter.put(pattern(1000, 0), soon()));
  ASSERT_TRUE(had_one.get(soon()));
  EXPECT_EQ(get_code(had_none), Code::timed_out);  // its way back is established
  queue->finish();
  ASSERT_TRUE(queue->wait_until_done(soon()));
  queue.reset();
  EXPECT_EQ(get_code(had_one, soon()), Code::closed);
  EXPECT_EQ(get_code(had_none, soon()), Code::closed);
  EXPECT_EQ(get_code(had_none, soon()), Code::closed);
}

// A caller that has not said what it wants keeps the input open for a while.
TEST_F(WorkQueues, AFinishedQueueThatHasGoneIsClosedBesideACallerThatHangs) {
  for (int round = 0; round < 20; ++round) {
    std::optional<WorkQueue> queue(open({}));
    WorkMember asks = join(), asked = join();
    EXPECT_EQ(get_code(asked), Code::timed_out);
    EXPECT_EQ(get_code(asks), Code::timed_out);  // its way back is established
    EXPECT_EQ(asks.withdraw(soon()).error().code, Code::timed_out);
    const Fd caller(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    std::snprintf(address.sun_path, sizeof address.sun_path, "%s/jobs.sock",
                  directory_.path().c_str());
    ASSERT_EQ(::connect(caller.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
              0);
    WorkMember behind_it = join();  // so the queue has seen it
    queue->finish();
    ASSERT_TRUE(queue->wait_until_done(soon()));
    queue.reset();
    EXPECT_EQ(get_code(asked, soon()), Code::closed);
    EXPECT_EQ(get_code(asks, soon()), Code::closed);
  }
}

// put() had returned: who waits for all of it is not told that all is well.
TEST_F(WorkQueues, WhatTheQueueHangsUpOnIsNotLostSilently) {
  WorkQueueOptions options;
  options.most_copied = 0;
  options.channel.receive.mapped_bytes = kMiB;
  WorkQueue queue = open(options);
  WorkMember putter = join();
  ASSERT_TRUE(putter.put(pattern(Bytes{8} << 20, 0), soon()));
  Result<void> put;
  while (put) put = putter.put(pattern(1000, 1), soon());
  EXPECT_EQ(put.error().code, Code::peer_gone);
  EXPECT_THAT(put.error().message, HasSubstr("what this end sends is more than it takes"));
  EXPECT_THAT(put.error().hint, HasSubstr("mapped_bytes"));
  const auto done = queue.wait_until_done(soon());
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Code::too_large);
  EXPECT_THAT(done.error().message, HasSubstr("had put is lost"));
  EXPECT_EQ(queue.report().dropped, 1u);
  EXPECT_TRUE(queue.wait_until_done(soon())) << "it is said once";
}

TEST_F(WorkQueues, AMemberIsRefusedWhereNoQueueIs) {
  InboxOptions options;
  options.channel.directory = directory_.path();
  const auto inbox = Inbox::open("jobs", options);
  ASSERT_TRUE(inbox);
  WorkMemberOptions joining;
  joining.directory = directory_.path();
  const auto member =
      WorkMember::connect("jobs", joining, std::make_shared<test::PlainEngine>(), soon());
  ASSERT_FALSE(member);
  EXPECT_EQ(member.error().code, Code::invalid_argument);
  EXPECT_EQ(member.error().message, "queue 'jobs': the name's owner is of another kind: inbox");
}

TEST_F(WorkQueues, AMemberWithoutItsQueueIsToldTheNamesThatThereAre) {
  WorkQueue queue = open();
  WorkMemberOptions joining;
  joining.directory = directory_.path();
  const auto member =
      WorkMember::connect("jbos", joining, std::make_shared<test::PlainEngine>(), Deadline::now());
  ASSERT_FALSE(member);
  EXPECT_EQ(to_string(member.error()),
            "queue 'jbos': no queue appeared in time; start the queue, or check the name and "
            "GANTRY_DIR: in " +
                directory_.path() + " there is jobs");
}

TEST_F(WorkQueues, ItsOwnErrorsCallItAQueue) {
  std::optional<WorkQueue> queue(open());
  WorkMember member = join();
  EXPECT_FALSE(member.get(Deadline::now()));
  queue.reset();
  const auto item = member.get(soon());
  ASSERT_FALSE(item);
  EXPECT_THAT(item.error().message, StartsWith("queue 'jobs'"));
  Result<void> put;
  while (put) put = member.put(pattern(10, 1), soon());
  EXPECT_THAT(put.error().message, StartsWith("queue 'jobs': the queue (process "));
}

TEST_F(WorkQueues, RefuseWhatIsNoNameAndASecondOne) {
  EXPECT_EQ(
      WorkQueue::open(std::string(65, 'x'), {}, std::make_shared<test::PlainEngine>()).error().code,
      Code::invalid_argument);
  for (const auto& [name, what] : {std::pair{"a/b", "channel name 'a/b': '/' is not allowed"},
                                   {"", "channel name '': it is empty"}})
    EXPECT_EQ(WorkQueue::open(name, {}, std::make_shared<test::PlainEngine>()).error().message,
              what);
  WorkQueue queue = open();
  WorkQueueOptions options;
  options.channel.directory = directory_.path();
  const auto second = WorkQueue::open("jobs", options, std::make_shared<test::PlainEngine>());
  EXPECT_EQ(second.error().code, Code::already_exists);
  EXPECT_EQ(second.error().message, "queue 'jobs': this process has that name already");
}

// One that speaks the protocol, and claims what is another's.
TEST_F(WorkQueues, AStrangerGetsNothingAndTakesNothing) {
  WorkQueue queue = open();
  WorkMember member = join(Acknowledge::by_hand);
  ASSERT_TRUE(member.put(pattern(10, 1), soon()));
  auto item = member.get(soon());
  ASSERT_TRUE(item);
  ClientOptions options;
  options.directory = directory_.path();
  const auto engine = std::make_shared<test::PlainEngine>();
  const auto client = Client::connect("jobs", options, engine, soon());
  EXPECT_EQ(client.error().code, Code::invalid_argument);
  EXPECT_EQ(client.error().message, "channel 'jobs': the name's owner is of another kind: queue");
  const auto stranger = *ClientLink::make(Purpose::work, "jobs", options, engine, soon());
  for (const RpcKind said : {RpcKind::post, RpcKind::note})
    for (std::uint32_t what = 0; what < 8; ++what)
      for (const std::uint64_t of : {std::uint64_t{0}, item->number(), std::uint64_t{77}})
        ASSERT_TRUE(stranger->requests().send(
            pattern(8, what),
            {.type = what, .user = static_cast<std::uint64_t>(said), .correlation = of}));
  ASSERT_TRUE(stranger->introduce(soon()));
  const auto call = stranger->begin({.type = 77}, [&](const SendOptions& sending) {
    return stranger->requests().send(pattern(3, 1), sending);
  });
  ASSERT_TRUE(call);
  EXPECT_EQ(stranger->wait(*call, soon()).error().code, Code::invalid_argument);
  while (queue.report().members < 2) std::this_thread::yield();
  EXPECT_EQ(queue.report().in_hand, 1u);
  EXPECT_EQ(queue.report().put, 1u);
  ASSERT_TRUE(item->done());
  queue.finish();
  EXPECT_TRUE(queue.wait_until_done(soon()));
  EXPECT_EQ(queue.report().acknowledged, 1u);
}

}  // namespace
}  // namespace gantry
