#include <gmock/gmock.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <functional>
#include <thread>

#include "base/test_fork.hpp"
#include "image/load/test_gated_file_io.hpp"
#include "image/snapshot/test_snapshot.hpp"

// Programs that lock and protect their memory, kernels that have none left, reads that fail at
// once.
namespace gantry {
namespace {

using namespace test;

class AwkwardPrograms : public Snapshots {};

// The kernel makes the pages of a mapping at once then, of zeros, before anybody watches it.
TEST_F(AwkwardPrograms, WhereAllMemoryIsLockedPagesAreThoseThatWereSaved) {
  if (no_busy_fork() != nullptr) GTEST_SKIP() << no_busy_fork();
  save_numbered(2 * kChunkPages, {5, 4});
  constexpr int kMayNot = 77;
  const int result = in_child([&] {
    if (::mlockall(MCL_FUTURE) != 0) return kMayNot;
    for (const bool records : {false, true}) {
      RestoreOptions options = lazily({}, 1);
      options.record = records;
      auto restored = Snapshot::restore(path_, options);
      if (!restored) return records ? 1 : kMayNot;  // RLIMIT_MEMLOCK
      if (!are_numbered(*restored) || !restored->wait()) return 2;
      if (restored->report().faults == 0 && records) return 3;
      if (!restored->settled() || !restored->record(true)) return 4;
      if (!are_numbered(*restored) || restored->touched().size() != 2 * kChunkPages) return 5;
    }
    return 0;
  });
  if (result == kMayNot) GTEST_SKIP() << "this process may not lock so much memory";
  EXPECT_EQ(result, 0);
}

// That splits the mapping, and the kernel makes no pages across a border.
TEST_F(AwkwardPrograms, PagesComeWhereTheProgramHasProtectedSome) {
  save_numbered(2 * kChunkPages, some_pages(2 * kChunkPages, 100, 4));
  for (const bool records : {false, true}) {
    const auto io = std::make_shared<GatedFileIo>(0);
    RestoreOptions options = lazily(io, 1);
    options.record = records;
    const auto restored = Snapshot::restore(path_, options);
    ASSERT_TRUE(restored) << to_string(restored.error());
    std::byte* const memory = must(restored->region("heap")).data();
    for (const std::uint64_t page : {std::uint64_t{21}, kChunkPages - 1, kChunkPages + 500})
      ASSERT_EQ(::mprotect(memory + page * kPageBytes, kPageBytes, PROT_READ), 0);
    io->allow(1000);
    const auto done = restored->wait();
    ASSERT_TRUE(done) << to_string(done.error());
    EXPECT_TRUE(are_numbered(*restored));
  }
}

}  // namespace
}  // namespace gantry
