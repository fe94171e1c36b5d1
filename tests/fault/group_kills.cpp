// Ranks of a group that are killed, or stopped, while they run plans: every survivor has to say
// which rank is gone and at which step, the group has to form again and run, and nothing may be
// left open. README.md
//   usage: group_kills [--runs N] [--ranks N] [--stop] [--seed N]
#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <random>

#include "core/engine/inline/inline_engine.hpp"
#include "ranks/schedule/run/test_ranks.hpp"
#include "support/subprocess.hpp"

namespace gantry {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kPatience{20'000};   // of joining, and of anything that must happen
constexpr milliseconds kStallLimit{1'000};  // of --stop
constexpr milliseconds kLongStall{30'000};  // otherwise: a kill is seen without it

constexpr std::byte kPoison{0xa5};  // of what a failed run leaves

/// What a rank tells its parent.
struct Note {
  enum class Kind : std::uint32_t { runs, failed, broken };
  Kind kind = Kind::runs;
  unsigned rank = 0;
  unsigned generation = 0;
  std::size_t descriptors = 0;
  Clock::time_point at{};
  std::array<char, 256> text{};
};

struct Settings {
  unsigned runs = 30;
  unsigned ranks = 4;
  std::uint64_t seed = 1;
  bool stops = false;
  std::string directory{};
};

std::size_t open_descriptors() {
  std::size_t count = 0;
  DIR* const folder = ::opendir("/proc/self/fd");
  while (::readdir(folder) != nullptr) ++count;
  ::closedir(folder);
  return count;
}

// ---- a rank ----------------------------------------------------------------------------------

/// A plan of that many ranks, the same for the same generation.
Plan plan_of(const Settings& settings, unsigned generation) {
  test::Random random(settings.seed + generation);
  for (;;) {
    Plan plan = generation % 2 == 0 ? test::gather_plan(random) : test::scatter_plan(random);
    if (plan.ranks == settings.ranks && plan.steps.size() > 20) return plan;
  }
}

class Rank {
 public:
  Rank(const Settings& settings, unsigned rank, int notes)
      : settings_(settings), rank_(rank), notes_(notes) {}

  /// One group after another, each until one of its ranks is gone.
  [[noreturn]] void live(unsigned generation) {
    for (;; ++generation) {
      generation_ = generation;
      const Error error = be_in_group();
      note(Note::Kind::failed, error.message);
    }
  }

 private:
  Error be_in_group() {
    const Plan plan = plan_of(settings_, generation_);
    const auto buffers = PlanBuffers::make(plan, rank_).value();
    const std::span memory(buffers.region->data(), buffers.region->size());
    bool has_failed = false;
    const Error error = run_in_group(plan, buffers, [&] {
      std::ranges::fill(memory, kPoison);
      has_failed = true;
    });
    // The group has been left.
    if (has_failed && std::ranges::any_of(memory, [](std::byte one) { return one != kPoison; }))
      broken("bytes landed when a run had failed");
    return error;
  }
  Error run_in_group(const Plan& plan, const PlanBuffers& buffers,
                     const std::function<void()>& fails) {
    GroupOptions options;
    options.rank = rank_;
    options.ranks = settings_.ranks;
    options.name = fmt::format("kills-{}", generation_);
    options.directory = settings_.directory;
    options.join_timeout = kPatience;
    options.stall_limit = settings_.stops ? kStallLimit : kLongStall;
    auto group = Group::join(options, make_inline_engine().value());
    if (!group) broken("joining: " + to_string(group.error()));
    auto executor =
        PlanExecutor::prepare(*group, plan, buffers.tensors, {}, Deadline::after(kPatience));
    if (!executor) return executor.error();
    for (std::uint64_t run = 0;; ++run) {
      test::store_given(plan, buffers, rank_, -7);
      const auto done = executor->run(Deadline::after(kPatience));
      if (!done) {
        fails();
        return done.error();
      }
      if (test::wrong_elements(plan, buffers, rank_) > 0) broken("a wrong element");
      if (run == 0) note(Note::Kind::runs, "");
    }
  }
  [[noreturn]] void broken(const std::string& what) {
    note(Note::Kind::broken, what);
    ::_exit(1);
  }
  void note(Note::Kind kind, const std::string& text) const {
    Note note{.kind = kind, .rank = rank_, .generation = generation_};
    note.at = Clock::now();
    note.descriptors = open_descriptors();
    std::strncpy(note.text.data(), text.c_str(), note.text.size() - 1);
    static_cast<void>(!::write(notes_, &note, sizeof note));
  }

  const Settings& settings_;
  const unsigned rank_;
  const int notes_;
  unsigned generation_ = 0;
};

// ---- whoever kills ---------------------------------------------------------------------------

class Campaign {
 public:
  explicit Campaign(const Settings& settings)
      : settings_(settings), random_(settings.seed), pids_(settings.ranks, -1) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) std::abort();
    reading_ = Fd(ends[0]);
    writing_ = Fd(ends[1]);
  }
  ~Campaign() {
    for (const pid_t pid : pids_) end(pid);
  }
  Campaign(const Campaign&) = delete;
  Campaign& operator=(const Campaign&) = delete;

  int run() {
    for (unsigned rank = 0; rank < settings_.ranks; ++rank) start(rank, 0);
    for (unsigned generation = 0; generation < settings_.runs; ++generation)
      if (!kill_one(generation)) return 1;
    std::sort(delays_.begin(), delays_.end());
    const auto at = [&](double share) {
      return delays_[static_cast<std::size_t>(share * static_cast<double>(delays_.size() - 1))];
    };
    fmt::print("{} {}; survivors said so after {:.1f} ms (median), {:.1f} (99 %), {:.1f} (most)\n",
               settings_.runs, settings_.stops ? "stops" : "kills", at(0.5), at(0.99), at(1));
    return 0;
  }

 private:
  void start(unsigned rank, unsigned generation) {
    const pid_t pid = ::fork();
    if (pid < 0) std::abort();
    if (pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      reading_.reset();
      Rank(settings_, rank, writing_.get()).live(generation);
    }
    pids_[rank] = pid;
  }
  static void end(pid_t& pid) {
    if (pid < 0) return;
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    pid = -1;
  }
  static void end(const pid_t& pid) {
    pid_t copy = pid;
    end(copy);
  }

  /// Nothing: none came in time.
  std::optional<Note> next_note() const {
    pollfd entry{reading_.get(), POLLIN, 0};
    Note note;
    if (::poll(&entry, 1, static_cast<int>(kPatience.count())) != 1) return {};
    if (::read(reading_.get(), &note, sizeof note) != sizeof note) return {};
    return note;
  }

  bool kill_one(unsigned generation) {
    if (!await(generation, Note::Kind::runs, settings_.ranks, {})) return false;
    const auto victim = static_cast<unsigned>(
        test::pick(random_, 0, static_cast<std::int64_t>(settings_.ranks) - 1));
    const auto until = Clock::now() + std::chrono::microseconds(test::pick(random_, 0, 5000));
    while (Clock::now() < until) continue;
    killed_at_ = Clock::now();
    ::kill(pids_[victim], settings_.stops ? SIGSTOP : SIGKILL);
    if (!await(generation, Note::Kind::failed, settings_.ranks - 1, victim)) return false;
    end(pids_[victim]);
    start(victim, generation + 1);
    return true;
  }

  /// So many ranks have to say that, of that generation; and, when they fail, that it is `victim`
  /// and at which step.
  bool await(unsigned generation, Note::Kind kind, unsigned count, std::optional<unsigned> victim) {
    for (unsigned heard = 0; heard < count;) {
      const auto note = next_note();
      if (!note) return complain(generation, "a rank says nothing");
      const std::string text = note->text.data();
      if (note->kind != kind || note->generation != generation)
        return complain(generation, fmt::format("rank {}: {}", note->rank, text));
      ++heard;
      if (!victim) {
        if (!is_clean(*note)) return complain(generation, "descriptors are left open");
        continue;
      }
      delays_.push_back(std::chrono::duration<double, std::milli>(note->at - killed_at_).count());
      const bool names = text.find(fmt::format("rank {}:", *victim)) != std::string::npos &&
                         (text.find("step ") != std::string::npos ||
                          text.find("waited for the others") != std::string::npos);
      if (!names) return complain(generation, fmt::format("rank {} says: {}", note->rank, text));
    }
    return true;
  }
  /// As many descriptors as when the rank ran first.
  bool is_clean(const Note& note) {
    auto& usual = descriptors_.try_emplace(pids_[note.rank], note.descriptors).first->second;
    return note.descriptors <= usual;
  }
  bool complain(unsigned generation, const std::string& what) const {
    fmt::print(stderr, "group_kills: kill {} of seed {}: {}\n", generation, settings_.seed, what);
    return false;
  }

  const Settings settings_;
  test::Random random_;
  std::vector<pid_t> pids_;
  Fd reading_;
  Fd writing_;
  Clock::time_point killed_at_{};
  std::vector<double> delays_;
  std::map<pid_t, std::size_t> descriptors_;
};

int run_with(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--stop") {
      settings.stops = true;
      continue;
    }
    if (i + 1 == argc) return 2;
    const auto number = std::strtoull(argv[++i], nullptr, 10);
    if (word == "--runs")
      settings.runs = static_cast<unsigned>(number);
    else if (word == "--ranks")
      settings.ranks = static_cast<unsigned>(number);
    else if (word == "--seed")
      settings.seed = number;
    else
      return 2;
  }
  const test::ScratchDirectory folder;
  settings.directory = folder.path();
  return Campaign(settings).run();
}

}  // namespace
}  // namespace gantry

int main(int argc, char** argv) {
  return gantry::run_with(argc, argv);
}
