// The table of attacks: each row an attack, each column what must go on meanwhile.
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include <fstream>
#include <memory>
#include <tuple>

#include "attack/processes.hpp"
#include "attack/worlds.hpp"

namespace gantry::attack {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

enum class Column { throughput, joins, deaths, deadlines, destructors, descriptors, memory };
constexpr std::array kColumns{Column::throughput, Column::joins,       Column::deaths,
                              Column::deadlines,  Column::destructors, Column::descriptors,
                              Column::memory};
constexpr std::array<std::string_view, 7> kColumnNames{
    "throughput", "joins", "deaths", "deadlines", "destructors", "descriptors", "memory"};
constexpr std::array<std::string_view, 3> kTargetNames{"producer", "inbox", "server"};

std::string name_of(const Attack& attack, Column column) {
  return std::string(kTargetNames[static_cast<std::size_t>(attack.target)])
      .append("_")
      .append(attack.name)
      .append("_")
      .append(kColumnNames[static_cast<std::size_t>(column)]);
}

Bytes mapped_bytes() {
  std::ifstream statm("/proc/self/statm");
  Bytes pages = 0;
  statm >> pages;
  return pages * static_cast<Bytes>(::sysconf(_SC_PAGESIZE));
}

constexpr milliseconds kGiven{50};  // time for a call
constexpr milliseconds kLate{100};  // it may take so much more

class Table : public testing::TestWithParam<std::tuple<const Attack*, Column>> {
 protected:
  static const Attack& attack() { return *std::get<0>(GetParam()); }

  // The processes are forked while this one has no other thread, and wait to be told.
  Table() {
    ::alarm(kHungSeconds);
    const rlimit limit{1024, 1024};  // as most systems have it
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
    options_.slots = 4;
    options_.consumers = 16;
    options_.spin = std::chrono::nanoseconds(0);
    pulse_.emplace();
    attacker_.emplace(attack(), options_.directory);
    mortal_.emplace([this](const test::Child& child) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::alarm(kHungSeconds);
      await(*come_);
      be_honest(attack().target, options_, child);
    });
  }
  /// The honest ends have met, and memory and threads are there.
  void open() {
    world_ = make_world(attack().target, options_);
    ASSERT_EQ(world_->exchange(10), "");
  }
  void begin_attack() {
    attacker_->begin();
    static_cast<void>(becomes_true(
        [&] {
          EXPECT_EQ(world_->exchange(1), "");
          return attacker_->blows() >= attack().blows;
        },
        seconds(5)));
    EXPECT_NE(attacker_->blows(), 0u) << "nobody attacks";
  }
  void end_attack() { attacker_.reset(); }

  template <class Is>
  static bool becomes_true(Is is, seconds limit = seconds(10)) {
    const auto end = Clock::now() + limit;
    while (!is()) {
      if (Clock::now() > end) return false;
      ::poll(nullptr, 0, 5);
    }
    return true;
  }

  void check_joins() {
    for (unsigned i = 0; i < 3; ++i) {
      const auto joined = world_->join(Deadline::after(seconds(3)));
      ASSERT_TRUE(joined) << "join " << i << ": " << joined.error().message;
    }
  }
  void check_deaths() {
    *come_ = true;
    const int pid = mortal_->pid();
    ASSERT_TRUE(becomes_true([&] { return world_->has_peer(pid); })) << "it does not come in";
    mortal_.reset();
    EXPECT_TRUE(becomes_true([&] { return !world_->has_peer(pid); })) << "it is dead";
  }
  // Without time, too, and then with some.
  void check_deadlines() {
    for (const TimedCall& call : world_->timed_calls())
      for (const milliseconds given : {milliseconds(0), kGiven, kGiven}) {
        if (call.is_last && given == milliseconds(0)) continue;
        check_deadline(call, given);
        if (call.is_last) break;
      }
  }
  void check_deadline(const TimedCall& call, milliseconds given) {
    if (call.prepare) call.prepare();
    const auto still = pulse_->stood_still(), waited = waited_for_cpu();
    const auto started = Clock::now();
    call.make(Deadline::after(given));
    const auto took = Clock::now() - started;
    const auto own_wait = waited_for_cpu() - waited;
    const auto machine = std::max(pulse_->stood_still() - still, own_wait);
    EXPECT_LE(std::chrono::duration<double>(took - machine),
              std::chrono::duration<double>(given + kLate))
        << call.name << " with " << given.count() << " ms";
  }
  void check_destructors() {
    const auto started = Clock::now();
    world_->end();
    EXPECT_LE(Clock::now() - started, seconds(3));
  }
  template <class Level>
  void check_level(Level level, std::size_t slack) {
    const std::size_t before = level();
    begin_attack();
    EXPECT_EQ(world_->exchange(100), "");
    end_attack();
    std::size_t now = 0;
    EXPECT_TRUE(becomes_true([&] {
      EXPECT_EQ(world_->exchange(1), "");
      return (now = level()) <= before + slack;
    })) << before
        << " before, " << now << " after";
  }
  void check(Column column) {
    // The first bridge that comes has the name make an event, which stays with the name.
    const std::size_t made = std::string_view(attack().name) == "bridge_of_nonsense" ? 1 : 0;
    if (column == Column::descriptors) return check_level(test::open_descriptors, made);
    if (column == Column::memory) return check_level(mapped_bytes, Bytes{96} << 20);
    begin_attack();
    switch (column) {
      case Column::throughput:
        EXPECT_EQ(world_->exchange(500), "");
        break;
      case Column::joins:
        check_joins();
        break;
      case Column::deaths:
        check_deaths();
        break;
      case Column::deadlines:
        check_deadlines();
        break;
      default:
        check_destructors();
        break;
    }
    end_attack();
  }

  test::ScratchDirectory directory_;
  ProducerOptions options_ = test::options_in(directory_);
  SharedWord<bool> come_;
  std::optional<Pulse> pulse_;
  std::optional<Attacker> attacker_;
  std::optional<test::Child> mortal_;
  std::unique_ptr<World> world_;
};

TEST_P(Table, GoesOn) {
  const Column column = std::get<1>(GetParam());
  ASSERT_NO_FATAL_FAILURE(open());
  check(column);
}

std::vector<const Attack*> pointers() {
  std::vector<const Attack*> all;
  for (const Attack& attack : all_attacks()) all.push_back(&attack);
  return all;
}

INSTANTIATE_TEST_SUITE_P(
    Attacks, Table, testing::Combine(testing::ValuesIn(pointers()), testing::ValuesIn(kColumns)),
    [](const auto& cell) { return name_of(*std::get<0>(cell.param), std::get<1>(cell.param)); });

}  // namespace
}  // namespace gantry::attack
