#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <latch>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "core/base/sizes.hpp"
#include "core/base/test_fork.hpp"
#include "core/memory/fake_registrar_test.hpp"

// What is the base's, for any registrar: which ranges cover which. Then the edges of page-lock.
namespace gantry {
namespace {

using testing::HasSubstr;

// ---- ranges, against a model ---------------------------------------------------------------

/// What the registrar should know: ranges that do not overlap, each with its handles.
class Model {
 public:
  enum class Answer { made, reused, refused };
  struct Range {
    std::size_t begin, end;
    int users;
  };

  Answer register_memory(std::size_t begin, std::size_t end) {
    for (Range& range : ranges_) {
      if (begin >= range.begin && end <= range.end) {
        ++range.users;
        return Answer::reused;
      }
      if (begin < range.end && range.begin < end) return Answer::refused;
    }
    ranges_.push_back({begin, end, 1});
    return Answer::made;
  }
  void leave(std::size_t begin) {
    const auto range = std::ranges::find_if(
        ranges_, [&](const Range& one) { return begin >= one.begin && begin < one.end; });
    if (--range->users == 0) ranges_.erase(range);
  }
  [[nodiscard]] std::size_t begin_of(std::size_t place) const {
    for (const Range& range : ranges_)
      if (place >= range.begin && place < range.end) return range.begin;
    return ~std::size_t{0};
  }
  [[nodiscard]] std::size_t count() const { return ranges_.size(); }
  [[nodiscard]] std::size_t bytes() const {
    std::size_t sum = 0;
    for (const Range& range : ranges_) sum += range.end - range.begin;
    return sum;
  }

 private:
  std::vector<Range> ranges_;
};

class Ranges : public testing::Test {
 protected:
  static constexpr std::size_t kSize = 48;  // small, so that ranges meet in every way

  void register_memory(std::mt19937& random) {
    std::size_t begin = random() % kSize, end = random() % kSize;
    if (begin > end) std::swap(begin, end);
    ++end;
    auto known = fake_->register_memory(ByteSpan(bytes_).subspan(begin, end - begin));
    const auto expected = model_.register_memory(begin, end);
    ASSERT_EQ(known.has_value(), expected != Model::Answer::refused) << begin << ".." << end;
    if (!known) {
      EXPECT_EQ(known.error().code, Code::already_exists);
      return;
    }
    made_ += expected == Model::Answer::made ? 1 : 0;
    reused_ += expected == Model::Answer::reused ? 1 : 0;
    EXPECT_EQ(known->key()->offset, begin - model_.begin_of(begin));
    held_.push_back(*std::move(known));
  }
  void leave(std::mt19937& random) {
    if (held_.empty()) return;
    std::swap(held_[random() % held_.size()], held_.back());
    model_.leave(static_cast<std::size_t>(held_.back().memory().data() - bytes_.data()));
    held_.pop_back();
  }
  void expect_as_modelled() const {
    const RegistrarReport report = fake_->report();
    ASSERT_EQ(report.registrations, model_.count());
    ASSERT_EQ(fake_->live(), model_.count());
    ASSERT_EQ(report.bytes, model_.bytes());
    ASSERT_EQ(report.made, made_);
    ASSERT_EQ(report.reused, reused_);
    ASSERT_EQ(fake_->wrong(), 0u);
  }

  std::vector<std::byte> bytes_ = std::vector<std::byte>(kSize);
  std::shared_ptr<FakeRegistrar> fake_ = FakeRegistrar::create();
  Model model_;
  std::vector<Registration> held_;
  std::uint64_t made_ = 0, reused_ = 0;
};

TEST_F(Ranges, AnyOrderOfRegisteringAndDroppingIsAsModelled) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    for (int step = 0; step < 300; ++step) {
      random() % 5 < 2 ? register_memory(random) : leave(random);
      expect_as_modelled();
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_GT(reused_, 100u);
}

// ---- failures and counts -------------------------------------------------------------------

TEST(Registrar, TheNthFailureLeavesCountsRight) {
  for (std::uint64_t n = 1; n <= 5; ++n) {
    const auto fake = FakeRegistrar::create();
    std::vector<std::byte> bytes(5 * 100);
    fake->fail_at(n, Code::permission_denied);
    std::vector<Registration> held;
    for (std::uint64_t i = 1; i <= 5; ++i) {
      auto known = fake->register_memory(ByteSpan(bytes).subspan((i - 1) * 100, 100));
      ASSERT_EQ(known.has_value(), i != n);
      if (known) held.push_back(*std::move(known));
      if (!known) {
        EXPECT_EQ(known.error().code, Code::permission_denied);
      }
    }
    EXPECT_EQ(fake->report().registrations, 4u);
    EXPECT_EQ(fake->report().bytes, 400u);
    EXPECT_EQ(fake->report().failed, 1u);
    EXPECT_EQ(fake->report().last_error, "fake: registering 100 bytes: as scripted");
    EXPECT_TRUE(fake->register_memory(ByteSpan(bytes).subspan((n - 1) * 100, 100)));
    held.clear();
    EXPECT_EQ(fake->live(), 0u);
  }
}

TEST(Registrar, AFailedUnregisteringIsToldAndForgotten) {
  const auto fake = FakeRegistrar::create();
  std::vector<std::byte> bytes(100);
  {
    const auto known = fake->register_memory(bytes);
    fake->fail_unregister(EBUSY);
  }
  EXPECT_EQ(fake->report().registrations, 0u);
  EXPECT_EQ(fake->report().failed, 1u);
  EXPECT_THAT(fake->report().last_error, HasSubstr("unregistering"));
}

TEST(Registrar, AChildsDropsDoNotReachTheDevice) {
  const auto fake = FakeRegistrar::create();
  std::vector<std::byte> bytes(100);
  auto known = *fake->register_memory(bytes);
  const pid_t child = ::fork();
  if (child == 0) {
    known = {};
    ::_exit(fake->live() == 1 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(Registrar, CountsTheTimeOfTheDevice) {
  const std::chrono::milliseconds cost(2);
  const auto fake = FakeRegistrar::create({.cost = cost});
  std::vector<std::byte> bytes(100);
  {
    const auto known = fake->register_memory(bytes);
  }
  EXPECT_GE(fake->report().time, 2 * cost);
}

TEST(Registrar, RangesBeyondTheAddressSpaceAreRefused) {
  const auto registrar = FakeRegistrar::create();
  std::vector<std::byte> memory(8192);
  const auto held = registrar->register_memory(memory);
  ASSERT_TRUE(held);
  for (const Bytes size : {~Bytes{0}, ~Bytes{0} - 4096})
    EXPECT_EQ(registrar->register_memory({memory.data() + 10, size}).error().code,
              Code::invalid_argument);
}

TEST(Registrar, TakingAHandleOverEndsTheOneThatWasThere) {
  const auto registrar = FakeRegistrar::create();
  std::vector<std::byte> memory(8192);
  auto one = registrar->register_memory(ByteSpan(memory).first(100));
  auto other = registrar->register_memory(ByteSpan(memory).last(100));
  ASSERT_TRUE(one && other);
  *one = std::move(*other);
  EXPECT_EQ(registrar->live(), 1u);
  EXPECT_TRUE(one->key());
}

TEST(Registrar, AForkedChildWaitsForNobody) {
  if (const char* why = no_busy_fork()) GTEST_SKIP() << why;
  const auto registrar = FakeRegistrar::create();
  std::vector<std::byte> memory(8192);
  std::atomic<bool> over{false};
  std::thread busy([&] {
    while (!over.load()) static_cast<void>(registrar->register_memory(memory));
  });
  for (int i = 0; i < 50; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(20);
      ::_exit(!registrar->register_memory(memory) && registrar->report().name == "fake" ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  over.store(true);
  busy.join();
}

TEST(Registrar, MovedHandlesHoldOneRegistration) {
  const auto fake = FakeRegistrar::create();
  std::vector<std::byte> bytes(200);
  auto first = *fake->register_memory(ByteSpan(bytes).first(100));
  auto second = *fake->register_memory(ByteSpan(bytes).last(100));
  Registration moved = std::move(first);
  EXPECT_TRUE(moved.key());
  EXPECT_EQ(Registration().key().error().code, Code::invalid_argument);
  moved = std::move(second);
  second = {};
  EXPECT_EQ(moved.memory().data(), bytes.data() + 100);
  EXPECT_EQ(fake->live(), 1u);
}

TEST(Registrar, AHandleKeepsItsRegistrarAlive) {
  auto fake = FakeRegistrar::create();
  const std::weak_ptr<FakeRegistrar> watched = fake;
  std::vector<std::byte> bytes(100);
  auto known = *fake->register_memory(bytes);
  fake.reset();
  EXPECT_FALSE(watched.expired());
  EXPECT_TRUE(known.key());
  known = {};
  EXPECT_TRUE(watched.expired());
}

// Each thread's ranges meet the others': whatever the order, in the end nothing is left, and the
// device has never been asked for what it did not know.
TEST(Registrar, ThreadsMayShareRanges) {
  constexpr std::size_t kSize = 64;
  const auto fake = FakeRegistrar::create();
  std::vector<std::byte> bytes(kSize);
  std::atomic<int> odd{0};
  std::latch together(4);
  std::vector<std::thread> threads;
  for (unsigned who = 0; who < 4; ++who)
    threads.emplace_back([&, who] {
      std::mt19937 random(who);
      std::vector<Registration> held(4);
      together.arrive_and_wait();
      for (int i = 0; i < 20000; ++i) {
        const std::size_t begin = random() % kSize;
        auto known =
            fake->register_memory(ByteSpan(bytes).subspan(begin, 1 + random() % (kSize - begin)));
        if (!known && known.error().code != Code::already_exists) ++odd;
        if (known && !known->key()) ++odd;
        if (known) held[random() % held.size()] = *std::move(known);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(odd, 0);
  EXPECT_EQ(fake->wrong(), 0u);
  EXPECT_EQ(fake->live(), 0u);
  EXPECT_EQ(fake->report().bytes, 0u);
  EXPECT_GT(fake->report().reused, 0u);
}

// ---- page-lock -----------------------------------------------------------------------------

/// KiB of this process that are locked.
long locked_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (word == "VmLck:") {
      long kib = -1;
      status >> kib;
      return kib;
    }
  return -1;
}

class PageLock : public testing::Test {
 protected:
  PageLock() {
    void* const at = ::mmap(nullptr, kPages * kSmallestPage, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memory_ = {static_cast<std::byte*>(at), kPages * kSmallestPage};
  }
  ~PageLock() override { ::munmap(memory_.data(), memory_.size()); }

  [[nodiscard]] Registration register_memory(Bytes begin, Bytes size) const {
    auto known = registrar_->register_memory(memory_.subspan(begin, size));
    EXPECT_TRUE(known) << to_string(known.error());
    return known ? *std::move(known) : Registration();
  }
  [[nodiscard]] long pages_locked() const { return (locked_kib() - before_) / 4; }

  static constexpr Bytes kPages = 8;
  ByteSpan memory_;
  const long before_ = locked_kib();
  const std::shared_ptr<Registrar> registrar_ = *make_page_lock_registrar();
};

TEST_F(PageLock, LocksWholePagesAndNoOthers) {
  const auto known = register_memory(
      kSmallestPage - 1, kSmallestPage + 2);  // a byte of one, all of one, a byte of one
  EXPECT_EQ(pages_locked(), 3);
}

TEST_F(PageLock, APageOfTwoRegistrationsStaysLockedUntilBothAreGone) {
  auto low = register_memory(0, kSmallestPage + 100);                   // pages 0 and 1
  auto middle = register_memory(kSmallestPage + 100, 100);              // in page 1
  auto high = register_memory(kSmallestPage + 200, 2 * kSmallestPage);  // pages 1, 2 and 3
  EXPECT_EQ(pages_locked(), 4);
  low = {};
  EXPECT_EQ(pages_locked(), 3);
  high = {};
  EXPECT_EQ(pages_locked(), 1);
  middle = {};
  EXPECT_EQ(pages_locked(), 0);
}

TEST_F(PageLock, WhatIsNotMappedIsToldFromTooMuch) {
  const auto registrar = *make_page_lock_registrar();
  void* const at =
      ::mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(at, MAP_FAILED);
  ::munmap(at, 8192);
  const auto refused = registrar->register_memory({static_cast<std::byte*>(at), 8192});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::invalid_argument);
  EXPECT_THAT(refused.error().message, testing::HasSubstr("mapped"));
}

TEST_F(PageLock, ARefusalLeavesNothingLockedThatWasNot) {
  const auto kept = register_memory(100, 100);
  ::munmap(memory_.data() + 5 * kSmallestPage, kSmallestPage);
  EXPECT_FALSE(registrar_->register_memory(memory_.subspan(kSmallestPage / 2, 6 * kSmallestPage)));
  EXPECT_FALSE(registrar_->register_memory(memory_.subspan(kSmallestPage, 6 * kSmallestPage)));
  EXPECT_EQ(pages_locked(), 1);
}

/// 0 if locking above a limit of 64 KiB is refused as it should be, below it not.
int refused_above_limit(ByteSpan memory) {
  const rlimit limit{64 << 10, 64 << 10};
  if (::setrlimit(RLIMIT_MEMLOCK, &limit) != 0) return 10;
  if (::geteuid() == 0 && ::setresuid(65534, 65534, 65534) != 0) return 11;
  const auto registrar = make_page_lock_registrar();
  if (!(*registrar)->register_memory(memory.first(32 << 10))) return 12;
  const auto refused = (*registrar)->register_memory(memory);
  if (refused) return 13;
  const Error& error = refused.error();
  if (error.code != Code::out_of_memory) return 14;
  if (error.message.find("the limit of locked memory is 64 KiB") == std::string::npos) return 15;
  if (error.hint.find("ulimit -l") == std::string::npos) return 16;
  return (*registrar)->report().registrations == 0 ? 0 : 17;
}

TEST(PageLockLimit, IsNamedWithTheWayToRaiseIt) {
  std::vector<std::byte> bytes(1 << 20);
  const pid_t child = ::fork();
  if (child == 0) ::_exit(refused_above_limit(bytes));
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace gantry
