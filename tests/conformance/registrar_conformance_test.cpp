#include <sys/mman.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <map>
#include <thread>
#include <vector>

#include "core/base/test_fork.hpp"
#include "registrars.hpp"

// What every registrar promises (gantry/registrar.hpp).
namespace gantry {
namespace {

constexpr Bytes kPage = 4096;

/// Anonymous memory, present, until drop().
class Mapping {
 public:
  /// Empty if another mapping lies at `where`: a sanitizer maps memory at any time.
  explicit Mapping(Bytes size, void* where = nullptr) {
    const int place = where != nullptr ? MAP_FIXED_NOREPLACE : 0;
    void* const at =
        ::mmap(where, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | place, -1, 0);
    if (at == MAP_FAILED) return;
    bytes_ = {static_cast<std::byte*>(at), size};
    std::fill(bytes_.begin(), bytes_.end(), std::byte{1});
  }
  ~Mapping() { drop(); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  void drop() {
    if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
    bytes_ = {};
  }
  [[nodiscard]] ByteSpan all() const { return bytes_; }
  [[nodiscard]] ByteSpan pages(Bytes first, Bytes count) const {
    return bytes_.subspan(first * kPage, count * kPage);
  }

 private:
  ByteSpan bytes_;
};

std::ptrdiff_t open_descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
}

/// As they are before any registrar is made: a sanitizer has some of its own.
std::map<int, void (*)(int)> handlers_now() {
  std::map<int, void (*)(int)> handlers;
  for (const int number : {SIGINT, SIGTERM, SIGSEGV, SIGBUS, SIGABRT, SIGILL}) {
    struct sigaction now{};
    ::sigaction(number, nullptr, &now);
    handlers[number] = now.sa_handler;
  }
  return handlers;
}
const auto kHandlersBefore = handlers_now();

class RegistrarConformance : public testing::TestWithParam<RegistrarCase> {
 protected:
  // Unusable here means that it says so; any other refusal is a failure.
  void SetUp() override {
    auto made = GetParam().make({});
    if (!made && made.error().code == Code::unsupported) {
      EXPECT_FALSE(made.error().hint.empty());
      GTEST_SKIP() << to_string(made.error());
    }
    ASSERT_TRUE(made) << to_string(made.error());
    registrar_ = *std::move(made);
  }

  [[nodiscard]] Code refusal(ByteSpan memory) const {
    const auto refused = registrar_->register_memory(memory);
    if (refused) return Code::closed;  // no refusal at all
    EXPECT_TRUE(refused.error().message.starts_with(registrar_->name() + ": "));
    EXPECT_EQ(registrar_->report().last_error, refused.error().message);
    return refused.error().code;
  }
  void expect_nothing_left() const {
    const RegistrarReport report = registrar_->report();
    EXPECT_EQ(report.registrations, 0u);
    EXPECT_EQ(report.bytes, 0u);
  }

  std::shared_ptr<Registrar> registrar_;
  Mapping memory_{16 * kPage};
};

TEST_P(RegistrarConformance, RegistersAndUnregisters) {
  {
    const auto known = registrar_->register_memory(memory_.all());
    ASSERT_TRUE(known) << to_string(known.error());
    EXPECT_EQ(known->registrar(), registrar_.get());
    EXPECT_EQ(known->memory().data(), memory_.all().data());
    EXPECT_EQ(known->memory().size(), memory_.all().size());
    ASSERT_TRUE(known->key());
    EXPECT_EQ(known->key()->offset, 0u);
    const RegistrarReport report = registrar_->report();
    EXPECT_EQ(report.registrations, 1u);
    EXPECT_EQ(report.bytes, memory_.all().size());
    EXPECT_EQ(report.made, 1u);
    EXPECT_EQ(report.failed, 0u);
  }
  expect_nothing_left();
  EXPECT_EQ(registrar_->report().peak_bytes, memory_.all().size());
  EXPECT_EQ(registrar_->report().last_error, "");
}

TEST_P(RegistrarConformance, TakesAnyAlignmentAndSize) {
  for (const Bytes size : {Bytes{1}, Bytes{63}, kPage - 1, kPage + 1, 5 * kPage + 7})
    for (const Bytes offset : {Bytes{0}, Bytes{1}, kPage - 1, kPage + 5})
      EXPECT_TRUE(registrar_->register_memory(memory_.all().subspan(offset, size)))
          << size << "+" << offset;
  expect_nothing_left();
}

TEST_P(RegistrarConformance, KeysTellRegistrationsApart) {
  if (GetParam().name == std::string_view("page_lock")) GTEST_SKIP() << "no operation uses its key";
  const auto first = registrar_->register_memory(memory_.pages(0, 2));
  const auto second = registrar_->register_memory(memory_.pages(2, 2));
  ASSERT_TRUE(first && second);
  EXPECT_NE(first->key()->key, second->key()->key);
}

TEST_P(RegistrarConformance, ACoveringRegistrationServesWhatLiesInIt) {
  auto whole = registrar_->register_memory(memory_.all());
  ASSERT_TRUE(whole);
  auto part = registrar_->register_memory(memory_.pages(3, 2));
  auto same = registrar_->register_memory(memory_.all());
  ASSERT_TRUE(part && same);
  EXPECT_EQ(registrar_->report().reused, 2u);
  EXPECT_EQ(registrar_->report().made, 1u);
  EXPECT_EQ(part->key()->key, whole->key()->key);
  EXPECT_EQ(part->key()->remote_key, whole->key()->remote_key);
  EXPECT_EQ(part->key()->offset, 3 * kPage);
  EXPECT_EQ(part->memory().size(), 2 * kPage);
  *whole = {};
  *same = {};  // the part keeps all of it
  EXPECT_EQ(registrar_->report().bytes, memory_.all().size());
  EXPECT_TRUE(part->key());
  *part = {};
  expect_nothing_left();
}

TEST_P(RegistrarConformance, RefusesPartialOverlap) {
  const auto middle = registrar_->register_memory(memory_.pages(4, 4));
  ASSERT_TRUE(middle);
  EXPECT_EQ(refusal(memory_.pages(3, 2)), Code::already_exists);
  EXPECT_EQ(refusal(memory_.pages(7, 2)), Code::already_exists);
  EXPECT_EQ(refusal(memory_.pages(0, 16)), Code::already_exists);
  EXPECT_EQ(registrar_->report().failed, 3u);
  EXPECT_EQ(registrar_->report().registrations, 1u);
  EXPECT_TRUE(registrar_->register_memory(memory_.pages(2, 2)));  // touching is not overlapping
  EXPECT_TRUE(registrar_->register_memory(memory_.pages(8, 2)));
}

TEST_P(RegistrarConformance, RefusesNothing) {
  EXPECT_EQ(refusal({}), Code::invalid_argument);
  EXPECT_EQ(refusal(memory_.all().first(0)), Code::invalid_argument);
  EXPECT_EQ(registrar_->report().failed, 2u);
  expect_nothing_left();
}

TEST_P(RegistrarConformance, KeepsItsBudget) {
  registrar_ = *GetParam().make({.budget_bytes = 4 * kPage});
  EXPECT_EQ(refusal(memory_.pages(0, 5)), Code::too_large);
  {
    std::vector<Registration> held;
    for (Bytes i = 0; i < 4; ++i)
      held.push_back(*registrar_->register_memory(memory_.pages(2 * i, 1)));
    EXPECT_EQ(refusal(memory_.pages(8, 1)), Code::out_of_memory);
    EXPECT_TRUE(registrar_->register_memory(memory_.pages(0, 1)));  // there already: costs nothing
    EXPECT_EQ(registrar_->report().failed, 2u);
    EXPECT_EQ(registrar_->report().registrations, 4u);
    EXPECT_EQ(registrar_->report().bytes, 4 * kPage);
    held.pop_back();
    EXPECT_TRUE(registrar_->register_memory(memory_.pages(8, 1)));
  }
  expect_nothing_left();
}

TEST_P(RegistrarConformance, WhatIsNotMappedIsRefusedAndForgotten) {
  if (!GetParam().wants_mapped) GTEST_SKIP() << "does not look at the memory";
  const auto known = registrar_->register_memory(memory_.pages(0, 1));
  ::munmap(memory_.pages(5, 1).data(), kPage);
  for (int i = 0; i < 3; ++i) {
    EXPECT_NE(refusal(memory_.pages(2, 6)), Code::closed);
    EXPECT_EQ(registrar_->report().failed, static_cast<std::uint64_t>(i) + 1);
    EXPECT_EQ(registrar_->report().registrations, 1u);
    EXPECT_EQ(registrar_->report().bytes, kPage);
  }
  EXPECT_TRUE(registrar_->register_memory(memory_.pages(2, 3)));
}

TEST_P(RegistrarConformance, AChildHasNoRightToTheParentsRegistrations) {
  auto known = registrar_->register_memory(memory_.all());
  ASSERT_TRUE(known);
  EXPECT_EQ(in_child([&] {
              const auto key = known->key();
              if (key || key.error().code != Code::invalid_argument) return 1;
              if (key.error().hint.empty()) return 2;
              if (registrar_->register_memory(memory_.all())) return 3;
              *known = {};  // and its dropping them undoes nothing of the parent's
              registrar_.reset();
              return 0;
            }),
            0);
  EXPECT_TRUE(known->key());
  EXPECT_EQ(registrar_->report().registrations, 1u);
  *known = {};
  EXPECT_EQ(registrar_->report().failed, 0u);
  expect_nothing_left();
}

TEST_P(RegistrarConformance, MemoryMayGoBeforeItsRegistration) {
  void* const where = memory_.all().data();
  auto known = registrar_->register_memory(memory_.all());
  ASSERT_TRUE(known);
  memory_.drop();
  *known = {};
  EXPECT_EQ(registrar_->report().failed, 0u) << registrar_->report().last_error;
  expect_nothing_left();
  const Mapping again(16 * kPage, where);
  if (!again.all().empty()) {
    EXPECT_TRUE(registrar_->register_memory(again.all()));
  }
}

TEST_P(RegistrarConformance, AThousandTimesLeaveNothing) {
  const auto before = open_descriptors();
  for (unsigned i = 0; i < 1000; ++i)
    ASSERT_TRUE(registrar_->register_memory(memory_.pages(i % 8, 1 + i % 8))) << i;
  EXPECT_EQ(registrar_->report().made, 1000u);
  EXPECT_EQ(registrar_->report().failed, 0u);
  expect_nothing_left();
  EXPECT_EQ(open_descriptors(), before);
  for (int i = 0; i < 10; ++i) EXPECT_TRUE((*GetParam().make({}))->register_memory(memory_.all()));
  EXPECT_EQ(open_descriptors(), before);
}

// The library behind a registrar must not put its own handlers in place of the program's.
TEST_P(RegistrarConformance, LeavesSignalHandlersAlone) {
  EXPECT_EQ(handlers_now(), kHandlersBefore);
}

TEST_P(RegistrarConformance, ServesManyThreadsAtOnce) {
  std::atomic<int> refused{0};
  std::vector<std::thread> threads;
  for (Bytes who = 0; who < 4; ++who)
    threads.emplace_back([this, who, &refused] {
      for (Bytes i = 0; i < 100; ++i) {
        const auto known = registrar_->register_memory(memory_.pages(4 * who, 1 + i % 4));
        if (!known || !known->key()) ++refused;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(refused, 0);
  EXPECT_EQ(registrar_->report().made, 400u);
  expect_nothing_left();
}

INSTANTIATE_TEST_SUITE_P(Registrars, RegistrarConformance, testing::ValuesIn(kRegistrars),
                         [](const auto& chosen) { return std::string(chosen.param.name); });

}  // namespace
}  // namespace gantry
