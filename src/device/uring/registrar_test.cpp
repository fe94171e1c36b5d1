#include "device/uring/registrar.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <liburing.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "core/base/os/fd.hpp"
#include "core/base/sizes.hpp"

// What only this registrar has: a ring, slots in its table, and reads by the keys.
namespace gantry {
namespace {

class UringRegistrar : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto made = make_uring_registrar(); !made) GTEST_SKIP() << to_string(made.error());
    ASSERT_EQ(::io_uring_queue_init(4, &ring_, 0), 0);
    has_ring_ = true;
  }
  ~UringRegistrar() override {
    if (has_ring_) ::io_uring_queue_exit(&ring_);
  }

  [[nodiscard]] UringRegistrarOptions on_ring(unsigned slots = 8) const {
    return {.ring_descriptor = ring_.ring_fd, .slots = slots};
  }

  /// Reads zeros into `memory` by the buffer `key` stands for; the kernel's answer.
  int read_zeros(ByteSpan memory, const DeviceKey& key) {
    const Fd zeros(::open("/dev/zero", O_RDONLY | O_CLOEXEC));
    io_uring_sqe* const entry = ::io_uring_get_sqe(&ring_);
    ::io_uring_prep_read_fixed(entry, zeros.get(), memory.data(),
                               static_cast<unsigned>(memory.size()), 0, static_cast<int>(key.key));
    EXPECT_EQ(::io_uring_submit(&ring_), 1);
    io_uring_cqe* done = nullptr;
    EXPECT_EQ(::io_uring_wait_cqe(&ring_, &done), 0);
    const int answer = done->res;
    ::io_uring_cqe_seen(&ring_, done);
    return answer;
  }

  io_uring ring_{};
  bool has_ring_ = false;
  std::vector<std::byte> bytes_ = std::vector<std::byte>(4 * kSmallestPage, std::byte{0x55});
};

TEST_F(UringRegistrar, KeysAreBuffersOfTheUsersRing) {
  const auto registrar = *make_uring_registrar(on_ring());
  const ByteSpan memory(bytes_);
  auto first = *registrar->register_memory(memory.first(kSmallestPage));
  auto second = *registrar->register_memory(memory.last(kSmallestPage));
  EXPECT_NE(first.key()->key, second.key()->key);
  EXPECT_EQ(read_zeros(second.memory(), *second.key()), static_cast<int>(kSmallestPage));
  EXPECT_EQ(bytes_.back(), std::byte{0});
  EXPECT_EQ(bytes_.front(), std::byte{0x55});
  EXPECT_EQ(read_zeros(first.memory(), *second.key()), -EFAULT);  // outside of that buffer
  const DeviceKey gone = *second.key();
  second = {};
  EXPECT_EQ(read_zeros(memory.last(kSmallestPage), gone), -EFAULT);
}

TEST_F(UringRegistrar, TakesTheSlotsItHasAndNoMore) {
  const auto registrar = *make_uring_registrar(on_ring(3));
  std::vector<Registration> held;
  for (Bytes i = 0; i < 3; ++i)
    held.push_back(
        *registrar->register_memory(ByteSpan(bytes_).subspan(i * kSmallestPage, kSmallestPage)));
  const auto refused = registrar->register_memory(ByteSpan(bytes_).last(kSmallestPage));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::out_of_memory);
  EXPECT_EQ(to_string(refused.error()),
            "uring: fixing 4096 bytes: all 3 buffer slots are taken; drop registrations that are "
            "not used, or ask for more slots");
  held.pop_back();
  EXPECT_TRUE(registrar->register_memory(ByteSpan(bytes_).last(kSmallestPage)));
}

TEST_F(UringRegistrar, OneBufferIsAtMostAGigabyte) {
  const Bytes size = (Bytes{1} << 30) + kSmallestPage;
  void* const at = ::mmap(nullptr, size, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(at, MAP_FAILED);
  const auto refused =
      (*make_uring_registrar())->register_memory({static_cast<std::byte*>(at), size});
  ::munmap(at, size);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::too_large);
  EXPECT_FALSE(refused.error().hint.empty());
}

// The child has the same ring: clearing a slot there would clear the parent's.
TEST_F(UringRegistrar, AChildsDropsLeaveTheParentsBuffers) {
  auto registrar = *make_uring_registrar(on_ring());
  auto known = *registrar->register_memory(bytes_);
  const pid_t child = ::fork();
  if (child == 0) {
    known = {};
    registrar.reset();
    ::_exit(0);
  }
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_EQ(read_zeros(known.memory(), *known.key()), static_cast<int>(bytes_.size()));
}

TEST_F(UringRegistrar, ARefusalCostsNoSlot) {
  const auto registrar = *make_uring_registrar(on_ring(2));
  void* const hole = ::mmap(nullptr, kSmallestPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(hole, MAP_FAILED);
  for (int i = 0; i < 5; ++i) {
    const auto refused = registrar->register_memory({static_cast<std::byte*>(hole), kSmallestPage});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::invalid_argument);
  }
  ::munmap(hole, kSmallestPage);
  EXPECT_TRUE(registrar->register_memory(bytes_));
}

/// 0 if fixing above a limit of 64 KiB is refused as it should be.
int refused_above_limit(ByteSpan memory) {
  const rlimit limit{64 << 10, 64 << 10};
  if (::setrlimit(RLIMIT_MEMLOCK, &limit) != 0) return 10;
  if (::geteuid() == 0 && ::setresuid(65534, 65534, 65534) != 0) return 11;
  const auto registrar = make_uring_registrar();
  if (!registrar) return 12;
  const auto refused = (*registrar)->register_memory(memory);
  if (refused) return 13;
  const Error& error = refused.error();
  if (error.code != Code::out_of_memory) return 14;
  if (error.message.find("the limit of locked memory is 64 KiB") == std::string::npos) return 15;
  return error.hint.find("ulimit -l") == std::string::npos ? 16 : 0;
}

TEST_F(UringRegistrar, TheLimitOfLockedMemoryIsNamed) {
  std::vector<std::byte> bytes(1 << 20, std::byte{1});
  const pid_t child = ::fork();
  if (child == 0) ::_exit(refused_above_limit(bytes));
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(UringRegistrar, OutlivesTheUsersDescriptorAndGivesTheTableBack) {
  {
    const auto registrar = *make_uring_registrar(on_ring());
    EXPECT_EQ(make_uring_registrar(on_ring()).error().code, Code::already_exists);
    EXPECT_TRUE(registrar->register_memory(bytes_));
  }
  auto registrar = *make_uring_registrar(on_ring());
  auto known = *registrar->register_memory(bytes_);
  ::io_uring_queue_exit(&ring_);
  has_ring_ = false;
  known = {};
  EXPECT_EQ(registrar->report().failed, 0u);
}

TEST_F(UringRegistrar, RefusesWhatIsNoRing) {
  const Fd file(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(make_uring_registrar({.ring_descriptor = file.get()}).error().code,
            Code::invalid_argument);
  EXPECT_EQ(make_uring_registrar({.ring_descriptor = 1 << 20}).error().code,
            Code::invalid_argument);
  EXPECT_EQ(make_uring_registrar({.slots = 0}).error().code, Code::invalid_argument);
  EXPECT_EQ(make_uring_registrar({.slots = 1u << 20}).error().code, Code::invalid_argument);
}

}  // namespace
}  // namespace gantry
