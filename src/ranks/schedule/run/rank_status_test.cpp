// What another process sees of a rank: each field of a page, where a rank stands in a run, whatever
// bytes a page has, and that none of the dead is shown.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <atomic>

#include <cstring>
#include <filesystem>
#include <latch>
#include <random>

#include "core/base/clock.hpp"
#include "core/base/test_effort.hpp"
#include "core/channel/test_support.hpp"
#include "ranks/schedule/run/places.hpp"
#include "ranks/schedule/run/rank_status.hpp"
#include "ranks/schedule/run/test_ranks.hpp"

namespace gantry {
namespace {

using test::Via;
using testing::ElementsAre;
using testing::Field;
using testing::IsEmpty;

// Rank 2 multiplies before its barrier; rank 1 waits for what comes of it.
constexpr std::string_view kAfterAProduct = R"(gantry-plan 1
ranks 3
about rank 2 is slow
tensor a 1 1 i64
tensor b 1 1 i64
tensor c 1 1 i64
given a@2 0:1,0:1 = X 0,0
given b@2 0:1,0:1 = Y 0,0
gemm 2/0 a@2 0:1,0:1 by b@2 0:1,0:1 to c@2 0:1,0:1
barrier 0/0
barrier 1/0
barrier 2/0
)";

/// Computes nothing until it may.
class HeldGemm final : public GemmLibrary {
 public:
  const GemmFacts& facts() const noexcept override { return facts_; }
  bool takes(const DataType&) const noexcept override { return true; }
  Result<void> multiply(const Gemm&) override {
    may_go.wait();
    return {};
  }
  std::latch may_go{1};

 private:
  GemmFacts facts_;
};

class RankPages : public testing::Test {
 protected:
  void SetUp() override { ::setenv("GANTRY_DIR", folder_.path().c_str(), 1); }
  void TearDown() override { ::unsetenv("GANTRY_DIR"); }

  std::vector<RankStatus> ranks() const { return list_ranks(folder_.path()).value(); }
  std::string groups() const { return folder_.path() + "/groups"; }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(groups()),
                                                  std::filesystem::directory_iterator()));
  }
  /// Until rank `rank` is as `is` says; the test ends by its time limit otherwise.
  template <class Is>
  RankStatus await(unsigned rank, Is is) const {
    for (;;) {
      for (const RankStatus& one : ranks())
        if (one.rank == rank && is(one)) return one;
      std::this_thread::yield();
    }
  }

  const test::ScratchDirectory folder_;
};

TEST_F(RankPages, ShowWhoStandsAtABarrierAndWhy) {
  const Plan plan = parse_plan(kAfterAProduct).value();
  const auto gemm = std::make_shared<HeldGemm>();
  std::atomic<std::uint64_t> epoch = 0;
  std::thread looks([&] {
    const RankOperation first{
        {}, RankStep{1, PlanVerb::barrier, {}}, RankStep{3, PlanVerb::barrier, 2}};
    const RankStatus rank0 = await(0, [&](const RankStatus& one) {
      return one.operations == std::vector<RankOperation>{first};
    });
    EXPECT_EQ(rank0.group, "test");
    EXPECT_EQ(rank0.ranks, 3u);
    EXPECT_EQ(rank0.pid, ::getpid());
    EXPECT_EQ(rank0.process, ProcessState::running);
    EXPECT_EQ(rank0.state, RankState::running);
    EXPECT_EQ(rank0.epoch, epoch);
    EXPECT_EQ(rank0.plan, "rank 2 is slow");
    EXPECT_EQ(rank0.plan_hash, hash_of(plan));
    EXPECT_EQ(rank0.operation, 2u);  // the first was prepare()
    EXPECT_EQ(rank0.runs, 1u);
    EXPECT_EQ(rank0.steps, 2u);
    EXPECT_EQ(rank0.ended, 1u);  // the barrier's beginning
    EXPECT_EQ(rank0.handed_over, (RankStep{1, PlanVerb::barrier, {}}));
    EXPECT_EQ(rank0.text(),
              "run 1, 1 of 2 steps ended; step 1 (barrier) waits for step 3 (barrier) of rank 2");

    const RankStatus rank1 =
        await(1, [](const RankStatus& one) { return one.operations.size() == 1; });
    EXPECT_EQ(rank1.operations[0].own, (RankStep{2, PlanVerb::barrier, {}}));
    EXPECT_EQ(rank1.operations[0].awaited, (RankStep{3, PlanVerb::barrier, 2}));

    const RankStatus rank2 =
        await(2, [](const RankStatus& one) { return !one.operations.empty() && one.ended == 0; });
    EXPECT_EQ(rank2.operations[0], (RankOperation{{}, RankStep{0, PlanVerb::gemm, {}}, {}}));
    EXPECT_EQ(rank2.operations[0].text(), "step 0 (gemm) is under way");
    gemm->may_go.count_down();
  });
  test::at_all_ranks(3, Via::shared, [&](Group& group) {
    if (group.rank() == 0) epoch = group.impl().epoch();
    const auto buffers = PlanBuffers::make(plan, group.rank()).value();
    auto executor =
        PlanExecutor::prepare(group, plan, buffers.tensors, {.limits = {}, .gemm = gemm}).value();
    const auto ran = executor.run();
    ASSERT_TRUE(ran) << to_string(ran.error());
  });
  looks.join();
  EXPECT_THAT(ranks(), IsEmpty());
  EXPECT_EQ(files(), 0u);
}

TEST_F(RankPages, ShowAGroupFromJoiningToItsEnd) {
  const Plan plan = parse_plan("gantry-plan 1\nranks 2\nbarrier 0/0\nbarrier 1/0\n").value();
  GroupOptions options{.rank = 0, .ranks = 2, .name = "two"};
  std::latch may_leave{1};
  std::thread rank0([&] {
    auto group = Group::join(options, make_inline_engine().value()).value();
    auto executor = PlanExecutor::prepare(group, plan, {}).value();
    EXPECT_TRUE(executor.run());
    EXPECT_TRUE(executor.run());
    may_leave.wait();
    static_cast<void>(group.impl().break_with({Code::system, "a \x1b reason", ""}));
    EXPECT_EQ(await(0, [](const RankStatus&) { return true; }).text(), "a ? reason");
  });
  const RankStatus joining =
      await(0, [](const RankStatus& one) { return !one.operations.empty(); });
  EXPECT_EQ(joining.state, RankState::joining);
  EXPECT_EQ(joining.group, "two");
  EXPECT_EQ(joining.text(), "waits for rank 1");
  EXPECT_EQ(joining.plan_hash, 0u);

  GroupOptions second = options;
  second.rank = 1;
  auto group = Group::join(second, make_inline_engine().value()).value();
  const auto is_idle = [](const RankStatus& one) { return one.state == RankState::idle; };
  EXPECT_EQ(await(1, is_idle).text(), "");
  const auto preparing = await(0, [](const RankStatus& one) {
    return one.state == RankState::preparing && !one.operations.empty();
  });
  EXPECT_EQ(preparing.text(), "waits for rank 1");
  EXPECT_EQ(preparing.plan_hash, hash_of(plan));

  auto executor = PlanExecutor::prepare(group, plan, {}).value();
  const auto begun = await(0, [](const RankStatus& one) {
    return one.state == RankState::running && !one.operations.empty();
  });
  EXPECT_EQ(begun.operations[0].absent, 1u);  // it has not begun
  EXPECT_EQ(begun.runs, 1u);
  EXPECT_TRUE(executor.run());
  EXPECT_TRUE(executor.run());
  for (const unsigned rank : {0u, 1u}) {
    const auto done =
        await(rank, [](const RankStatus& one) { return one.state == RankState::idle; });
    EXPECT_EQ(done.runs, 2u);
    EXPECT_EQ(done.operation, 0u);
    EXPECT_THAT(done.operations, IsEmpty());
  }
  may_leave.count_down();
  rank0.join();
  group.leave();
}

// ---- the dead ----------------------------------------------------------------------------------

TEST_F(RankPages, OfAKilledRankAreNotShownAndGoAway) {
  std::array<int, 2> ready{};
  ASSERT_EQ(::pipe(ready.data()), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const RankReport report({.rank = 1, .ranks = 2, .name = "killed"});
    static_cast<void>(!::write(ready[1], "x", 1));
    for (;;) ::pause();
  }
  char said = 0;
  ASSERT_EQ(::read(ready[0], &said, 1), 1);
  EXPECT_THAT(ranks(), ElementsAre(Field(&RankStatus::pid, child)));
  ::kill(child, SIGKILL);
  siginfo_t ended{};
  ::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT);  // a zombie
  EXPECT_THAT(ranks(), IsEmpty());
  EXPECT_EQ(files(), 0u);
  ::waitpid(child, nullptr, 0);
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST_F(RankPages, OfAStoppedRankAreShownWithoutItsHelp) {
  std::array<int, 2> ready{};
  ASSERT_EQ(::pipe(ready.data()), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    RankReport report({.rank = 1, .ranks = 2, .name = "stopped"});
    report.show_missing(std::array{0u});
    static_cast<void>(!::write(ready[1], "x", 1));
    for (;;) ::pause();
  }
  char said = 0;
  ASSERT_EQ(::read(ready[0], &said, 1), 1);
  ::kill(child, SIGSTOP);
  ::waitpid(child, nullptr, WUNTRACED);
  const auto all = ranks();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].process, ProcessState::stopped);
  EXPECT_EQ(all[0].text(), "waits for rank 0");
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ::close(ready[0]);
  ::close(ready[1]);
}

// A fork keeps the lock of the page that its parent had.
TEST_F(RankPages, OfAKilledRankAreNotShownWhileAForkOfItLives) {
  std::array<int, 2> ready{};
  ASSERT_EQ(::pipe(ready.data()), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const RankReport report({.rank = 1, .ranks = 2, .name = "forked"});
    const pid_t fork = ::fork();
    if (fork == 0)
      for (;;) ::pause();
    static_cast<void>(!::write(ready[1], &fork, sizeof fork));
    for (;;) ::pause();
  }
  pid_t grandchild = 0;
  ASSERT_EQ(::read(ready[0], &grandchild, sizeof grandchild), ssize_t{sizeof grandchild});
  EXPECT_EQ(ranks().size(), 1u);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_THAT(ranks(), IsEmpty());
  ::kill(grandchild, SIGKILL);
  ::close(ready[0]);
  ::close(ready[1]);
}

// ---- pages that nobody of ours wrote -----------------------------------------------------------

std::vector<std::byte> good_page() {
  std::vector<std::byte> bytes(sizeof(RankPage));
  RankPage page{};
  page.magic = RankPage::kMagic;
  page.pid = 7;
  page.rank = 1;
  page.ranks = 3;
  page.state = static_cast<std::uint64_t>(RankPage::State::running);
  page.since_ns = 1000;
  page.steps = 9;
  page.ended = 4;
  page.name = {'g'};
  page.at[0].first = {5, 2, static_cast<std::uint8_t>(PlanVerb::put),
                      static_cast<std::uint8_t>(RankPage::Kind::moves)};
  page.handed_over = page.at[0].first;
  ::memcpy(bytes.data(), static_cast<const void*>(&page), sizeof page);
  return bytes;
}

void store(std::vector<std::byte>& bytes, std::size_t offset, std::uint64_t value,
           std::size_t size = 8) {
  ::memcpy(bytes.data() + offset, &value, size);
}

TEST(RankPageBytes, AreReadAsTheyWereWritten) {
  const auto status = decode_rank_page(good_page(), 3500);
  ASSERT_TRUE(status);
  EXPECT_EQ(status->pid, 7);
  EXPECT_EQ(status->rank, 1u);
  EXPECT_EQ(status->in_state, std::chrono::nanoseconds(2500));
  EXPECT_EQ(status->ended, 4u);
  EXPECT_EQ(status->text(), "run 0, 4 of 9 steps ended; step 5 (put to rank 2) is under way");
  EXPECT_EQ(status->handed_over, (RankStep{5, PlanVerb::put, 2}));
}

TEST(RankPageBytes, OutOfRangeAreRefused) {
  constexpr std::size_t kAt = offsetof(RankPage, at);
  const std::tuple<std::size_t, std::uint64_t, std::size_t> all[] = {
      {offsetof(RankPage, magic), 1, 8},
      {offsetof(RankPage, pid), 0, 8},
      {offsetof(RankPage, pid), 1u << 23, 8},
      {offsetof(RankPage, rank), 3, 8},
      {offsetof(RankPage, ranks), 257, 8},
      {offsetof(RankPage, ranks), 0, 8},
      {offsetof(RankPage, state), 0, 8},
      {offsetof(RankPage, state), 6, 8},
      {offsetof(RankPage, steps), ~0ull, 8},
      {kAt + 7, 6, 1},
      {kAt + 6, 8, 1},
      {kAt + 4, 3, 2},
      {kAt, 1u << 20, 4},
      {offsetof(RankPage, handed_over) + 6, 8, 1}};
  for (const auto& [offset, value, size] : all) {
    auto bytes = good_page();
    store(bytes, offset, value, size);
    EXPECT_FALSE(decode_rank_page(bytes, 0)) << offset << ": " << value;
  }
  auto shorter = good_page();
  shorter.pop_back();
  EXPECT_FALSE(decode_rank_page(shorter, 0));
}

TEST(RankPageBytes, CannotReachATerminalOrRunOverTheirPlace) {
  auto bytes = good_page();
  const std::string bad = "\x1b[2J\n";
  ::memcpy(bytes.data() + offsetof(RankPage, name), bad.data(), bad.size());
  std::fill_n(bytes.begin() + offsetof(RankPage, plan), sizeof(RankPage::plan), std::byte{'p'});
  store(bytes, offsetof(RankPage, ended), ~0ull);
  store(bytes, offsetof(RankPage, since_ns), ~0ull);
  const auto status = decode_rank_page(bytes, 5);
  ASSERT_TRUE(status);
  EXPECT_EQ(status->group, "?[2J?");
  EXPECT_EQ(status->plan, std::string(sizeof(RankPage::plan), 'p'));
  EXPECT_EQ(status->ended, 9u);
  EXPECT_EQ(status->in_state.count(), 0);
}

TEST(RankPageBytes, MayBeAnything) {
  std::mt19937_64 random(test_seed(7));
  for (int i = 0; i < 20'000; ++i) {
    auto bytes = good_page();
    for (int change = 0; change < 8; ++change)
      bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    if (const auto status = decode_rank_page(bytes, random())) {
      EXPECT_LT(status->rank, status->ranks);
      EXPECT_LE(status->operations.size(), RankPage::kMostSteps);
      for (const char c : status->group + status->plan + status->why + status->text())
        ASSERT_TRUE(c >= 0x20 && c < 0x7f);
    }
  }
}

TEST_F(RankPages, ThatAreNoneDisturbNobody) {
  const RankReport report({.rank = 0, .ranks = 1, .name = "good"});
  ASSERT_EQ(ranks().size(), 1u);
  std::vector<Fd> kept;
  const auto put = [&](const std::string& name, std::span<const std::byte> bytes) {
    const std::string path = groups() + "/" + name;
    Fd file(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    ASSERT_EQ(::write(file.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    ASSERT_EQ(::flock(file.get(), LOCK_EX), 0);
    kept.push_back(std::move(file));
  };
  auto other = good_page();  // locked, and of a process that is not there
  store(other, offsetof(RankPage, pid), 1u << 22);
  store(other, offsetof(RankPage, pid_space), own_pid_space());
  put("other.rank", other);
  store(other, offsetof(RankPage, version), 1);  // for ever in the middle
  put("torn.rank", other);
  put("short.rank", std::span(other).first(100));
  put("empty.rank", {});
  ASSERT_EQ(::mkfifo((groups() + "/fifo.rank").c_str(), 0600), 0);
  ASSERT_EQ(::mkdir((groups() + "/folder.rank").c_str(), 0700), 0);
  ASSERT_EQ(::symlink("/etc/passwd", (groups() + "/link.rank").c_str()), 0);
  EXPECT_THAT(ranks(), ElementsAre(Field(&RankStatus::group, "good")));
  sweep_rank_pages(groups());
  EXPECT_THAT(ranks(), ElementsAre(Field(&RankStatus::group, "good")));
  EXPECT_TRUE(std::filesystem::exists("/etc/passwd"));
}

TEST_F(RankPages, OfAnotherNamespaceHaveNoProcess) {
  const RankReport report({.rank = 0, .ranks = 1, .name = "elsewhere"});
  const auto page = std::filesystem::directory_iterator(groups())->path();
  const Fd file(::open(page.c_str(), O_RDWR | O_CLOEXEC));
  const std::uint64_t space = own_pid_space() + 1;
  ASSERT_EQ(::pwrite(file.get(), &space, sizeof space, offsetof(RankPage, pid_space)), 8);
  const auto all = ranks();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].pid, 0);
  EXPECT_EQ(all[0].process, ProcessState::unknown);
}

TEST_F(RankPages, OfADirectoryThatIsNotThereAreNone) {
  EXPECT_THAT(list_ranks(folder_.path() + "/none").value(), IsEmpty());
}

}  // namespace
}  // namespace gantry
