#include <fmt/format.h>
#include <signal.h>

#include "run/process/supervisor.hpp"

namespace gantry::run {
namespace {

constexpr std::chrono::milliseconds kGrace{500};  // between SIGTERM and SIGKILL

}  // namespace

// ---- the end ---------------------------------------------------------------------------------

/// A stage that fails closes its channels before it exits. So a stage that fails only as an answer
/// to that may be seen first. Both are to be named, so those that follow by themselves get a
/// moment. A signal needs no explanation.
void Supervisor::settle() {
  const Deadline until = Deadline::after(kSettle);
  while (!until.passed() && !all_ended() && !interrupted_ && host_error() == nullptr &&
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
    processes_[index].note_input(processes_[index].running() &&
                                 !plan_.unread_input(processes_[index].id()).empty());
  }
}

void Supervisor::note_left_behind() {
  const auto all = all_processes();
  for (const StageProcess& process : processes_) {
    if (process.is_elsewhere()) continue;
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
    return !process.is_elsewhere() && !live_followers(all, process.child().pid).empty();
  });
}

void Supervisor::stop() {
  stopping_ = true;
  dying_.resize(processes_.size());
  for (const StageProcess& process : processes_) process.signal(SIGTERM);
  for (RemoteHost& host : hosts_) host.stop();
  const Deadline grace = Deadline::after(kGrace);
  while (!grace.passed() && somebody_left()) pump(kStopPoll);
}

Finished Supervisor::reap() {
  Finished finished;
  for (const StageProcess& process : processes_) process.signal(SIGKILL);
  end_hosts();
  const Deadline until = Deadline::after(kKilled);
  while (!until.passed() && !all_ended()) pump(kStopPoll);
  if (options_.reporter != nullptr) options_.reporter->counters(plan_);
  for (StageProcess& process : processes_) {
    finished.processes.push_back({process.id(), process.reap(guard_, until)});
    if (options_.reporter != nullptr)
      options_.reporter->ended(process, finished.processes.back().usage);
  }
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

Error Supervisor::verdict(std::vector<std::string>& last_words) {
  if (interrupted_) return {Code::interrupted, "run: was interrupted", {}};
  if (host_error() != nullptr) return **host_error();
  if (options_.reporter != nullptr) return {Code::peer_gone, "a stage failed", {}};  // it was told
  return report_failures(failures_, processes_, plan_, console_, last_words);
}

}  // namespace gantry::run
