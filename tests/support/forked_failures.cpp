// Makes failures of fork()ed children failures of their test, however a child ends: its failures
// are counted in memory that it shares with its parent. Every test program has this.
#include "forked_failures.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <new>

namespace gantry {
namespace {

bool g_in_vain = false;  // of this process

struct Failures {
  static constexpr std::size_t kTextBytes = 2048;
  std::atomic<int> begun{0};            // the first to count one writes `first`
  std::atomic<bool> is_written{false};  // [W] release: `first` is whole
  char first[kTextBytes] = {};
};

Failures* shared_failures() {
  void* const page =
      ::mmap(nullptr, sizeof(Failures), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) {
    std::perror("gantry: forked_failures: mmap");
    std::abort();
  }
  return new (page) Failures;
}

class ForkedFailures : public testing::EmptyTestEventListener {
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed() || g_in_vain || ::getpid() == parent_) return;
    // relaxed: a count alone; what it lets its first writer write is published by [W]
    if (failures_->begun.fetch_add(1, std::memory_order_relaxed) > 0) return;
    std::snprintf(failures_->first, Failures::kTextBytes, "%s:%d: %s",
                  result.file_name() == nullptr ? "" : result.file_name(), result.line_number(),
                  result.message());
    failures_->is_written.store(true, std::memory_order_release);  // [W]
  }
  void OnTestEnd(const testing::TestInfo&) override {
    if (::getpid() != parent_) return;
    const int failures = failures_->begun.exchange(0, std::memory_order_relaxed);
    const bool is_written =
        failures_->is_written.exchange(false, std::memory_order_acquire);  // [W]
    if (failures > 0)
      ADD_FAILURE() << failures << " failures in fork()ed children, the first: "
                    << (is_written ? failures_->first : "of a child that was killed meanwhile");
  }

  const pid_t parent_ = ::getpid();
  Failures* const failures_ = shared_failures();
};

[[maybe_unused]] const bool kIsListening = [] {
  testing::UnitTest::GetInstance()->listeners().Append(new ForkedFailures);
  return true;
}();

}  // namespace

void test::expect_in_vain() noexcept {
  g_in_vain = true;
}

}  // namespace gantry
