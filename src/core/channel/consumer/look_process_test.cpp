#include <sys/mman.h>
#include <sys/wait.h>

#include <atomic>
#include <new>
#include <optional>
#include <thread>

#include "core/channel/test_child.hpp"
#include "core/channel/wire/format.hpp"

// A look of another process, or of one that forks: what was in hand when somebody dies.
namespace gantry {
namespace {

using test::Child;
using test::consumer_options;
using test::Gate;
using test::make_producer;
using test::options_in;
using test::pattern;
using test::same;
using test::soon;

class LooksOfProcesses : public testing::Test {
 protected:
  LooksOfProcesses() {
    options_.cell_bytes = PayloadOptions::kMaxCellBytes;
    options_.consumers = 2;
  }
  Consumer join() { return *Consumer::open("frames", consumer_options(options_), soon()); }
  static void send(Producer& out, Bytes size, std::uint64_t seed) {
    const auto sent = out.send(pattern(size, seed), {.deadline = soon(), .user = seed});
    ASSERT_TRUE(sent) << to_string(sent.error());
  }
  static void receive(Consumer& in, Bytes size, std::uint64_t seed) {
    const auto message = in.receive(soon());
    ASSERT_TRUE(message) << to_string(message.error());
    EXPECT_EQ(message->info().user, seed);
    EXPECT_TRUE(same(message->bytes(), pattern(size, seed)));
  }
  static void send_on(Producer& out, Consumer& fast) {
    for (std::uint64_t seed = 1; seed <= 3 * kBesidePlaces; ++seed) {
      send(out, 1000, seed);
      receive(fast, 1000, seed);
    }
  }
  static void await_consumers(Producer& out, std::size_t count) {
    while (out.explain().status.consumers.size() != count) std::this_thread::yield();
  }

  test::ScratchDirectory directory_;
  ProducerOptions options_ = options_in(directory_);
};

TEST_F(LooksOfProcesses, TheHeirOfOneThatWasKilledInALookGetsTheNext) {
  for (const Bytes size : {Bytes{10}, Bytes{1000}, Bytes{100'000}}) {
    Child reader([&](const Child& self) {
      Consumer in = join();
      static_cast<void>(in.look(
          [&](const Message& message) {
            if (!same(message.bytes(), pattern(size, 1))) ::_exit(1);
            self.report();
            Child::hold();
          },
          soon()));
    });
    Producer out = *make_producer("frames", options_);
    ASSERT_TRUE(out.wait_for_consumer(soon()));
    for (std::uint64_t seed = 1; seed <= 4; ++seed) send(out, size, seed);
    reader.await_report();
    reader.end(SIGKILL);
    await_consumers(out, 0);
    Consumer heir = join();
    for (std::uint64_t seed = 2; seed <= 4; ++seed) receive(heir, size, seed);
    send_on(out, heir);
    EXPECT_TRUE(out.explain().status.departed.empty());
    EXPECT_EQ(out.explain().status.slots_held, 0u);
  }
}

// The child's return from its copy of the look is nothing to the producer; the parent's is.
TEST_F(LooksOfProcesses, AForkReadsWhatItsParentLooksAtAndEndsNothing) {
  const Gate to_end;
  Child reader([&](const Child& self) {
    std::optional<Consumer> in(join());
    pid_t fork = -1;
    const Result<void> looked = in->look(
        [&](const Message& message) {
          fork = ::fork();
          if (fork == 0) {
            if (in->receive(soon()).error().code != Code::invalid_argument) ::_exit(3);
            if (!same(message.bytes(), pattern(1000, 1))) ::_exit(4);
            return;
          }
          int status = 0;
          if (::waitpid(fork, &status, 0) != fork || status != 0) ::_exit(1);
          in.reset();  // so that its place alone keeps its bytes
          self.report();
          to_end.wait();
          if (!same(message.bytes(), pattern(1000, 1))) ::_exit(2);
        },
        soon());
    if (fork == 0) ::_exit(looked ? 0 : 6);
    if (!looked) ::_exit(5);
    self.report();
    Child::hold();
  });
  Producer out = *make_producer("frames", options_);
  ASSERT_TRUE(out.wait_for_consumer(soon()));
  send(out, 1000, 1);
  reader.await_report();
  await_consumers(out, 0);
  Consumer fast = join();
  send_on(out, fast);
  EXPECT_EQ(out.explain().status.departed.size(), 1u);
  to_end.open();
  reader.await_report();
  while (!out.explain().status.departed.empty()) std::this_thread::yield();
}

// The parent dies in the look: its place is kept until the fork ends, too.
TEST_F(LooksOfProcesses, AForkKeepsThePlaceOfAParentThatDied) {
  const Gate to_read;
  struct Shared {
    std::atomic<pid_t> fork{0};
    std::atomic<int> result{0};
  };
  auto* const shared =
      new (::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Shared;
  Child reader([&](const Child& self) {
    Consumer in = join();
    static_cast<void>(in.look(
        [&](const Message& message) {
          if (::fork() != 0) Child::hold();
          shared->fork = ::getpid();
          self.report();
          to_read.wait();
          shared->result = same(message.bytes(), pattern(1000, 1)) ? 1 : 2;
          Child::hold();
        },
        soon()));
  });
  Producer out = *make_producer("frames", options_);
  ASSERT_TRUE(out.wait_for_consumer(soon()));
  send(out, 1000, 1);
  reader.await_report();
  reader.end(SIGKILL);
  await_consumers(out, 0);
  Consumer fast = join();
  send_on(out, fast);
  EXPECT_EQ(out.explain().status.departed.size(), 1u);
  to_read.open();
  while (shared->result == 0) std::this_thread::yield();
  EXPECT_EQ(shared->result, 1);
  ::kill(shared->fork, SIGKILL);
  while (!out.explain().status.departed.empty()) std::this_thread::yield();
  send_on(out, fast);
  ::munmap(shared, 4096);
}

}  // namespace
}  // namespace gantry
