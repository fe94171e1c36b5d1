#include "run/process/supervise.hpp"

#include <errno.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>

#include <optional>

#include "errors.hpp"
#include "run/process/failure.hpp"
#include "run/process/leftovers.hpp"
#include "run/process/processes.hpp"
#include "run/process/progress.hpp"
#include "run/process/watcher.hpp"

namespace gantry::run {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kGrace{500};   // between SIGTERM and SIGKILL
constexpr milliseconds kSettle{200};  // between the first failure and SIGTERM
// between SIGKILL and giving up on what cannot be killed
constexpr std::chrono::seconds kKilled{5};
constexpr milliseconds kStopPoll{10};       // how often a stopping run checks what is left
constexpr milliseconds kConsolePoll{50};    // how often text is offered to a slow terminal
constexpr milliseconds kTerminalTick{200};  // between progress lines
constexpr std::chrono::seconds kPlainTick{5};
constexpr double kTickShare = 0.02;  // of the time may be spent on reading counters

// The subject of an event: the kind, and the index of a process.
enum class Event : std::uint32_t { interrupt, guard, streams, exit, output, errors };
Watcher::Tag tag(Event event, std::size_t index = 0) {
  return (static_cast<Watcher::Tag>(event) << 32) | index;
}

class Supervisor {
 public:
  Supervisor(Plan& plan, const SuperviseOptions& options, Guard& guard,
             const RaisedFileLimit& file_limit, Watcher events, Watcher streams,
             const cli::Interrupt& interrupt)
      : plan_(plan),
        options_(options),
        guard_(guard),
        file_limit_(file_limit),
        interrupt_(interrupt),
        events_(std::move(events)),
        streams_(std::move(streams)),
        strangers_(own_children()),
        progress_(plan) {}

  Result<Finished> run();

 private:
  Result<void> watch();
  Result<void> start();
  Result<void> start(ProcessId id);
  void attend();
  [[nodiscard]] nanoseconds next_turn() const;
  void pump(nanoseconds wait);
  void dispatch(Watcher::Tag what);
  void forward_streams();
  void forward(std::size_t process, StageProcess::Stream stream);
  void pause_or_resume();
  void note_unguarded();
  void note_end(std::size_t process);
  void check_opened();
  void show_progress();
  [[nodiscard]] std::vector<bool> living_stages() const;
  [[nodiscard]] bool all_ended() const;
  [[nodiscard]] bool somebody_left() const;
  void settle();
  void note_dying();
  void note_left_behind();
  void stop();
  Finished reap();
  void end_rest();
  [[nodiscard]] Error verdict();

  Plan& plan_;
  const SuperviseOptions options_;
  Guard& guard_;
  const RaisedFileLimit& file_limit_;
  const cli::Interrupt& interrupt_;
  Watcher events_;
  Watcher streams_;  // of all processes; part of events_ unless paused
  bool is_paused_ = false;
  bool interrupted_ = false;
  bool stopping_ = false;
  const std::vector<ProcessFacts> strangers_;  // children this process had before
  Console console_;
  Progress progress_;
  const Clock::time_point started_ = Clock::now();
  Clock::time_point next_progress_ = started_;
  Clock::time_point open_by_ = Clock::time_point::max();
  std::vector<StageProcess> processes_;
  std::vector<bool> dying_;  // already exiting when the first failure was seen
  std::vector<Failure> failures_;
};

// ---- the course of a run ---------------------------------------------------------------------

Result<Finished> Supervisor::run() {
  if (const auto fine = watch(); !fine) return tl::unexpected(fine.error());
  const Result<void> all_started = start();
  plan_.close_pipes();
  while (all_started && failures_.empty() && !interrupted_ && !all_ended()) attend();
  const double wall_s = std::chrono::duration<double>(Clock::now() - started_).count();
  const bool ended_well = all_started && failures_.empty() && !interrupted_;
  if (!failures_.empty()) settle();
  if (ended_well) note_left_behind();
  stop();
  Finished finished = reap();
  finished.wall_s = wall_s;
  if (!all_started) return tl::unexpected(all_started.error());
  if (!ended_well) return tl::unexpected(verdict());
  return finished;
}

Result<void> Supervisor::watch() {
  if (auto fine = events_.add(interrupt_.descriptor(), tag(Event::interrupt)); !fine) return fine;
  if (auto fine = events_.add(guard_.exit_descriptor(), tag(Event::guard)); !fine) return fine;
  if (options_.connect_within < Clock::time_point::max() - started_)
    open_by_ = started_ + options_.connect_within;
  return events_.add(streams_.descriptor(), tag(Event::streams));
}

Result<void> Supervisor::start() {
  for (const ProcessId id : plan_.processes())
    if (auto fine = start(id); !fine) return fine;
  return {};
}

Result<void> Supervisor::start(ProcessId id) {
  const Launch launch = plan_.launch(id);
  Result<Child> child = spawn(launch, file_limit_, guard_);
  if (!child) return tl::unexpected(child.error());
  const std::size_t index = processes_.size();
  processes_.emplace_back(id, launch.label, std::move(*child));
  const Child& started = processes_.back().child();
  if (auto fine = events_.add(started.exit.get(), tag(Event::exit, index)); !fine) return fine;
  if (auto fine = streams_.add(started.output.get(), tag(Event::output, index)); !fine) return fine;
  return streams_.add(started.errors.get(), tag(Event::errors, index));
}

/// One turn of the loop: waits for something to happen, and does what is due.
void Supervisor::attend() {
  pump(next_turn());
  if (Clock::now() >= open_by_) check_opened();
  if (Clock::now() >= next_progress_) show_progress();
}

nanoseconds Supervisor::next_turn() const {
  const auto due = std::min(open_by_, options_.quiet ? Clock::time_point::max() : next_progress_);
  const nanoseconds left =
      due == Clock::time_point::max() ? nanoseconds::max() : due - Clock::now();
  return console_.has_waiting() ? std::min<nanoseconds>(left, kConsolePoll) : left;
}

bool Supervisor::all_ended() const {
  return std::ranges::none_of(processes_, &StageProcess::running);
}

// ---- events ----------------------------------------------------------------------------------

void Supervisor::pump(nanoseconds wait) {
  for (const Watcher::Tag what : events_.wait(wait)) dispatch(what);
  console_.flush();
  pause_or_resume();
}

void Supervisor::dispatch(Watcher::Tag what) {
  const auto process = static_cast<std::size_t>(what & 0xffff'ffff);
  switch (static_cast<Event>(what >> 32)) {
    case Event::interrupt:
      interrupted_ = true;
      return events_.remove(interrupt_.descriptor());  // it stays readable
    case Event::guard:
      return note_unguarded();
    case Event::streams:
      return forward_streams();
    case Event::exit:
      return note_end(process);
    case Event::output:
      return forward(process, StageProcess::Stream::output);
    case Event::errors:
      return forward(process, StageProcess::Stream::errors);
  }
}

void Supervisor::forward_streams() {
  for (const Watcher::Tag what : streams_.wait(nanoseconds::zero())) dispatch(what);
}

void Supervisor::forward(std::size_t process, StageProcess::Stream stream) {
  StageProcess& from = processes_[process];
  if (from.forward(stream, console_) != StageProcess::Read::ended) return;
  const Child& child = from.child();
  streams_.remove((stream == StageProcess::Stream::output ? child.output : child.errors).get());
}

/// While the console is stuck, the stages' pipes fill, as they would without us in between.
void Supervisor::pause_or_resume() {
  if (is_paused_ == console_.wants_pause()) return;
  if (is_paused_) {
    is_paused_ = !events_.add(streams_.descriptor(), tag(Event::streams));
  } else {
    events_.remove(streams_.descriptor());
    is_paused_ = true;
  }
}

/// The guard matters only if we are killed, too, and hours of work are worth more than that: the
/// run goes on. A new guard would need the lock file and pipe of the old one, and whoever killed
/// that one may have meant it.
void Supervisor::note_unguarded() {
  events_.remove(guard_.exit_descriptor());  // it stays readable
  console_.line(
      fmt::format("gantry: run: its guard (process {}) was killed; the run goes on, but end it "
                  "with Ctrl-C, not with kill -9, or parts of it may stay behind",
                  guard_.pid()));
}

void Supervisor::note_end(std::size_t index) {
  StageProcess& process = processes_[index];
  if (!process.note_end()) return;
  events_.remove(process.child().exit.get());
  process.forward_all(console_);
  // A process that fails after the order to stop fails because of it, unless it was ending already.
  if (stopping_ && !dying_[index]) return;
  process.note_ended_by_itself();
  if (process.exit().failed()) {
    failures_.push_back(failed_exit(index, process.exit()));
  } else if (const std::string end = plan_.unopened_end(process.id()); !end.empty()) {
    failures_.push_back(ended_unopened(index, end));
  } else if (const std::string name = plan_.unclosed_output(process.id()); !name.empty()) {
    failures_.push_back(left_unclosed(index, name));
  }
}

void Supervisor::check_opened() {
  open_by_ = Clock::time_point::max();
  for (std::size_t index = 0; index < processes_.size(); ++index)
    if (const std::string end = plan_.unopened_end(processes_[index].id()); !end.empty())
      failures_.push_back(unopened_in_time(index, end, options_.connect_within));
}

void Supervisor::show_progress() {
  if (options_.quiet) return;
  const auto begin = Clock::now();
  const nanoseconds tick = console_.is_terminal() ? nanoseconds(kTerminalTick) : kPlainTick;
  if (begin - started_ >= tick) {
    const std::string line = progress_.line(begin - started_, living_stages());
    console_.is_terminal() ? console_.status(line) : console_.line(line);
  }
  const auto cost = std::chrono::duration<double>(Clock::now() - begin) / kTickShare;
  next_progress_ = begin + std::max(tick, std::chrono::duration_cast<nanoseconds>(cost));
}

/// Stages of which some replica runs.
std::vector<bool> Supervisor::living_stages() const {
  std::vector<bool> living(plan_.pipeline().stages.size());
  for (const StageProcess& process : processes_)
    if (process.running()) living[process.id().stage] = true;
  return living;
}

// ---- the end ---------------------------------------------------------------------------------

/// A stage that fails closes its channels before it exits. So a stage that fails only as an answer
/// to that may be seen first. Both are to be named, so those that follow by themselves get a
/// moment. A signal needs no explanation.
void Supervisor::settle() {
  const Deadline until = Deadline::after(kSettle);
  while (!until.passed() && !all_ended() && !interrupted_ &&
         std::ranges::none_of(failures_, &Failure::by_signal))
    pump(std::min<nanoseconds>(until.left(), kStopPoll));
  note_dying();
}

/// A killed stage closes its descriptors some time before it counts as dead (gigabytes of memory
/// take that long to free), so a peer's answer to that may come in first. A process that is ending
/// already at the first failure ends because of something before our order to stop.
void Supervisor::note_dying() {
  pump(nanoseconds::zero());
  dying_.resize(processes_.size());
  for (std::size_t index = 0; index < processes_.size(); ++index) {
    const auto facts = process_facts(processes_[index].child().pid);
    dying_[index] = processes_[index].running() && facts && (facts->exiting || facts->dead);
  }
}

void Supervisor::note_left_behind() {
  const auto all = all_processes();
  for (const StageProcess& process : processes_) {
    const std::size_t count = live_followers(all, process.child().pid).size();
    if (count != 0)
      console_.line(
          fmt::format("gantry: stage {}: left {} of its processes running; they are "
                      "ended now",
                      process.label(), count));
  }
}

bool Supervisor::somebody_left() const {
  if (!all_ended()) return true;
  const auto all = all_processes();
  return std::ranges::any_of(processes_, [&](const StageProcess& process) {
    return !live_followers(all, process.child().pid).empty();
  });
}

void Supervisor::stop() {
  stopping_ = true;
  dying_.resize(processes_.size());
  for (const StageProcess& process : processes_) ::kill(-process.child().pid, SIGTERM);
  const Deadline grace = Deadline::after(kGrace);
  while (!grace.passed() && somebody_left()) pump(kStopPoll);
}

Finished Supervisor::reap() {
  Finished finished;
  for (StageProcess& process : processes_) ::kill(-process.child().pid, SIGKILL);
  const Deadline until = Deadline::after(kKilled);
  while (!until.passed() && !all_ended()) pump(kStopPoll);
  for (StageProcess& process : processes_)
    finished.processes.push_back({process.id(), process.reap(guard_, until)});
  end_rest();
  for (StageProcess& process : processes_) process.forward_all(console_);
  return finished;
}

void Supervisor::end_rest() {
  const Leftovers left = end_leftovers(strangers_);
  if (left.ended != 0)
    console_.line(
        fmt::format("gantry: run: {} processes had left their stage's group; they are "
                    "ended now",
                    left.ended));
  if (!left.remain.empty())
    console_.line(fmt::format(
        "gantry: run: {} processes cannot be killed and go on running: {}; they are of another "
        "user, or hang in the kernel",
        left.remain.size(), fmt::join(left.remain, ", ")));
}

Error Supervisor::verdict() {
  if (interrupted_) return {Code::interrupted, "run: was interrupted", {}};
  return report_failures(failures_, processes_, plan_, console_);
}

}  // namespace

Result<Finished> supervise(Plan& plan, const SuperviseOptions& options, Guard& guard,
                           const RaisedFileLimit& file_limit, const cli::Interrupt& interrupt) {
  Result<Watcher> events = Watcher::create();
  if (!events) return tl::unexpected(events.error());
  Result<Watcher> streams = Watcher::create();
  if (!streams) return tl::unexpected(streams.error());
  return Supervisor(plan, options, guard, file_limit, std::move(*events), std::move(*streams),
                    interrupt)
      .run();
}

}  // namespace gantry::run
