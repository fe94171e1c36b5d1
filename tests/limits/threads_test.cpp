#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <gantry/bridge.hpp>
#include <gantry/call.hpp>
#include <gantry/device.hpp>
#include <gantry/engine.hpp>
#include <gantry/group.hpp>
#include <gantry/runtime.hpp>
#include <set>
#include <thread>

#include "core/base/event.hpp"
#include "core/channel/test_support.hpp"

// Signals are the program's: no thread of the library takes one that a process can be sent.
namespace gantry {
namespace {

using test::soon;

/// The numbers of this process's threads.
std::set<int> threads() {
  std::set<int> all;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task"))
    all.insert(std::stoi(entry.path().filename().string()));
  return all;
}

/// The signals that a thread blocks, as bits from SIGHUP on; all of one that has ended.
std::uint64_t blocked_by(int thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/status");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("SigBlk:")) return std::stoull(line.substr(7), nullptr, 16);
  return ~std::uint64_t{0};
}

class Threads : public testing::Test {
 protected:
  /// Every thread that was started since then blocks every signal that is sent from outside.
  void expect_blocking(std::string_view after) {
    for (const int thread : threads()) {
      if (before_.contains(thread)) continue;
      ++seen_;
      for (const int signal :
           {SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM, SIGCHLD, SIGPIPE})
        EXPECT_NE(blocked_by(thread) >> (signal - 1) & 1, 0u)
            << "signal " << signal << " after " << after;
    }
    before_ = threads();
  }

  test::ScratchDirectory directory_;
  std::set<int> before_ = threads();
  unsigned seen_ = 0;  // threads of the library; ends share some
};

TEST_F(Threads, OfEveryEndBlockSignals) {
  ::setenv("GANTRY_DIR", directory_.path().c_str(), 1);
  Runtime runtime = *Runtime::create({{}, "inline", true});
  Producer producer = *runtime.producer("plain");
  expect_blocking("a producer");
  Consumer consumer = *runtime.consumer("plain", {}, soon());
  const auto payload = test::pattern(100'000, 1);
  const auto ticket = producer.send_async(payload, {.deadline = soon(), .mode = SendMode::whole});
  ASSERT_TRUE(ticket) << to_string(ticket.error());
  expect_blocking("send_async()");
  EXPECT_TRUE(test::same(consumer.receive(soon())->bytes(), payload));
  Inbox inbox = *runtime.inbox("inbox");
  expect_blocking("an inbox");
  Server server = *runtime.server("server");
  expect_blocking("a server");
  const std::shared_ptr<Engine> engine = runtime.default_engine();
  WorkQueue queue = *WorkQueue::open("queue", {}, engine);
  expect_blocking("a queue");
  const auto copying = runtime.engine("thread");
  ASSERT_TRUE(copying) << to_string(copying.error());
  const auto device = runtime.open_device("cpu");
  ASSERT_TRUE(device) << to_string(device.error());
  auto work = (*device)->open_queue(QueueRole::compute);
  ASSERT_TRUE(work) << to_string(work.error());
  expect_blocking("a device's queue");
  const auto opencl = runtime.open_device("opencl");  // whose driver starts threads of its own
  if (opencl) {
    auto commands = (*opencl)->open_queue(QueueRole::compute);
    ASSERT_TRUE(commands) << to_string(commands.error());
  }
  expect_blocking("an OpenCL device's queue");
  EXPECT_GE(seen_, 3u);
  ::unsetenv("GANTRY_DIR");
}

TEST_F(Threads, OfABridgeAndItsCallersBlockSignals) {
  Runtime runtime = *Runtime::create({{}, "inline", true});
  const std::string socket = directory_.path() + "/bridge";
  Fd stop = *make_event();
  BridgeOptions options;
  options.listen = "unix:" + socket;
  options.token = std::string(32, 't');
  options.directory = directory_.path();
  options.interrupt_descriptor = stop.get();
  auto bridge = Bridge::open(options, runtime.default_engine());
  if (!bridge) GTEST_SKIP() << to_string(bridge.error());
  std::thread serving([&] { EXPECT_TRUE(bridge->serve()); });
  before_ = threads();  // serve() runs on a thread of the program's
  Producer producer = *test::make_producer("numbers", test::options_in(directory_));
  ConsumerOptions far;
  far.directory = directory_.path();
  far.remote.token = options.token;
  auto consumer = runtime.consumer("numbers@unix:" + socket, far, soon());
  ASSERT_TRUE(consumer) << to_string(consumer.error());
  const auto payload = test::pattern(3'000'000, 1);
  ASSERT_TRUE(producer.send(payload, {.deadline = soon()}));
  EXPECT_TRUE(test::same(consumer->receive(soon())->bytes(), payload));
  expect_blocking("a bridge and an end of another host");
  EXPECT_GE(seen_, 2u);
  ring(stop.get());
  serving.join();
}

TEST_F(Threads, OfAGroupBlockSignals) {
  const std::shared_ptr<Engine> engine = Runtime::create({{}, "inline", true})->default_engine();
  const auto join = [&](unsigned rank) {
    GroupOptions options;
    options.rank = rank;
    options.ranks = 2;
    options.name = "signals";
    options.directory = directory_.path();
    return Group::join(options, engine);
  };
  std::optional<Result<Group>> other;
  std::thread joining([&] { other = join(1); });
  const auto group = join(0);
  joining.join();
  ASSERT_TRUE(group) << to_string(group.error());
  ASSERT_TRUE(*other) << to_string(other->error());
  expect_blocking("a group");
  EXPECT_GE(seen_, 1u);
}

}  // namespace
}  // namespace gantry
