#include <gtest/gtest.h>
#include <sys/prctl.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <new>
#include <string_view>

#include "core/base/test_fork.hpp"
#include "image/load/test_gated_file_io.hpp"
#include "image/snapshot/test_snapshot.hpp"

// The heap has nothing for the thread that answers faults.
namespace {

std::atomic<bool> fails{false};

bool must_fail() {
  if (!fails) return false;
  std::array<char, 16> name{};
  ::prctl(PR_GET_NAME, name.data());
  return std::string_view(name.data()) == "gantry-faults";
}

}  // namespace

// Not inlined: the compiler would take malloc() for the wrong partner of delete.
#define GANTRY_APART __attribute__((noinline))
GANTRY_APART void* operator new(std::size_t size) {
  void* const memory = must_fail() ? nullptr : std::malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
GANTRY_APART void operator delete(void* memory) noexcept {
  std::free(memory);
}
GANTRY_APART void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace gantry {
namespace {

using namespace test;
using NoMemory = Snapshots;

TEST_F(NoMemory, PagesOfZerosComeAllTheSame) {
  Snapshot made = must(Snapshot::create(std::vector<SnapshotRegion>{{"heap", 100 * kPageBytes}}));
  must(made.region("heap"))[50 * kPageBytes] = std::byte{1};
  must(made.save(path_, {.touched = {{50}}}));
  const auto io = std::make_shared<GatedFileIo>(0);
  const auto restored = Snapshot::restore(path_, lazily(io, 1));
  ASSERT_TRUE(restored) << to_string(restored.error());
  const ByteSpan memory = must(restored->region("heap"));
  fails = true;
  EXPECT_EQ(memory[51 * kPageBytes], std::byte{0});
  fails = false;
  io->allow(100);
  ASSERT_TRUE(restored->wait());
  EXPECT_EQ(memory[50 * kPageBytes], std::byte{1});
}

std::atomic<const Snapshot*> touched_snapshot{nullptr};

TEST_F(NoMemory, WhoTouchesAPageThatCannotBeWaitedForGetsSigbusAndAReason) {
  if (no_busy_fork() != nullptr) GTEST_SKIP() << no_busy_fork();
  save_numbered(100);
  EXPECT_EQ(in_child([&] {
              const auto io = std::make_shared<GatedFileIo>(0);
              const Snapshot restored = must(Snapshot::restore(path_, lazily(io, 1)));
              touched_snapshot = &restored;
              std::signal(SIGBUS, [](int) {
                const auto error = touched_snapshot.load()->error();
                std::_Exit(error && error->code == Code::out_of_memory ? 7 : 8);
              });
              fails = true;
              return static_cast<int>(number_at(must(restored.region("heap")), 50));
            }),
            7);
}

}  // namespace
}  // namespace gantry
