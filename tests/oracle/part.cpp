#include "oracle/part.hpp"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

namespace gantry::oracle {
namespace {

Bytes address_space() {
  std::ifstream statm("/proc/self/statm");
  Bytes pages = 0;
  statm >> pages;
  return pages * static_cast<Bytes>(::sysconf(_SC_PAGESIZE));
}

void limit_process(const Role& role) {
  if (role.max_descriptors != 0) {
    const rlimit limit{role.max_descriptors, role.max_descriptors};
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
  if (role.max_more_memory != 0) {
    const Bytes bytes = address_space() + role.max_more_memory;
    const rlimit limit{bytes, bytes};
    ::setrlimit(RLIMIT_AS, &limit);
  }
}

void play_once(Part& part) {
  switch (part.role.play) {
    case Play::produce:
    case Play::deliver:
      return produce(part);
    case Play::consume:
    case Play::inbox:
      return consume(part);
    case Play::relay:
      return relay(part);
    case Play::serve:
      return serve(part);
    case Play::call:
      return call(part);
    case Play::keep:
      return keep_queue(part);
    case Play::put:
      return put_items(part);
    case Play::work:
      return work(part);
  }
}

std::vector<pid_t>& copies() {
  static std::vector<pid_t> all;
  return all;
}

}  // namespace

void Board::fail(const std::string& what) noexcept {
  if (has_failed.exchange(true)) return;
  std::snprintf(failure.data(), failure.size(), "%s", what.c_str());
}

void give_up(const std::string& what) {
  throw Trouble(what);
}
void give_up(const std::string& what, const Error& error) {
  throw Trouble(fmt::format("{}: {}: {}", what, to_string(error.code), error.message));
}

std::uint64_t now_ns() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}
void sleep_us(std::uint64_t microseconds) noexcept {
  const timespec time{static_cast<time_t>(microseconds / 1'000'000),
                      static_cast<long>(microseconds % 1'000'000 * 1000)};
  ::nanosleep(&time, nullptr);
}

void Pulse::await_beat() const noexcept {
  // The first may be of a beat that began before.
  const std::uint64_t enough = beats.load(std::memory_order_acquire) + 2;
  while (beats.load(std::memory_order_acquire) < enough) sleep_us(1000);
}

ProducerOptions Part::producer_options() const {
  ProducerOptions options = scenario.options;
  options.directory = directory;
  return options;
}
ConsumerOptions Part::consumer_options() const {
  ConsumerOptions options{producer_options()};
  options.when_slow = role.policy;
  options.depth = role.depth;
  return options;
}

bool Part::is_starvation(const Error& error) const noexcept {
  return error.code == Code::out_of_memory || error.code == Code::too_large ||
         (scenario.is_starved() && error.code != Code::invalid_argument);
}

// ---- calls ---------------------------------------------------------------------------------

Part::Stopwatch::Stopwatch(Part& part, const char* name, std::chrono::nanoseconds time) noexcept
    : part_(part),
      name_(name),
      time_(time),
      started_(now_ns()),
      stopped_(part.desk().stopped_ns.load(std::memory_order_relaxed)),
      stalled_(part.pulse.stalled_ns.load(std::memory_order_relaxed)) {
  std::snprintf(part_.desk().doing.data(), part_.desk().doing.size(), "%s", name_);
}
Part::Stopwatch::~Stopwatch() {
  part_.desk().doing[0] = 0;
}

// What the machine stood still, or this process was held, does not count. Behind a halt of the
// whole machine this process may be the first to go on.
void Part::Stopwatch::check() const {
  constexpr std::uint64_t kGrace = 2'000'000'000;
  const std::uint64_t took = now_ns() - started_;
  const auto given = static_cast<std::uint64_t>(time_.count());
  const auto is_late = [&] {
    const std::uint64_t held =
        part_.desk().stopped_ns.load(std::memory_order_relaxed) - stopped_ +
        2 * (part_.pulse.stalled_ns.load(std::memory_order_relaxed) - stalled_);
    return took > given + held + kGrace;
  };
  if (!is_late()) return;
  part_.pulse.await_beat();
  if (is_late())
    give_up(fmt::format("{} with a deadline of {} ms took {} ms", name_, given / 1'000'000,
                        took / 1'000'000));
}

// Where time is virtual it passes only when nobody can run: what comes with the deadline had been
// there.
void Part::Stopwatch::check_woken() const {
  constexpr std::chrono::seconds kLong{1};
  if (part_.scenario.is_timeless && time_ >= kLong &&
      now_ns() - started_ >= static_cast<std::uint64_t>(time_.count()))
    give_up(fmt::format("{} succeeded when its deadline woke it: a wake-up was missed", name_));
}

// ---- bytes ---------------------------------------------------------------------------------

void check_bytes(ConstByteSpan bytes, Id id, Bytes offset, const char* when) {
  if (const auto wrong = first_wrong(bytes, id, offset))
    give_up(fmt::format("{}: {}", when, describe_wrong(bytes, id, offset, *wrong)));
}

Bytes check_message(const Message& message, Id id, const char* when) {
  Bytes offset = 0;
  for (std::size_t i = 0; i < message.segments(); ++i) {
    const Segment segment = message.segment(i);
    check_bytes(segment.bytes, id, offset, when);
    offset += segment.bytes.size();
  }
  return offset;
}

// ---- processes -----------------------------------------------------------------------------

Footprint Footprint::take() {
  Footprint it;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const bool is_event =
        std::filesystem::read_symlink(entry.path(), gone) == "anon_inode:[eventfd]";
    ++(is_event ? it.events : it.descriptors);
  }
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (line.find("/memfd:") != std::string::npos) ++it.mappings;
  return it;
}

// The acceptor's end and the unmapping of memory may come a moment later.
void check_footprint(const Footprint& before, unsigned runtimes) {
  const std::uint64_t end = now_ns() + 3'000'000'000;
  Footprint now = Footprint::take();
  while (!now.is_left_by(before, runtimes) && now_ns() < end) {
    sleep_us(2000);
    now = Footprint::take();
  }
  if (!now.is_left_by(before, runtimes))
    give_up(fmt::format(
        "{} descriptors, {} events and {} shared mappings before, {}, {} and {} at the end",
        before.descriptors, before.events, before.mappings, now.descriptors, now.events,
        now.mappings));
}

void fork_copy(Part& part, const std::function<void(Dice&)>& late) {
  Dice dice(part.dice.next());
  const pid_t pid = ::fork();
  if (pid < 0) return;
  if (pid != 0) return copies().push_back(pid);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::alarm(15);
  sleep_us(dice.up_to(20'000));
  try {
    late(dice);
  } catch (const std::exception& trouble) {
    part.board.fail(fmt::format("a copy of role {}: {}", part.index, trouble.what()));
  }
  ::_exit(0);
}

void reap_copies() {
  for (const pid_t pid : copies()) {
    int status = 0;
    ::waitpid(pid, &status, 0);
    if (WIFSIGNALED(status))
      give_up(fmt::format("a copy made by fork() was ended by signal {}", WTERMSIG(status)));
  }
  copies().clear();
}

namespace {

void play(Part& part) {
  if (part.scenario.is_one_process) return play_once(part);  // who conducts it looks at the end
  const Footprint before = Footprint::take();
  limit_process(part.role);
  play_once(part);
  reap_copies();
  if (!part.scenario.is_starved()) check_footprint(before);
}

}  // namespace

int perform(const Scenario& scenario, unsigned index, unsigned life, const std::string& directory,
            Board& board, const Pulse& pulse) {
  if (scenario.is_timeless && life == 0 && scenario.roles[index].starts_us != 0)
    sleep_us(scenario.roles[index].starts_us);
  try {
    const RuntimeOptions options{
        .directory = directory, .engine = scenario.engine, .require_engine = false};
    auto runtime = Runtime::create(options);
    while (!runtime && scenario.is_timeless && scenario.is_starved())
      runtime = Runtime::create(options);
    if (!runtime) give_up("no runtime", runtime.error());
    Part part{.scenario = scenario,
              .role = scenario.roles[index],
              .index = index,
              .life = life,
              .directory = directory,
              .board = board,
              .pulse = pulse,
              .runtime = *runtime,
              .dice = Dice(scenario.seed, 100 + index, life)};
    play(part);
    return 0;
  } catch (const std::exception& trouble) {
    board.fail(fmt::format("{}: {}", name_of(scenario, index, life), trouble.what()));
    return 1;
  }
}

void tell_who_is_over(const Scenario& scenario, Board& board,
                      const std::function<bool(std::size_t role)>& has_finished) {
  std::array<bool, 2> sends{};
  for (std::size_t i = 0; i < scenario.roles.size(); ++i) {
    if (has_finished(i)) continue;
    const Play play = scenario.roles[i].play;
    if (play == Play::produce || play == Play::deliver || play == Play::call || play == Play::put)
      sends[0] = true;
    if (play == Play::relay || play == Play::keep) sends[1] = true;
  }
  for (std::size_t i = 0; i < sends.size(); ++i)
    if (!sends[i]) board.is_over[i].store(true, std::memory_order_release);
}

std::string name_of(const Scenario& scenario, unsigned role, unsigned life) {
  const auto play = static_cast<std::size_t>(scenario.roles[role].play);
  return fmt::format("role {} ({}, life {})", role, kPlayNames[play], life);
}

}  // namespace gantry::oracle
