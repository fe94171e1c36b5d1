// Under every limit of the address space a channel works or says what is missing: nothing ends the
// process. Each limit is tried in a child of its own.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "core/base/os/worker_thread.hpp"
#include "core/base/sizes.hpp"
#include "limits/exchange.hpp"

namespace gantry {
namespace {

constexpr int kWorked = 0, kErred = 1, kWrong = 2;

Bytes address_space() {
  Bytes pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<Bytes>(::sysconf(_SC_PAGESIZE));
}

using Job = Result<void> (*)(Runtime&);

int run_within(Bytes more, Job job, const std::string& folder) {
  const rlimit limit{address_space() + more, RLIM_INFINITY};
  if (::setrlimit(RLIMIT_AS, &limit) != 0) return kWrong;
  auto runtime = Runtime::create({.directory = folder, .engine = "thread"});
  if (!runtime) return kErred;
  const auto done = job(*runtime);
  if (done) return kWorked;
  return done.error().message == "wrong bytes" ? kWrong : kErred;
}

// The wait status of a child.
int child_within(Bytes more, Job job) {
  const test::ChannelFolder folder;
  const pid_t child = ::fork();
  if (child == 0) ::_exit(run_within(more, job, folder.path()));
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

void sweep(Job job) {
  bool erred = false, worked = false;
  // A sender may cost an inbox of 64 a fifteenth of the limit: a slab of 64 MiB takes 1 GiB.
  for (Bytes more = 0; more <= 1200 * kMiB; more += std::max(2 * kMiB, more / 32)) {
    const int status = child_within(more, job);
    ASSERT_FALSE(WIFSIGNALED(status))
        << "signal " << WTERMSIG(status) << " at " << more / kMiB << " MiB";
    ASSERT_NE(WEXITSTATUS(status), kWrong) << more / kMiB << " MiB";
    erred = erred || WEXITSTATUS(status) == kErred;
    worked = worked || WEXITSTATUS(status) == kWorked;
  }
  EXPECT_TRUE(erred) << "the least sufficed";
  EXPECT_TRUE(worked) << "the most did not suffice";
}

TEST(AddressSpace, LimitsAreErrorsOfAChannel) {
  sweep(test::exchange);
}

TEST(AddressSpace, LimitsAreErrorsOfAServerAndItsClient) {
  sweep(test::call_and_reply);
}

TEST(AddressSpace, LimitsAreErrorsOfAnInbox) {
  sweep(test::deliver);
}

// The kernel says EAGAIN for it, as for too many processes.
TEST(AddressSpace, AStackWithoutRoomIsNotCalledTooManyProcesses) {
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit limit{address_space() + kMiB, RLIM_INFINITY};
    if (::setrlimit(RLIMIT_AS, &limit) != 0) ::_exit(kWrong);
    const auto thread = start_thread("a thread", [] {});
    if (thread || thread.error().hint != "raise the limit of address space (ulimit -v)")
      ::_exit(kWrong);
    ::_exit(kErred);
  }
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), kErred);
}

TEST(AddressSpace, LimitsLeaveTheMachinesFactsUnknown) {
  for (Bytes more = 0; more <= 100 * kMiB; more += 2 * kMiB) {
    const int status = child_within(more, [](Runtime&) -> Result<void> {
      static_cast<void>(probe_machine());
      return {};
    });
    ASSERT_FALSE(WIFSIGNALED(status)) << more / kMiB << " MiB";
  }
}

}  // namespace
}  // namespace gantry
