#include "run/process/supervise.hpp"

#include <fmt/format.h>

#include "errors.hpp"
#include "run/process/supervisor.hpp"

namespace gantry::run {
namespace {

constexpr std::chrono::milliseconds kConsolePoll{
    50};  // how often text is offered to a slow terminal
constexpr std::chrono::milliseconds kTerminalTick{200};  // between progress lines
constexpr double kTickShare = 0.02;  // of the time may be spent on reading counters

}  // namespace

// ---- the course of a run ---------------------------------------------------------------------

Result<Finished> Supervisor::run() {
  if (const auto fine = watch(); !fine) return tl::unexpected(fine.error());
  Result<void> all_started = start_hosts();
  if (all_started && is_going()) all_started = start();
  plan_.close_pipes();
  while (all_started && is_going() && !all_ended()) attend();
  const double wall_s = std::chrono::duration<double>(Clock::now() - started_).count();
  const bool ended_well = all_started && is_going();
  if (all_started && !ended_well && !interrupted_) settle();
  if (ended_well) note_left_behind();
  stop();
  if (options_.course != nullptr) options_.course->add(Clock::now() - started_, plan_);
  Finished finished = reap();
  finished.wall_s = wall_s;
  if (!all_started) finished.end = all_started;
  if (all_started && !ended_well) finished.end = tl::unexpected(verdict(finished.last_words));
  return finished;
}

bool Supervisor::is_going() const {
  return failures_.empty() && !interrupted_ && host_error() == nullptr;
}

Result<void> Supervisor::watch() {
  if (auto fine = events_.add(interrupt_.descriptor(), tag(Event::interrupt)); !fine) return fine;
  if (options_.stop_descriptor >= 0)
    if (auto fine = events_.add(options_.stop_descriptor, tag(Event::stop)); !fine) return fine;
  if (auto fine = events_.add(guard_.exit_descriptor(), tag(Event::guard)); !fine) return fine;
  return events_.add(streams_.descriptor(), tag(Event::streams));
}

Result<void> Supervisor::watch(const Child& child, Event exit, Event output, Event errors,
                               std::size_t index) {
  if (auto fine = events_.add(child.exit.get(), tag(exit, index)); !fine) return fine;
  if (auto fine = streams_.add(child.output.get(), tag(output, index)); !fine) return fine;
  return streams_.add(child.errors.get(), tag(errors, index));
}

Result<void> Supervisor::start() {
  started_ = next_progress_ = Clock::now();
  if (options_.connect_within < Clock::time_point::max() - started_)
    open_by_ = started_ + options_.connect_within;
  if (auto fine = let_hosts_go(); !fine) return fine;
  for (const ProcessId id : plan_.processes()) {
    if (plan_.is_here(id)) {
      if (auto fine = start(id); !fine) return fine;
    } else if (options_.reporter == nullptr) {
      processes_.emplace_back(id, process_label(plan_.pipeline().stages[id.stage], id.replica));
    }
  }
  return {};
}

Result<void> Supervisor::start(ProcessId id) {
  const Launch launch = plan_.launch(id, options_.connect_within);
  Result<Child> child = spawn(launch, file_limit_, guard_);
  if (!child) return tl::unexpected(child.error());
  processes_.emplace_back(id, process_label(plan_.pipeline().stages[id.stage], id.replica),
                          std::move(*child));
  return watch(processes_.back().child(), Event::exit, Event::output, Event::errors,
               processes_.size() - 1);
}

/// One turn of the loop: waits for something to happen, and does what is due.
void Supervisor::attend() {
  pump(next_turn());
  if (Clock::now() >= open_by_) check_opened();
  if (Clock::now() >= next_progress_) show_progress();
  if (Clock::now() >= next_moment()) options_.course->add(Clock::now() - started_, plan_);
}

Supervisor::Clock::time_point Supervisor::next_moment() const {
  return options_.course == nullptr ? Clock::time_point::max() : started_ + options_.course->next();
}

std::chrono::nanoseconds Supervisor::next_turn() const {
  const auto due = std::min(
      {open_by_, next_moment(), options_.quiet ? Clock::time_point::max() : next_progress_});
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
      if (options_.reporter == nullptr) console_.line("gantry: run: interrupted");
      return events_.remove(interrupt_.descriptor());  // it stays readable
    case Event::stop:
      interrupted_ = true;
      return events_.remove(options_.stop_descriptor);
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
    case Event::host_exit:
      return note_host_end(process);
    case Event::host_output:
      return hear(process);
    case Event::host_errors:
      if (StageProcess& launcher = hosts_[process].launcher();
          launcher.forward(StageProcess::Stream::errors, console_) == StageProcess::Read::ended)
        streams_.remove(launcher.child().errors.get());
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
    add_failure(failed_exit(index, process.exit()));
  } else if (const std::string end = plan_.unopened_end(process.id()); !end.empty()) {
    add_failure(ended_unopened(index, end));
  } else if (const std::string name = plan_.unclosed_output(process.id()); !name.empty()) {
    add_failure(left_unclosed(index, name));
  }
}

void Supervisor::add_failure(Failure failure) {
  if (options_.reporter != nullptr)
    options_.reporter->failed(processes_[failure.process].id(), failure);
  failures_.push_back(std::move(failure));
}

void Supervisor::check_opened() {
  open_by_ = Clock::time_point::max();
  for (std::size_t index = 0; index < processes_.size(); ++index)
    if (processes_[index].is_elsewhere()) {
      continue;  // its agent looks
    } else if (const std::string end = plan_.unopened_end(processes_[index].id()); !end.empty()) {
      add_failure(unopened_in_time(index, end, options_.connect_within));
    }
}

void Supervisor::show_progress() {
  if (options_.quiet) return;
  const auto begin = Clock::now();
  const nanoseconds tick = console_.is_terminal() || options_.reporter != nullptr
                               ? nanoseconds(kTerminalTick)
                               : kPlainTick;
  if (options_.reporter != nullptr) {
    options_.reporter->counters(plan_);
  } else if (begin - started_ >= tick) {
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
