#include "base/event.hpp"

#include <gtest/gtest.h>
#include <sys/uio.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace gantry {
namespace {

bool take_without_waiting(int event) {
  std::uint64_t count = 0;
  iovec into{&count, sizeof count};
  return ::preadv2(event, &into, 1, -1, RWF_NOWAIT) == sizeof count;
}

TEST(Event, IsDrained) {
  const Fd event = *make_event();
  ring(event.get());
  ring(event.get());
  EXPECT_TRUE(would_pass(event.get(), POLLIN));
  drain(event.get());
  EXPECT_FALSE(would_pass(event.get(), POLLIN));
  drain(event.get());
}

// A peer makes it block, rings it, and empties it just when the other is about to.
TEST(Event, DrainingItNeverWaits) {
  const Fd event(::eventfd(0, EFD_CLOEXEC));
  std::atomic<std::uint64_t> drained{0};
  std::atomic<bool> over{false};
  std::thread owner([&] {
    while (!over) {
      drain(event.get());
      ++drained;
    }
  });
  bool waited = false;
  for (int turn = 0; turn < 300'000 && !waited; ++turn) {
    ring(event.get());
    static_cast<void>(take_without_waiting(event.get()));
    const std::uint64_t before = drained;
    const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (drained == before && !waited) waited = std::chrono::steady_clock::now() > patience;
  }
  EXPECT_FALSE(waited);
  over = true;
  ring(event.get());
  owner.join();
}

}  // namespace
}  // namespace gantry
