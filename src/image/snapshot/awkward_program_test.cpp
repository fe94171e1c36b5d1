#include <fcntl.h>
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
#include <filesystem>
#include <functional>
#include <thread>

#include "core/base/os/fd.hpp"
#include "core/base/test_fork.hpp"
#include "image/load/test_gated_file_io.hpp"
#include "image/snapshot/test_snapshot.hpp"

// Programs that lock and protect their memory, kernels that have none left, reads that fail at
// once.
namespace gantry {
namespace {

using namespace test;

/// Does on each call what the tests want, and reads as the plain one does.
class HookedFileIo final : public FileIo {
 public:
  struct Hooks {
    std::function<Result<void>()> submit = [] { return Result<void>{}; };
    std::function<void(Bytes offset)> wait = [](Bytes) {};
  };
  explicit HookedFileIo(Hooks hooks) : hooks_(std::move(hooks)) {}
  std::string_view name() const noexcept override { return "hooked"; }
  std::string about() const override { return "hooked"; }
  Result<std::unique_ptr<FileLane>> open_lane(FileTransfer::Kind kind) override {
    GANTRY_ASSIGN(auto plain, plain_->open_lane(kind));
    ++lanes;
    return std::make_unique<Lane>(*this, std::move(plain));
  }
  std::atomic<unsigned> lanes{0};

 private:
  class Lane final : public FileLane {
   public:
    Lane(HookedFileIo& io, std::unique_ptr<FileLane> plain) : io_(io), plain_(std::move(plain)) {}
    Result<Ticket> submit(const FileTransfer& transfer) override {
      GANTRY_TRY(io_.hooks_.submit());
      GANTRY_ASSIGN(const Ticket ticket, plain_->submit(transfer));
      offsets_[ticket] = transfer.offset;
      return ticket;
    }
    bool is_over(Ticket ticket) const override { return plain_->is_over(ticket); }
    Result<void> wait(Ticket ticket, Deadline deadline) override {
      io_.hooks_.wait(offsets_[ticket]);
      return plain_->wait(ticket, deadline);
    }
    void cancel() noexcept override { plain_->cancel(); }
    Result<void> drain(Deadline deadline) override { return plain_->drain(deadline); }

   private:
    HookedFileIo& io_;
    std::unique_ptr<FileLane> plain_;
    std::map<Ticket, Bytes> offsets_;
  };
  const Hooks hooks_;
  const std::shared_ptr<FileIo> plain_ = must(make_plain_file_io());
};

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
      if (!records) continue;
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

// As allocators give memory back. Whoever maps something there has that.
TEST_F(AwkwardPrograms, PagesComeWhereTheProgramHasUnmappedSome) {
  save_numbered(2 * kChunkPages, some_pages(2 * kChunkPages, 100, 4));
  for (const bool records : {false, true}) {
    const auto io = std::make_shared<GatedFileIo>(0);
    RestoreOptions options = lazily(io, 1);
    options.record = records;
    const auto restored = Snapshot::restore(path_, options);
    ASSERT_TRUE(restored) << to_string(restored.error());
    std::byte* const memory = must(restored->region("heap")).data();
    std::byte* const gone = memory + 21 * kPageBytes;
    ASSERT_EQ(::munmap(gone, 3 * kPageBytes), 0);
    void* const other = ::mmap(gone, kPageBytes, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    ASSERT_EQ(other, gone);
    io->allow(1000);
    const auto done = restored->wait();
    ASSERT_TRUE(done) << to_string(done.error());
    EXPECT_EQ(number_at({gone, kPageBytes}, 0), 0u);
    for (std::uint64_t page = 0; page < 2 * kChunkPages; ++page)
      if (page < 21 || page >= 24) {
        ASSERT_EQ(number_at({memory, 2 * kChunkPages * kPageBytes}, page), page + 1);
      }
  }
}

// The kernel refuses to let go of a range in which there is a mapping that cannot be watched.
TEST_F(AwkwardPrograms, ZerosAroundAForeignMappingComeWhenEverythingIsThere) {
  if (no_busy_fork() != nullptr) GTEST_SKIP() << no_busy_fork();
  Snapshot made = must(Snapshot::create(std::vector<SnapshotRegion>{{"heap", 2000 * kPageBytes}}));
  must(made.region("heap"))[0] = std::byte{1};
  must(made.save(path_));
  EXPECT_EQ(
      in_child([&] {
        ::alarm(30);
        const Snapshot restored = must(Snapshot::restore(path_, lazily({}, 1)));
        std::byte* const memory = must(restored.region("heap")).data();
        const Fd file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
        std::byte* const there = memory + 1000 * kPageBytes;
        if (::mmap(there, kPageBytes, PROT_READ, MAP_PRIVATE | MAP_FIXED, file.get(), 0) != there)
          return 1;
        if (!restored.wait()) return 2;
        const ConstByteSpan bytes(memory, 2000 * kPageBytes);
        for (const std::uint64_t page : {1, 999, 1001, 1999})
          if (number_at(bytes, page) != 0) return 3;
        return 0;
      }),
      0);
}

// Sandboxes take the right to open files once all are open.
TEST_F(AwkwardPrograms, PagesComeWhereNoFileMayBeOpened) {
  if (no_busy_fork() != nullptr) GTEST_SKIP() << no_busy_fork();
  save_numbered(2 * kChunkPages, {5, 4});
  EXPECT_EQ(in_child([&] {
              ::alarm(30);
              const auto io = std::make_shared<GatedFileIo>(0);
              const Snapshot restored = must(Snapshot::restore(path_, lazily(io, 1)));
              io->wait_for_asked(1);
              const rlimit none{0, 0};
              if (::setrlimit(RLIMIT_NOFILE, &none) != 0) return 1;
              io->allow(1000);
              return are_numbered(restored) && restored.wait() ? 0 : 2;
            }),
            0);
}

// Or else they get EFAULT, in a process without rights, where the page is one of zeros.
TEST_F(AwkwardPrograms, SystemCallsReadAllPagesWhenEverythingIsThere) {
  if (no_busy_fork() != nullptr) GTEST_SKIP() << no_busy_fork();
  Snapshot made = must(Snapshot::create(std::vector<SnapshotRegion>{{"heap", 2000 * kPageBytes}}));
  must(made.region("heap"))[0] = std::byte{1};
  must(made.save(path_));
  std::filesystem::permissions(folder_.path(), std::filesystem::perms{0755});
  std::filesystem::permissions(path_, std::filesystem::perms{0644});
  EXPECT_EQ(in_child([&] {
              if (::getuid() == 0 && (::setgid(65534) != 0 || ::setuid(65534) != 0)) return 1;
              std::array<int, 2> pipe{};
              if (::pipe(pipe.data()) != 0) return 2;
              for (int round = 0; round < 100; ++round) {
                const Snapshot restored = must(Snapshot::restore(path_, lazily({}, 1)));
                const ConstByteSpan memory = must(restored.region("heap"));
                if (!restored.wait()) return 3;
                std::byte seen{7};
                if (::write(pipe[1], memory.data() + (1000 + round) * kPageBytes, 1) != 1) return 4;
                if (::read(pipe[0], &seen, 1) != 1 || seen != std::byte{0}) return 5;
              }
              return 0;
            }),
            0);
}

// Parts of it may not be read by the program itself.
TEST_F(AwkwardPrograms, WhatTheProgramHasProtectedIsSaved) {
  save_numbered(2 * kChunkPages, some_pages(2 * kChunkPages, 100, 4));
  for (const bool records : {false, true}) {
    RestoreOptions options = lazily();
    options.record = records;
    const auto restored = Snapshot::restore(path_, options);
    ASSERT_TRUE(restored) << to_string(restored.error());
    ASSERT_TRUE(restored->wait());
    std::byte* const memory = must(restored->region("heap")).data();
    ASSERT_EQ(::mprotect(memory + 21 * kPageBytes, 3 * kPageBytes, PROT_NONE), 0);
    const std::string again = folder_.file("again.gimg");
    const auto saved = restored->save(again);
    ASSERT_TRUE(saved) << to_string(saved.error());
    EXPECT_TRUE(are_numbered(must(Snapshot::restore(again))));
    std::filesystem::remove(again);
  }
}

TEST_F(AwkwardPrograms, WhereTheKernelHidesAProcessFromItselfSavingSaysWhatToDo) {
  if (no_busy_fork() != nullptr) GTEST_SKIP() << no_busy_fork();
  save_numbered(10);
  std::filesystem::permissions(folder_.path(), std::filesystem::perms{0777});
  std::filesystem::permissions(path_, std::filesystem::perms{0644});
  EXPECT_EQ(in_child([&] {
              if (::getuid() == 0 && (::setgid(65534) != 0 || ::setuid(65534) != 0)) return 1;
              if (::prctl(PR_SET_DUMPABLE, 0) != 0) return 2;
              const Snapshot restored = must(Snapshot::restore(path_, lazily()));
              const auto saved = restored.save(path_ + "2");
              if (saved || saved.error().code != Code::permission_denied) return 3;
              if (saved.error().hint.find("RestoreOptions::record") == std::string::npos) return 4;
              RestoreOptions options = lazily();
              options.record = true;
              return must(Snapshot::restore(path_, options)).save(path_ + "2") ? 0 : 5;
            }),
            0);
}

/// From now on the kernel says that it has no memory for what this process wants mapped.
bool lets_nothing_be_mapped() {
  constexpr auto kCall = offsetof(seccomp_data, nr), kRequest = offsetof(seccomp_data, args[1]);
  std::array<sock_filter, 6> filter{{BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kCall),
                                     BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 3),
                                     BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kRequest),
                                     BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, UFFDIO_CONTINUE, 0, 1),
                                     BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOMEM),
                                     BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)}};
  const sock_fprog program{filter.size(), filter.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST_F(AwkwardPrograms, WhoeverSleepsOnAPageThatCannotBeMappedIsWokenBySigbus) {
  if (no_busy_fork() != nullptr) GTEST_SKIP() << no_busy_fork();
  save_numbered(2 * kChunkPages);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(30);  // else it sleeps for ever
    if (!lets_nothing_be_mapped()) ::_exit(77);
    const auto io = std::make_shared<GatedFileIo>(0);
    RestoreOptions options = lazily(io, 1);
    options.record = true;  // so that pages are made first and mapped then
    const Snapshot restored = must(Snapshot::restore(path_, options));
    io->wait_for_asked(1);
    std::jthread later([&] {
      io->wait_for_asked(2);  // the page was touched
      io->allow(2);
    });
    ::_exit(number_at(must(restored.region("heap")), kChunkPages + 5) == 0 ? 1 : 2);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) GTEST_SKIP() << "no seccomp here";
  EXPECT_EQ(WIFSIGNALED(status) ? WTERMSIG(status) : 0, SIGBUS);
}

// Or else the fetcher's error would end what is still being made.
TEST_F(AwkwardPrograms, NothingIsReadBeforeAllThatReadAreThere) {
  save_numbered(8 * kChunkPages, {}, {Codec::deflate, 0, false});
  constexpr unsigned kWorkers = 8;
  for (int round = 0; round < 10; ++round) {
    std::shared_ptr<HookedFileIo> io;
    std::atomic<unsigned> lanes{~0U};
    io = std::make_shared<HookedFileIo>(HookedFileIo::Hooks{.submit = [&]() -> Result<void> {
      unsigned none = ~0U;
      lanes.compare_exchange_strong(none, io->lanes);
      return fail(Code::system, "reading: it is broken");
    }});
    const auto restored = Snapshot::restore(path_, lazily(io, kWorkers));
    ASSERT_TRUE(restored) << to_string(restored.error());
    EXPECT_THAT(restored->wait().error().message, ::testing::HasSubstr("it is broken"));
    EXPECT_EQ(lanes, kWorkers + 1);
  }
}

TEST_F(AwkwardPrograms, AThreadGivesWayWhenItsShareOfTheWorkingSetIsThere) {
  save_numbered(3 * kChunkPages, some_pages(3 * kChunkPages, kChunkPages, 8));
  const Bytes first = offset_of(1, 0), rest = offset_of(2, 0);
  std::atomic<int> nice_at_first{-100}, nice_at_rest{-100};
  const auto io = std::make_shared<HookedFileIo>(HookedFileIo::Hooks{.wait = [&](Bytes offset) {
    if (offset == first) nice_at_first = ::getpriority(PRIO_PROCESS, 0);
    if (offset == rest) nice_at_rest = ::getpriority(PRIO_PROCESS, 0);
  }});
  const int nice = ::getpriority(PRIO_PROCESS, 0);
  const auto restored = Snapshot::restore(path_, lazily(io, 1));
  ASSERT_TRUE(restored) << to_string(restored.error());
  ASSERT_TRUE(restored->wait());
  EXPECT_EQ(nice_at_first, nice);
  EXPECT_EQ(nice_at_rest, std::min(nice + 10, 19));
}

}  // namespace
}  // namespace gantry
