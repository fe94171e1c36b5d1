#include <gmock/gmock.h>
#include <poll.h>
#include <sys/resource.h>
#include <gantry/call.hpp>

#include <thread>

#include "core/base/clock.hpp"
#include "core/base/event.hpp"
#include "core/channel/test_support.hpp"

// Coroutines that wait for messages: nothing is missed, nothing is resumed that is gone, and a loop
// with nothing to do sleeps.
namespace gantry {
namespace {

using test::client_options;
using test::consumer_options;
using test::make_producer;
using test::options_in;
using test::pattern;
using test::same;
using test::server_options;
using test::soon;

class Async : public testing::Test {
 protected:
  Async() { channel_.spin = std::chrono::nanoseconds(0); }
  static std::shared_ptr<Engine> engine() { return std::make_shared<test::PlainEngine>(); }
  EventLoop loop_ = *EventLoop::create();
  test::ScratchDirectory directory_;
  ProducerOptions channel_ = options_in(directory_);
};

Task<> receive_all(Consumer& in, EventLoop& loop, std::vector<std::uint64_t>& got, Code& end) {
  for (;;) {
    Result<Message> message = co_await next(in, loop);
    if (!message) {
      end = message.error().code;
      co_return;
    }
    got.push_back(message->info().user);
  }
}

std::vector<std::uint64_t> first_numbers(std::size_t count) {
  std::vector<std::uint64_t> numbers(count);
  for (std::size_t i = 0; i < count; ++i) numbers[i] = i;
  return numbers;
}

// The sender pauses at every place there is between two looks of the receiver, on its own account.
TEST_F(Async, NothingIsMissed) {
  constexpr std::size_t kMessages = 20'000;
  auto out = make_producer("frames", channel_);
  auto in = Consumer::open("frames", consumer_options(channel_), soon());
  ASSERT_TRUE(out && in);
  std::thread sender([&] {
    for (std::uint64_t i = 0; i < kMessages; ++i) {
      ASSERT_TRUE(out->send(pattern(i % 3 == 0 ? 8 : 300, i), {.deadline = soon(), .user = i}));
      if (i % 7 == 0) std::this_thread::yield();
    }
    ASSERT_TRUE(out->close(soon()));
  });
  std::vector<std::uint64_t> got;
  Code end = Code::system;
  loop_.spawn(receive_all(*in, loop_, got, end));
  ASSERT_TRUE(loop_.run());
  sender.join();
  EXPECT_EQ(got, first_numbers(kMessages));
  EXPECT_EQ(end, Code::closed);
}

TEST_F(Async, SeveralEndsInOneLoop) {
  constexpr std::size_t kEnds = 5, kMessages = 500;
  std::vector<Producer> out;
  std::vector<Consumer> in;
  for (std::size_t i = 0; i < kEnds; ++i) {
    out.push_back(*make_producer("frames" + std::to_string(i), channel_));
    in.push_back(*Consumer::open("frames" + std::to_string(i), consumer_options(channel_), soon()));
  }
  std::vector<std::vector<std::uint64_t>> got(kEnds);
  std::vector<Code> ends(kEnds, Code::system);
  for (std::size_t i = 0; i < kEnds; ++i) loop_.spawn(receive_all(in[i], loop_, got[i], ends[i]));
  std::thread sender([&] {
    for (std::uint64_t i = 0; i < kMessages; ++i)
      for (auto& one : out) ASSERT_TRUE(one.send(pattern(8, i), {.deadline = soon(), .user = i}));
    for (auto& one : out) ASSERT_TRUE(one.close(soon()));
  });
  ASSERT_TRUE(loop_.run());
  sender.join();
  for (std::size_t i = 0; i < kEnds; ++i) EXPECT_EQ(got[i], first_numbers(kMessages)) << i;
}

/// Says that it is being destroyed.
struct Token {
  explicit Token(int* count) : count_(count) {}
  Token(Token&& other) noexcept : count_(std::exchange(other.count_, nullptr)) {}
  Token& operator=(Token&&) = delete;
  ~Token() {
    if (count_ != nullptr) ++*count_;
  }
  int* count_;
};

Task<> wait_for_one(Consumer& in, EventLoop& loop, Token token, int& resumed) {
  const Result<Message> message = co_await next(in, loop);
  static_cast<void>(token);
  ++resumed;
}

Task<> hold(Task<> inner) {
  co_await std::move(inner);
}

Task<> drop(std::optional<Task<>>& other, int descriptor, EventLoop& loop) {
  EXPECT_TRUE(co_await readable(descriptor, loop));
  other.reset();
}

// Dropped while it sleeps, and dropped when its turn has already come.
TEST_F(Async, ASuspendedCoroutineMayBeDropped) {
  auto out = make_producer("frames", channel_);
  auto in = Consumer::open("frames", consumer_options(channel_), soon());
  ASSERT_TRUE(out && in);
  int destroyed = 0, resumed = 0;
  {
    EventLoop other = *EventLoop::create();
    other.spawn(hold(wait_for_one(*in, other, Token(&destroyed), resumed)));
    other.stop();
    ASSERT_TRUE(other.run());  // before its first step
    std::thread stopper([&] { other.stop(); });
    ASSERT_TRUE(other.run());
    stopper.join();
  }
  EXPECT_EQ(destroyed, 1);
  ASSERT_TRUE(out->send(pattern(8, 1), soon()));
  EXPECT_TRUE(in->receive(soon())) << "nobody else took it";

  std::optional<Task<>> victim(hold(wait_for_one(*in, loop_, Token(&destroyed), resumed)));
  victim->handle().resume();  // until it sleeps
  loop_.spawn(drop(victim, *in->event_descriptor(), loop_));
  ASSERT_TRUE(out->send(pattern(8, 2), soon()));
  ASSERT_TRUE(loop_.run());
  EXPECT_EQ(destroyed, 2);
  EXPECT_LE(resumed, 1);
}

Task<> step(EventLoop& loop, int descriptor, int& steps, int& all) {
  for (;;) {
    const Result<void> woken = co_await readable(descriptor, loop);
    EXPECT_TRUE(woken);
    ++steps;
    if (++all % 3 != 0) continue;
    drain(descriptor);
    loop.stop();
  }
}

TEST_F(Async, AllWhoWaitForADescriptorAreResumed) {
  const Fd event = *make_event();
  std::array<int, 3> steps{};
  int all = 0;
  for (int& count : steps) loop_.spawn(step(loop_, event.get(), count, all));
  for (int round = 1; round <= 3; ++round) {
    ring(event.get());
    ASSERT_TRUE(loop_.run());
    EXPECT_THAT(steps, testing::Each(round));
  }
}

Task<> watch_badly(EventLoop& loop, Code& code) {
  const Result<void> woken = co_await readable(-1, loop);
  code = woken ? Code::closed : woken.error().code;
}

TEST_F(Async, ABadDescriptorIsAnError) {
  Code code = Code::closed;
  loop_.spawn(watch_badly(loop_, code));
  ASSERT_TRUE(loop_.run());
  EXPECT_EQ(code, Code::system);
}

Task<> ask_for_run(EventLoop& loop, Code& code) {
  code = loop.run().error().code;
  co_return;
}

TEST_F(Async, ALoopRunsOnce) {
  Code code = Code::closed;
  loop_.spawn(ask_for_run(loop_, code));
  ASSERT_TRUE(loop_.run());
  EXPECT_EQ(code, Code::busy);
}

// The processor's time is the thread's own; how long it sleeps plays no part.
TEST_F(Async, AnIdleLoopSleeps) {
  auto out = make_producer("frames", channel_);
  auto in = Consumer::open("frames", consumer_options(channel_), soon());
  ASSERT_TRUE(out && in);
  std::vector<std::uint64_t> got;
  Code end = Code::system;
  loop_.spawn(receive_all(*in, loop_, got, end));
  rusage before{}, after{};
  std::uint64_t used_ns = 0;
  std::thread looper([&] {
    const std::uint64_t started = thread_cpu_ns();
    ::getrusage(RUSAGE_THREAD, &before);
    EXPECT_TRUE(loop_.run());
    ::getrusage(RUSAGE_THREAD, &after);
    used_ns = thread_cpu_ns() - started;
  });
  ::poll(nullptr, 0, 300);  // the subject: time in which nothing happens
  loop_.stop();
  looper.join();
  EXPECT_LT(after.ru_nvcsw - before.ru_nvcsw, 20) << "it woke for nothing";
  EXPECT_LT(used_ns, 100'000'000u) << "of 300 ms";
}

Task<> serve(Server& server, EventLoop& loop, int requests) {
  for (int i = 0; i < requests; ++i) {
    Result<Request> request = co_await next(server, loop);
    EXPECT_TRUE(request);
    if (!request) co_return;
    EXPECT_FALSE(request->is_cancelled());  // takes in others, which must not be forgotten
    EXPECT_TRUE(request->reply(request->message().bytes(), {.deadline = soon()}));
  }
}

Task<> ask(Client& client, EventLoop& loop, std::uint64_t seed, int& answered) {
  Result<PendingReply> pending = client.call_async(pattern(200, seed), {.deadline = soon()});
  EXPECT_TRUE(pending);
  if (!pending) co_return;
  const Result<Message> answer = co_await reply(*pending, loop);
  EXPECT_TRUE(answer) << answer.error().message;
  if (answer && same(answer->bytes(), pattern(200, seed))) ++answered;
}

// Whoever takes another's reply out of the ring must wake it.
TEST_F(Async, ManyCallsOfOneClient) {
  constexpr int kCalls = 40;
  channel_.slots = ProducerOptions::kMaxSlots;
  auto server = Server::open("service", server_options(channel_), engine());
  auto client = Client::connect("service", client_options(channel_), engine(), soon());
  ASSERT_TRUE(server && client);
  for (int round = 0; round < 5; ++round) {
    int answered = 0;
    loop_.spawn(serve(*server, loop_, kCalls));
    for (std::uint64_t i = 0; i < kCalls; ++i) loop_.spawn(ask(*client, loop_, i, answered));
    ASSERT_TRUE(loop_.run());
    EXPECT_EQ(answered, kCalls);
  }
}

Task<> ask_in_vain(Client& client, EventLoop& loop, Deadline deadline, std::vector<Code>& codes) {
  Result<PendingReply> pending = client.call_async(pattern(8, 1), {.deadline = deadline});
  EXPECT_TRUE(pending);
  if (!pending) co_return;
  const Result<Message> answer = co_await reply(*pending, loop);
  codes.push_back(answer ? Code::closed : answer.error().code);
}

// Spawned last, it begins when the tasks before it wait.
Task<> end_in_a_thread(Result<Server>& server, std::thread& thread) {
  thread = std::thread([&server] { server = tl::unexpected(Error{}); });
  co_return;
}

TEST_F(Async, DeadlinesAndDeathEndTheWaiting) {
  auto server = Server::open("service", server_options(channel_), engine());
  auto client = Client::connect("service", client_options(channel_), engine(), soon());
  ASSERT_TRUE(server && client);
  std::vector<Code> codes;
  for (int i = 3; i > 0; --i)
    loop_.spawn(ask_in_vain(*client, loop_, Deadline::after(std::chrono::milliseconds(i)), codes));
  ASSERT_TRUE(loop_.run());
  EXPECT_THAT(codes, testing::Each(Code::timed_out));
  codes.clear();
  for (int i = 0; i < 3; ++i) loop_.spawn(ask_in_vain(*client, loop_, Deadline::never(), codes));
  std::thread killer;
  loop_.spawn(end_in_a_thread(server, killer));
  const auto ran = loop_.run();
  if (killer.joinable()) killer.join();
  ASSERT_TRUE(ran);
  EXPECT_EQ(codes.size(), 3u);
  EXPECT_THAT(codes, testing::Each(Code::peer_gone));
}

Task<> collect(Inbox& inbox, EventLoop& loop, std::size_t count, std::vector<std::uint64_t>& got) {
  while (got.size() < count) {
    const Result<Inbox::Delivery> delivery = co_await next(inbox, loop);
    EXPECT_TRUE(delivery);
    if (delivery) got.push_back(delivery->message.info().user);
  }
}

TEST_F(Async, AnInboxInALoop) {
  constexpr std::size_t kProducers = 6, kEach = 200;
  auto inbox = Inbox::open("in", {.channel = consumer_options(channel_)});
  ASSERT_TRUE(inbox);
  std::vector<std::thread> threads;
  for (std::uint64_t p = 0; p < kProducers; ++p)
    threads.emplace_back([&, p] {
      auto out = Producer::connect("in", channel_, engine(), soon());
      ASSERT_TRUE(out);
      for (std::uint64_t i = 0; i < kEach; ++i)
        ASSERT_TRUE(out->send(pattern(8, i), {.deadline = soon(), .user = p}));
    });
  std::vector<std::uint64_t> got;
  loop_.spawn(collect(*inbox, loop_, kProducers * kEach, got));
  ASSERT_TRUE(loop_.run());
  for (auto& thread : threads) thread.join();
  for (std::uint64_t p = 0; p < kProducers; ++p)
    EXPECT_EQ(std::count(got.begin(), got.end(), p), static_cast<std::ptrdiff_t>(kEach));
}

// Some are sent within the call, others behind it.
Bytes size_of(std::uint64_t seed) {
  return seed % 3 == 0 ? 1'100'000 : 50'000;
}

Task<> send_one(Producer& out, EventLoop& loop, std::uint64_t seed, int& done) {
  const auto payload = pattern(size_of(seed), seed);
  Result<Ticket> ticket = out.send_async(payload, {.deadline = soon()});
  EXPECT_TRUE(ticket);
  if (!ticket) co_return;
  const Result<void> over = co_await sent(out, *ticket, loop);
  EXPECT_TRUE(over) << over.error().message;
  ++done;
}

TEST_F(Async, TicketsOfSendAsync) {
  constexpr int kMessages = 30;
  auto out = make_producer("frames", channel_);
  auto in = Consumer::open("frames", consumer_options(channel_), soon());
  ASSERT_TRUE(out && in);
  std::thread consumer([&] {
    for (std::uint64_t i = 0; i < kMessages; ++i)
      EXPECT_TRUE(same(in->receive(soon())->bytes(), pattern(size_of(i), i)));
  });
  int done = 0;
  for (std::uint64_t i = 0; i < kMessages; ++i) loop_.spawn(send_one(*out, loop_, i, done));
  ASSERT_TRUE(loop_.run());
  consumer.join();
  EXPECT_EQ(done, kMessages);
}

// ---- somebody else's loop ------------------------------------------------------------------

/// As little as a loop can be: poll(2).
class PollLoop {
 public:
  Result<void> watch(int descriptor, std::coroutine_handle<> waiting) {
    waiting_.emplace_back(descriptor, waiting);
    return {};
  }
  void unwatch(int descriptor, std::coroutine_handle<> waiting) noexcept {
    std::erase(waiting_, std::pair(descriptor, waiting));
  }
  void run(Task<>& task) {
    task.handle().resume();
    while (!task.is_done()) {
      ASSERT_EQ(waiting_.size(), 1u);
      pollfd entry{waiting_[0].first, POLLIN, 0};
      ::poll(&entry, 1, -1);
      if (entry.revents == 0) continue;
      const auto next = waiting_[0].second;
      waiting_.clear();
      next.resume();
    }
  }

 private:
  std::vector<std::pair<int, std::coroutine_handle<>>> waiting_;
};

Task<> count_messages(Consumer& in, PollLoop& loop, int& count) {
  while (Result<Message> message = co_await next(in, loop)) ++count;
}

TEST_F(Async, AnyLoopWillDo) {
  auto out = make_producer("frames", channel_);
  auto in = Consumer::open("frames", consumer_options(channel_), soon());
  ASSERT_TRUE(out && in);
  std::thread sender([&] {
    for (int i = 0; i < 200; ++i) ASSERT_TRUE(out->send(pattern(8, 1), soon()));
    ASSERT_TRUE(out->close(soon()));
  });
  PollLoop loop;
  int count = 0;
  Task<> task = count_messages(*in, loop, count);
  loop.run(task);
  sender.join();
  EXPECT_EQ(count, 200);
}

}  // namespace
}  // namespace gantry
