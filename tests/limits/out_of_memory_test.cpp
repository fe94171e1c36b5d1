// Every allocation of the calling thread fails once, those of libraries included: no public call
// lets an exception out or crashes, and each says that memory ran out. What happens in destructors
// and in the threads of a channel is not tried.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <limits>
#include <new>
#include <optional>
#include <thread>
#include <vector>

#include "limits/exchange.hpp"

namespace {

constexpr long kNever = std::numeric_limits<long>::max();

thread_local long left_until_failure = kNever;  // successful allocations
thread_local bool fails_once = false;

bool fails() noexcept {
  if (left_until_failure > 0) {
    if (left_until_failure != kNever) --left_until_failure;
    return false;
  }
  if (fails_once) left_until_failure = kNever;
  errno = ENOMEM;
  return true;
}

}  // namespace

// The C library's own, under the names by which it lets others stand in for them. Other libraries
// are to find ours.
#pragma GCC visibility push(default)
extern "C" {
void* __libc_malloc(std::size_t) noexcept;
void* __libc_calloc(std::size_t, std::size_t) noexcept;
void* __libc_realloc(void*, std::size_t) noexcept;
void* __libc_memalign(std::size_t, std::size_t) noexcept;

void* malloc(std::size_t size) noexcept {
  return fails() ? nullptr : __libc_malloc(size);
}
void* calloc(std::size_t count, std::size_t size) noexcept {
  return fails() ? nullptr : __libc_calloc(count, size);
}
void* realloc(void* memory, std::size_t size) noexcept {
  return fails() ? nullptr : __libc_realloc(memory, size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept {
  return fails() ? nullptr : __libc_memalign(alignment, size);
}
void* memalign(std::size_t alignment, std::size_t size) noexcept {
  return fails() ? nullptr : __libc_memalign(alignment, size);
}
int posix_memalign(void** memory, std::size_t alignment, std::size_t size) noexcept {
  if (fails()) return ENOMEM;
  *memory = __libc_memalign(alignment, size);
  return *memory == nullptr ? ENOMEM : 0;
}
}
#pragma GCC visibility pop

namespace gantry {
namespace {

// Allocations of this thread fail while it lives, until a job drops its ends: what has no answer
// cannot say that memory ran out.
class Failing {
 public:
  Failing(long after, bool once) {
    fails_once = once;
    is_over_ = false;
    test::before_drop = &Failing::end;
    left_until_failure = after;
  }
  ~Failing() {
    end();
    test::before_drop = nullptr;
  }
  Failing(const Failing&) = delete;
  Failing& operator=(const Failing&) = delete;
  /// The job ended before the allocation that was to fail.
  [[nodiscard]] static bool is_over() noexcept {
    end();
    return is_over_;
  }

 private:
  static void end() noexcept {
    if (left_until_failure != kNever && left_until_failure > 0) is_over_ = true;
    left_until_failure = kNever;
  }
  static inline bool is_over_ = false;
};

using Job = Result<void> (*)(Runtime&);

// True: the job's last allocation came before number `after`.
bool fail_at(Job job, long after, bool once) {
  const test::ChannelFolder folder;
  auto runtime = Runtime::create({.directory = folder.path()});
  EXPECT_TRUE(runtime);
  Code code = Code::out_of_memory;
  bool done = false, untouched = false;
  std::string message;
  try {
    const Failing failing(after, once);
    const auto result = job(*runtime);
    done = result.has_value();
    if (!done) code = result.error().code;
    if (!done) message = result.error().message;
    untouched = Failing::is_over();
  } catch (const std::bad_alloc&) {
    ADD_FAILURE() << "the failure of allocation " << after << " came out of a call";
  }
  // An end that was let go for want of memory is all that the other one sees.
  EXPECT_TRUE(done || code == Code::out_of_memory || code == Code::peer_gone)
      << after << ": " << to_string(code) << ", " << message;
  EXPECT_TRUE(done || !untouched) << after;
  return untouched;
}

void sweep(Job job, bool once) {
  constexpr long kMost = 100'000;
  long after = 0;
  while (after < kMost && !fail_at(job, after, once) && !testing::Test::HasFailure()) ++after;
  EXPECT_LT(after, kMost);
}

TEST(OutOfMemory, IsAnErrorOfEveryCallOfAChannel) {
  sweep(test::exchange, true);
}

TEST(OutOfMemory, IsAnErrorOfEveryCallOfAServerAndItsClient) {
  sweep(test::call_and_reply, true);
}

TEST(OutOfMemory, IsAnErrorOfEveryCallOfAnInbox) {
  sweep(test::deliver, true);
}

// A message whose memory is new comes while `receive` sleeps: what it hears then needs memory, too.
// True: it needed no more than `after` allocations.
template <class Receive>
bool hears_asleep(Producer& out, long after, Receive receive) {
  std::atomic<bool> begun{false};
  const std::vector<std::byte> payload(Bytes{4} << 20, std::byte{7});
  std::thread sending([&] {
    begun.wait(false);
    static_cast<void>(out.send(payload, Deadline::after(std::chrono::seconds(10))));
  });
  Result<Bytes> received = 0;
  bool untouched = false;
  {
    const Failing failing(after, true);
    begun = true;
    begun.notify_all();
    received = receive();
    untouched = Failing::is_over();
  }
  sending.join();
  EXPECT_TRUE(received || received.error().code == Code::out_of_memory)
      << after << ": " << to_string(received.error());
  EXPECT_TRUE(!received || *received == payload.size()) << after;
  return untouched;
}

constexpr long kMostToHear = 1000;

TEST(OutOfMemory, IsAnErrorOfASleepingConsumer) {
  long after = 0;
  for (bool untouched = false; !untouched && after < kMostToHear; ++after) {
    const test::ChannelFolder folder;
    auto runtime = Runtime::create({.directory = folder.path()});
    auto out = runtime->producer("frames");
    ConsumerOptions asleep;
    asleep.spin = {};
    auto in = runtime->consumer("frames", asleep);
    untouched = hears_asleep(*out, after, [&]() -> Result<Bytes> {
      const auto message = in->receive(Deadline::after(std::chrono::seconds(10)));
      if (!message) return tl::unexpected(message.error());
      return message->bytes().size();
    });
  }
  EXPECT_GT(after, 4);  // there was something to hear
  EXPECT_LT(after, kMostToHear);
}

TEST(OutOfMemory, IsAnErrorOfASleepingInbox) {
  long after = 0;
  for (bool untouched = false; !untouched && after < kMostToHear; ++after) {
    const test::ChannelFolder folder;
    auto runtime = Runtime::create({.directory = folder.path()});
    InboxOptions asleep;
    asleep.channel.spin = {};
    std::optional<Error> departure;
    asleep.on_departure = [&](const Departure& one) { departure = one.why; };
    auto inbox = runtime->inbox("letters", asleep);
    auto out = runtime->connect("letters");
    untouched = hears_asleep(*out, after, [&]() -> Result<Bytes> {
      const auto delivery =
          inbox->receive(Deadline::after(std::chrono::seconds(departure ? 0 : 2)));
      if (!delivery && departure) return tl::unexpected(Error{Code::out_of_memory, "", ""});
      if (!delivery) return tl::unexpected(delivery.error());
      return delivery->message.bytes().size();
    });
  }
  EXPECT_GT(after, 4);
  EXPECT_LT(after, kMostToHear);
}

// It goes on for a reader that was cut without heap: what it looks at stays, and comes back after.
TEST(OutOfMemory, OfAProducerThatCutsAReaderLeavesThatReadersPlacesAlone) {
  long after = 0;
  for (bool untouched = false; !untouched && after < kMostToHear; ++after) {
    const test::ChannelFolder folder;
    auto runtime = Runtime::create({.directory = folder.path()});
    ProducerOptions options;
    options.consumers = 4;
    auto out = runtime->producer("frames", options);
    const auto send = [&](Bytes size, int value) {
      const std::vector<std::byte> payload(size, std::byte(value));
      return out->send(payload, Deadline::after(std::chrono::seconds(10)));
    };
    const auto await_readers = [&](std::size_t count) {
      while (out->explain().status.consumers.size() != count) std::this_thread::yield();
    };
    const auto holds = [](const Message& message, int value) {
      return std::ranges::all_of(message.bytes(),
                                 [&](std::byte one) { return one == std::byte(value); });
    };
    const auto send_on = [&](Consumer& fast) {
      for (int i = 0; i < 200; ++i) {
        ASSERT_TRUE(send(1000, 10 + i % 100));
        const auto message = fast.receive(Deadline::after(std::chrono::seconds(10)));
        ASSERT_TRUE(message && holds(*message, 10 + i % 100)) << after;
      }
    };
    std::optional<Consumer> first(must(runtime->consumer("frames")));
    for (int value = 1; value <= 6; ++value) ASSERT_TRUE(send(1000, value));
    first.reset();
    await_readers(0);
    ConsumerOptions slow;
    slow.when_slow = SlowConsumer::disconnect;
    slow.depth = 2;
    std::optional<Consumer> cut(must(runtime->consumer("frames", slow)));  // it has too many
    const auto looked = cut->look([&](const Message& message) {
      {
        const Failing failing(after, false);
        const std::array<std::byte, 8> payload{};
        const auto sent = out->send(payload, Deadline::after(std::chrono::seconds(10)));
        untouched = Failing::is_over();
        EXPECT_TRUE(sent || sent.error().code == Code::out_of_memory ||
                    sent.error().code == Code::peer_gone)
            << to_string(sent.error());
      }
      Consumer fast = must(runtime->consumer("frames"));
      send_on(fast);
      EXPECT_TRUE(holds(message, 1)) << after;
    });
    ASSERT_TRUE(looked);
    cut.reset();
    await_readers(0);
    while (!out->explain().status.departed.empty()) std::this_thread::yield();
    Consumer fast = must(runtime->consumer("frames"));
    send_on(fast);
    EXPECT_EQ(out->explain().status.slots_held, 0u) << after << ": they go beside their records";
  }
  EXPECT_GT(after, 2);
  EXPECT_LT(after, kMostToHear);
}

// A thread that does the dispatcher's work: each item comes once, or the queue ends for all.
TEST(OutOfMemory, OfAnOwnerThatPutsLosesAndDoublesNothingOfItsQueue) {
  const auto soon = [] { return Deadline::after(std::chrono::seconds(10)); };
  long after = 0, ended = 0;
  for (bool untouched = false; !untouched && after < kMostToHear; ++after) {
    const test::ChannelFolder folder;
    auto runtime = Runtime::create({.directory = folder.path()});
    WorkQueueOptions options;
    options.channel.directory = folder.path();
    auto queue = must(WorkQueue::open("jobs", options, runtime->default_engine()));
    WorkMemberOptions ours;
    ours.directory = folder.path();
    const auto join = [&] {
      return must(WorkMember::connect("jobs", ours, runtime->default_engine(), soon()));
    };
    WorkMember putter = join();
    const std::array<std::byte, 8> payload{};
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(putter.put(payload, soon()));
    std::optional<Code> code;
    std::thread getting([&, getter = join()]() mutable {
      while (!code)
        if (const auto item = getter.get(soon());
            !item && item.error().code != Code::out_of_memory)  // of its answer: it asks again
          code = item.error().code;
    });
    const auto is_waiting = [&] {
      const WorkQueueReport report = queue.report();
      return report.acknowledged == 3 && report.waiting_workers == 1;
    };
    while (!is_waiting()) std::this_thread::yield();
    const auto put = [&] {
      const Failing failing(after, true);
      auto result = queue.put_here(payload);
      untouched = Failing::is_over();
      return result;
    };
    auto result = put();
    if (!result) {
      EXPECT_EQ(result.error().code, Code::out_of_memory) << after;
      result = queue.put_here(payload);
    }
    if (result) {
      EXPECT_TRUE(*result) << after;
      queue.finish();
      EXPECT_TRUE(queue.wait_until_done(soon())) << after;
      EXPECT_EQ(queue.report().put, 4u) << after;
      EXPECT_EQ(queue.report().acknowledged, 4u) << after;
    } else {
      ++ended;
      EXPECT_FALSE(queue.wait_until_done(soon())) << after;
    }
    getting.join();
    EXPECT_TRUE(code == Code::closed || (!result && code)) << after;
  }
  EXPECT_GT(ended, 0);
  EXPECT_LT(after, kMostToHear);
}

TEST(OutOfMemory, IsAnErrorOfMakingARuntime) {
  const auto make = [](Runtime&) -> Result<void> {
    auto made = Runtime::create({.directory = {}, .engine = "thread"});
    if (made) return {};
    return tl::unexpected(made.error());
  };
  for (const bool once : {true, false}) sweep(make, once);
}

}  // namespace
}  // namespace gantry
