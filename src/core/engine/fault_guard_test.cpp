#include "core/engine/fault_guard.hpp"
#include "core/base/sizes.hpp"
#include "core/base/test_sanitizer.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

namespace gantry {
namespace {

struct Reading {
  const std::byte* at;
  std::byte seen{};
  static void run(void* argument) noexcept {
    auto& self = *static_cast<Reading*>(argument);
    self.seen = *static_cast<const volatile std::byte*>(self.at);
  }
};

// A page that cannot be read.
class FaultGuard : public testing::Test {
 protected:
  FaultGuard()
      : bad_(static_cast<std::byte*>(
            ::mmap(nullptr, kSmallestPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    EXPECT_TRUE(install_fault_guard());
  }
  ~FaultGuard() override { ::munmap(bad_, kSmallestPage); }

  static bool reads(const std::byte* at, Fault& fault) {
    Reading reading{at};
    const std::array<GuardedRange, 1> ranges{GuardedRange{at, 1, false}};
    return catch_fault(ranges, Reading::run, &reading, fault);
  }

  std::byte* bad_;
};

TEST_F(FaultGuard, TellsTheAddressAndWhetherItWasToBeWritten) {
  Fault fault;
  EXPECT_FALSE(reads(bad_ + 100, fault));
  EXPECT_EQ(fault.address, reinterpret_cast<std::uintptr_t>(bad_ + 100));
  EXPECT_FALSE(fault.written);
  const auto write = [](void* at) noexcept { *static_cast<volatile std::byte*>(at) = {}; };
  const std::array<GuardedRange, 2> ranges{GuardedRange{bad_, kSmallestPage, false},
                                           GuardedRange{bad_ + 50, 10, true}};
  EXPECT_FALSE(catch_fault(ranges, write, bad_ + 55, fault));
  EXPECT_TRUE(fault.written);
}

TEST_F(FaultGuard, GoesOnAfterAnyNumberOfFaultsInAnyThread) {
  const auto many = [this] {
    const std::byte good{5};
    Fault fault;
    for (int i = 0; i < 1000; ++i) {
      EXPECT_FALSE(reads(bad_, fault));
      EXPECT_TRUE(reads(&good, fault));
    }
  };
  std::thread one(many), other(many);
  one.join();
  other.join();
}

// In a child of its own, since it ends by the signal.
int ending_of(void (*work)(std::byte* bad), std::byte* bad) {
  const pid_t child = ::fork();
  if (child == 0) {
    work(bad);
    ::_exit(0);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

void touch(std::byte* at) {
  static_cast<void>(*static_cast<volatile std::byte*>(at));
}

TEST_F(FaultGuard, AFaultThatIsNotOursEndsTheProcessAsBefore) {
  if (has_sanitizer())
    GTEST_SKIP() << "the sanitizer handles the signal before the process ends by it";
  const auto outside = [](std::byte* bad) { touch(bad); };
  const auto beside_the_range = [](std::byte* bad) {
    const std::byte good{};
    const std::array<GuardedRange, 1> ranges{GuardedRange{&good, 1, false}};
    Reading reading{bad};
    Fault fault;
    static_cast<void>(catch_fault(ranges, Reading::run, &reading, fault));
  };
  const auto sent = [](std::byte*) { ::kill(::getpid(), SIGSEGV); };
  for (void (*work)(std::byte*) : {+outside, +beside_the_range, +sent}) {
    const int status = ending_of(work, bad_);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV) << status;
  }
}

// Theirs comes after ours and calls it for what it does not know: the documented way.
TEST_F(FaultGuard, AHandlerThatCallsOursLeavesUsWhatIsOurs) {
  static struct sigaction ours;
  static std::byte* own = nullptr;
  const int status = ending_of(
      [](std::byte* bad) {
        own = static_cast<std::byte*>(
            ::mmap(nullptr, kSmallestPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        ::sigaction(SIGSEGV, nullptr, &ours);
        struct sigaction theirs{};
        theirs.sa_flags = SA_SIGINFO;
        theirs.sa_sigaction = [](int signal, siginfo_t* info, void* context) {
          if (info->si_addr == own) ::_exit(42);
          ours.sa_sigaction(signal, info, context);
        };
        ::sigaction(SIGSEGV, &theirs, nullptr);
        Fault fault;
        if (reads(bad, fault)) ::_exit(1);
        touch(own);
      },
      bad_);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 42) << status;
}

// Theirs was there before ours: what we do not know goes to it.
TEST(FaultGuardOrder, AHandlerFromBeforeOursIsCalledForWhatIsNotOurs) {
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string program = "/proc/self/exe";
    ::setenv("GANTRY_TEST_EARLY_HANDLER", "1", 1);
    ::execl(program.c_str(), "engine_test", "--gtest_filter=FaultGuardEarly.*", nullptr);
    ::_exit(1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 43) << status;
}

// In a process in which nothing of ours has been installed yet.
TEST(FaultGuardEarly, TheirsExits) {
  if (::getenv("GANTRY_TEST_EARLY_HANDLER") == nullptr) GTEST_SKIP() << "run by the test above";
  struct sigaction theirs{};
  theirs.sa_handler = [](int) { ::_exit(43); };
  ::sigaction(SIGSEGV, &theirs, nullptr);
  ASSERT_TRUE(install_fault_guard());
  touch(static_cast<std::byte*>(
      ::mmap(nullptr, kSmallestPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)));
}

}  // namespace
}  // namespace gantry
