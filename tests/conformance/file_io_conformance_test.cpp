#include <fcntl.h>
#include <gmock/gmock.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <future>
#include <random>

#include "core/base/test_bytes.hpp"
#include "core/base/test_fork.hpp"
#include "file_ios.hpp"
#include "hung_file.hpp"

// What every way to read and write files promises (gantry/file_io.hpp).
namespace gantry {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using File = std::shared_ptr<const OpenFile>;
using Memory = std::vector<std::byte>;

std::ptrdiff_t entries_of(const char* folder) {
  return std::distance(std::filesystem::directory_iterator(folder), {});
}

Memory noise(Bytes size, unsigned seed) {
  return test::random_bytes(size, seed);
}

class FileIoConformance : public testing::TestWithParam<FileIoCase> {
 protected:
  void SetUp() override {
    auto made = GetParam().make();
    if (!made && made.error().code == Code::unsupported) {
      EXPECT_FALSE(made.error().hint.empty());
      GTEST_SKIP() << to_string(made.error());
    }
    ASSERT_TRUE(made) << to_string(made.error());
    io_ = *std::move(made);
    lane_ = open_lane();
  }

  [[nodiscard]] std::unique_ptr<FileLane> open_lane() const {
    auto lane = io_->open_lane();
    EXPECT_TRUE(lane) << to_string(lane.error());
    return *std::move(lane);
  }
  static File open(const std::string& path, int flags) {
    return std::make_shared<OpenFile>(::open(path.c_str(), flags | O_CLOEXEC, 0600), "file 'x'");
  }
  /// A file without a name, with these bytes.
  static File file_of(const Memory& bytes) {
    auto file = open(std::filesystem::temp_directory_path().string(), O_RDWR | O_TMPFILE);
    EXPECT_EQ(::pwrite(file->descriptor(), bytes.data(), bytes.size(), 0),
              static_cast<ssize_t>(bytes.size()));
    return file;
  }
  Result<Ticket> read(const File& file, std::uint64_t offset, ByteSpan to,
                      std::shared_ptr<const void> keep = {}) {
    return lane_->submit({FileTransfer::Kind::read, file, offset, to, std::move(keep)});
  }
  Result<Ticket> write(const File& file, std::uint64_t offset, ByteSpan from) {
    return lane_->submit({FileTransfer::Kind::write, file, offset, from});
  }
  Error error_of(const Result<Ticket>& ticket) {
    if (!ticket) return ticket.error();
    const auto ended = lane_->wait(*ticket);
    EXPECT_FALSE(ended);
    return ended ? Error{} : ended.error();
  }

  std::shared_ptr<FileIo> io_;
  std::unique_ptr<FileLane> lane_;
};

TEST_P(FileIoConformance, MovesRangesOfAnySizeInAnyOrder) {
  const Memory all = noise(9'000'001, 1);
  const File from = file_of(all), to = file_of({});
  Memory there(all.size());
  std::mt19937 random(2);
  std::vector<std::pair<Bytes, Bytes>> ranges;
  for (Bytes at = 0; at < all.size();) {
    const Bytes size = std::min<Bytes>(1 + random() % 2'000'000, all.size() - at);
    ranges.emplace_back(at, size);
    at += size;
  }
  std::ranges::shuffle(ranges, random);
  std::vector<Ticket> tickets;
  for (const auto& [at, size] : ranges)
    tickets.push_back(*read(from, at, ByteSpan(there).subspan(at, size)));
  std::ranges::reverse(tickets);
  for (const Ticket ticket : tickets) ASSERT_TRUE(lane_->wait(ticket));
  EXPECT_EQ(there, all);
  for (const auto& [at, size] : ranges)
    ASSERT_TRUE(write(to, 100 + at, ByteSpan(there).subspan(at, size)));
  ASSERT_TRUE(lane_->drain());
  Memory back(all.size());
  ASSERT_TRUE(lane_->wait(*read(to, 100, back)));
  EXPECT_EQ(back, all);
}

TEST_P(FileIoConformance, ALaneServesSeveralThreads) {
  const Memory all = noise(400'000, 3);
  const File file = file_of(all);
  std::vector<std::thread> threads;
  std::array<bool, 4> are_right{};
  for (bool& is_right : are_right)
    threads.emplace_back([&] {
      Memory there(1000);
      is_right = true;
      for (Bytes at = 0; at < all.size(); at += there.size()) {
        const auto ticket = read(file, at, there);
        is_right = is_right && ticket && lane_->wait(*ticket) &&
                   std::equal(there.begin(), there.end(), all.begin() + static_cast<long>(at));
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_THAT(are_right, testing::Each(true));
}

TEST_P(FileIoConformance, AFileThatEndsEarlySaysWhere) {
  const File file = file_of(noise(2'000'002, 4));
  Memory there(3'000'000);
  const Error error = error_of(read(file, 1000, there));
  EXPECT_EQ(error.code, Code::system);
  EXPECT_EQ(error.message, "file 'x': 1999002 of 3000000 bytes are there from offset 1000 on");
  EXPECT_THAT(error.hint, HasSubstr("cut short"));
}

TEST_P(FileIoConformance, TheKernelsReasonIsTold) {
  Memory bytes(100);
  const Error full = error_of(write(open("/dev/full", O_RDWR), 0, bytes));
  EXPECT_EQ(full.code, Code::system);
  EXPECT_EQ(full.message, "writing file 'x': No space left on device");
  const Error closed = error_of(write(open("/dev/null", O_RDONLY), 0, bytes));
  EXPECT_EQ(closed.message, "writing file 'x': Bad file descriptor");
  Memory there(10);
  EXPECT_TRUE(lane_->wait(*read(file_of(noise(10, 5)), 0, there)));  // the lane goes on
}

TEST_P(FileIoConformance, NonsenseIsRefused) {
  Memory bytes(100);
  EXPECT_EQ(error_of(read(nullptr, 0, bytes)).code, Code::invalid_argument);
  EXPECT_EQ(error_of(read(file_of({}), 0, {})).code, Code::invalid_argument);
  for (const std::uint64_t beyond : {~std::uint64_t{0}, (~std::uint64_t{0} >> 1) - 99})
    EXPECT_EQ(error_of(read(file_of(bytes), beyond, bytes)).code, Code::invalid_argument) << beyond;
  EXPECT_EQ(lane_->wait(Ticket{77}).error().code, Code::invalid_argument);
  const Ticket once = *read(file_of(bytes), 0, bytes);
  EXPECT_TRUE(lane_->wait(once));
  EXPECT_TRUE(lane_->is_over(once));
  EXPECT_EQ(lane_->wait(once).error().code, Code::invalid_argument);
}

TEST_P(FileIoConformance, NothingBeginsBetweenCancelAndDrain) {
  const File file = file_of(noise(1000, 6));
  Memory there(1000);
  lane_->cancel();
  EXPECT_EQ(error_of(read(file, 0, there)).code, Code::interrupted);
  ASSERT_TRUE(lane_->drain());
  EXPECT_TRUE(lane_->wait(*read(file, 0, there)));
}

TEST_P(FileIoConformance, LanesLeaveNoDescriptorAndNoThread) {
  lane_.reset();
  const auto descriptors = entries_of("/proc/self/fd"), threads = entries_of("/proc/self/task");
  Memory there(100'000);
  for (int i = 0; i < 20; ++i) {
    lane_ = open_lane();
    const File file = file_of(noise(there.size(), 7));
    ASSERT_TRUE(lane_->wait(*read(file, 0, there)));
    lane_.reset();
  }
  EXPECT_EQ(entries_of("/proc/self/fd"), descriptors);
  EXPECT_EQ(entries_of("/proc/self/task"), threads);
}

// ---- that does not return ------------------------------------------------------------------

/// Memory that tells when it is let go.
struct Watched {
  std::promise<void> gone;
  std::future<void> is_gone = gone.get_future();
  std::shared_ptr<Memory> bytes = std::shared_ptr<Memory>(new Memory(4096), [this](Memory* memory) {
    delete memory;
    gone.set_value();
  });
};

class FileIoHung : public FileIoConformance {
 protected:
  void SetUp() override {
    if (!hung_.is_there()) GTEST_SKIP() << "no right to mount a file system of ours";
    FileIoConformance::SetUp();
  }
  void TearDown() override { lane_.reset(); }
  [[nodiscard]] File file() const { return open(hung_.path(), O_RDWR); }

  HungFile hung_{Bytes{1} << 20};
};

TEST_P(FileIoHung, AWaitEndsAtItsDeadlineAndMayBeRepeated) {
  Memory there(4096);
  const Ticket ticket = *read(file(), 0, there);
  hung_.wait_for(1);
  const Error late = lane_->wait(ticket, Deadline::after(1ms)).error();
  EXPECT_EQ(late.code, Code::timed_out);
  EXPECT_THAT(late.message, HasSubstr("reading file 'x': 4096 bytes from offset 0 on"));
  EXPECT_FALSE(lane_->is_over(ticket));
  EXPECT_EQ(lane_->drain(Deadline::after(1ms)).error().code, Code::timed_out);
  hung_.release();
  EXPECT_TRUE(lane_->wait(ticket));
  EXPECT_EQ(there.back(), std::byte{'r'});
}

TEST_P(FileIoHung, CancellingEndsAWaitThatHasNoDeadline) {
  Memory there(4096);
  const Ticket ticket = *read(file(), 0, there);
  hung_.wait_for(1);
  std::thread canceller([&] { lane_->cancel(); });
  EXPECT_EQ(lane_->wait(ticket).error().code, Code::interrupted);
  canceller.join();
  hung_.release();
  EXPECT_TRUE(lane_->drain());
}

TEST_P(FileIoHung, WhatTheKernelHasIsHeldUntilItGivesItBack) {
  Watched memory;
  std::weak_ptr<const OpenFile> held;
  {
    const File hanging = file();
    held = hanging;
    ASSERT_TRUE(read(hanging, 0, *memory.bytes, memory.bytes));
  }
  hung_.wait_for(1);
  memory.bytes.reset();
  lane_->cancel();
  EXPECT_EQ(lane_->drain(Deadline::after(1ms)).error().code, Code::timed_out);
  lane_.reset();  // waits for nothing
  EXPECT_EQ(memory.is_gone.wait_for(0s), std::future_status::timeout);
  EXPECT_FALSE(held.expired());
  hung_.release();
  memory.is_gone.wait();
}

TEST_P(FileIoHung, AWriteHangsNoLonger) {
  Memory bytes(4096);
  const Ticket ticket = *write(file(), 0, bytes);
  hung_.wait_for(1);
  EXPECT_EQ(lane_->wait(ticket, Deadline::after(1ms)).error().code, Code::timed_out);
  hung_.release();
  EXPECT_TRUE(lane_->wait(ticket));
}

/// A thread that does `work` and sleeps in it when this returns.
template <class Work>
std::future<Result<void>> begun_and_asleep(Work work) {
  std::promise<pid_t> begun;
  auto ended = std::async(std::launch::async, [&begun, work] {
    begun.set_value(::gettid());
    return work();
  });
  const std::string stat = "/proc/self/task/" + std::to_string(begun.get_future().get()) + "/stat";
  for (std::string text; text.find(") S") == std::string::npos;)
    std::getline(std::ifstream(stat), text);
  return ended;
}

TEST_P(FileIoHung, DrainingForgetsNothingThatIsWaitedFor) {
  std::vector<Memory> there(16, Memory(4096));
  std::vector<Ticket> tickets;
  for (Memory& memory : there) tickets.push_back(*read(file(), 0, memory));
  hung_.wait_for(1);
  std::vector<std::future<Result<void>>> all;
  all.push_back(begun_and_asleep([&] { return lane_->drain(); }));
  for (const Ticket ticket : tickets)
    all.push_back(begun_and_asleep([&, ticket] { return lane_->wait(ticket); }));
  hung_.release();
  for (auto& one : all) {
    const auto ended = one.get();
    EXPECT_TRUE(ended) << to_string(ended.error());
  }
}

// ---- other processes -----------------------------------------------------------------------

TEST_P(FileIoConformance, AChildHasLanesOfItsOwnOnly) {
  if (const char* const why = no_busy_fork()) GTEST_SKIP() << why;
  const Memory all = noise(1000, 8);
  const File file = file_of(all);
  Memory there(1000);
  const auto refused_then_read = [&] {
    if (error_of(read(file, 0, there)).code != Code::invalid_argument) return 1;
    lane_.reset();
    lane_ = open_lane();
    if (!lane_->wait(*read(file, 0, there))) return 2;
    return there == all ? 0 : 3;
  };
  EXPECT_EQ(in_child(refused_then_read), 0);
  EXPECT_TRUE(lane_->wait(*read(file, 0, there)));
}

TEST_P(FileIoConformance, LittleLockedMemoryIsEnough) {
  if (const char* const why = no_busy_fork()) GTEST_SKIP() << why;
  const Memory all = noise(5'000'000, 9);
  const File file = file_of(all);
  Memory there(all.size());
  const auto read_with_little = [&] {
    const rlimit little{64 << 10, 64 << 10};
    if (::setrlimit(RLIMIT_MEMLOCK, &little) != 0) return 1;
    if (::geteuid() == 0 && ::setresuid(65534, 65534, 65534) != 0) return 2;
    lane_ = open_lane();
    if (!lane_->wait(*read(file, 0, there))) return 3;
    return there == all ? 0 : 4;
  };
  EXPECT_EQ(in_child(read_with_little), 0);
}

// Whatever the way: what is refused may be of no use, but costs no process.
TEST_P(FileIoConformance, AFilterThatLetsRingsBeMadeButNotUsedIsSurvived) {
  if (const char* const why = no_busy_fork()) GTEST_SKIP() << why;
  const Memory all = noise(1000, 11);
  const File file = file_of(all);
  Memory there(1000);
  const auto read_behind_a_filter = [&] {
    sock_filter refusing[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
                              BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_enter, 0, 1),
                              BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
                              BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    const sock_fprog filter{std::size(refusing), refusing};
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return 1;
    if (::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) return 2;
    auto lane = io_->open_lane();
    if (!lane) return lane.error().code == Code::unsupported ? 0 : 3;
    lane_ = *std::move(lane);
    if (!lane_->wait(*read(file, 0, there))) return 4;
    return there == all ? 0 : 5;
  };
  EXPECT_EQ(in_child(read_behind_a_filter), 0);
}

// Workers of the kernel's are threads of the user's, too.
TEST_P(FileIoHung, NoThreadMoreIsEnough) {
  if (const char* const why = no_busy_fork()) GTEST_SKIP() << why;
  const File slow = file();
  Memory there(Bytes{1} << 20);
  hung_.release();
  const auto read_without_threads = [&] {
    lane_ = open_lane();
    const rlimit none{1, 1};
    if (::setrlimit(RLIMIT_NPROC, &none) != 0) return 1;
    if (::geteuid() == 0 && ::setresuid(65534, 65534, 65534) != 0) return 2;
    if (!lane_->wait(*read(slow, 0, there))) return 3;
    return there == Memory(there.size(), std::byte{'r'}) ? 0 : 4;
  };
  EXPECT_EQ(in_child(read_without_threads), 0);
}

std::string name_of(const testing::TestParamInfo<FileIoCase>& info) {
  return info.param.name;
}
INSTANTIATE_TEST_SUITE_P(All, FileIoConformance, testing::ValuesIn(kFileIos), name_of);
INSTANTIATE_TEST_SUITE_P(All, FileIoHung, testing::ValuesIn(kFileIos), name_of);

}  // namespace
}  // namespace gantry
