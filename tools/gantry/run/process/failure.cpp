#include "run/process/failure.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <string.h>

#include <optional>

#include "errors.hpp"
#include "output.hpp"
#include "run/file/graph.hpp"

namespace gantry::run {
namespace {

std::string signal_name(int number) {
  const char* name = ::sigabbrev_np(number);
  return name == nullptr ? fmt::format("signal {}", number)
                         : fmt::format("signal {} (SIG{})", number, name);
}

std::string opening_hint(const std::string& end) {
  const bool is_output = end.starts_with("output");
  return fmt::format(
      "a stage opens its ends with stage_input() and stage_output(), or is put "
      "behind gantry {}",
      is_output ? "put" : "get");
}

Failure left_end(std::size_t process, const Plan::LeftEnd& left) {
  if (left.output) return left_unclosed(process, left.channel);
  return {process, false, fmt::format("left its input '{}' unread", left.channel),
          "a stage receives until the stream has ended"};
}

/// A moment on the monotonic clock; never: the process was still there when the run was stopped.
using Moment = std::chrono::steady_clock::time_point;
constexpr Moment kNever = Moment::max();

Moment end_of(const StageProcess& process) {
  return process.ended_by_itself() ? process.ended() : kNever;
}

/// A program may give its end up long before it ends, and a victim may end sooner than the culprit.
Moment leaving(const Plan::LeftEnd& left, const StageProcess& peer) {
  if (left.left_ns == 0) return end_of(peer);
  return std::min(Moment(std::chrono::nanoseconds(left.left_ns)), end_of(peer));
}

/// Of all ends that were given up, as their peers saw it, the first before `limit`.
std::optional<Failure> first_left(Moment limit, const std::vector<StageProcess>& processes,
                                  const Plan& plan) {
  std::optional<Failure> first;
  for (const StageProcess& process : processes)
    for (const Plan::LeftEnd& left : plan.left_to(process.id())) {
      const auto peer = std::ranges::find(processes, left.who, &StageProcess::id);
      if (peer == processes.end() || leaving(left, *peer) >= limit) continue;
      limit = leaving(left, *peer);
      first = left_end(static_cast<std::size_t>(peer - processes.begin()), left);
    }
  return first;
}

/// The peer that `index` saw leave, if there is just one: it may go on without its end, as a shell
/// does.
std::optional<Failure> lone_peer(std::size_t index, const std::vector<StageProcess>& processes,
                                 const Plan& plan) {
  const std::vector<Plan::LeftEnd> all = plan.left_to(processes[index].id());
  if (all.size() != 1) return std::nullopt;
  const auto peer = std::ranges::find(processes, all.front().who, &StageProcess::id);
  if (peer == processes.end()) return std::nullopt;
  return left_end(static_cast<std::size_t>(peer - processes.begin()), all.front());
}

// What a shell says of a command that it cannot execute, or does not find.
constexpr int kExitNotExecutable = 126;
constexpr int kExitNotFound = 127;

bool lacks_a_program(Exit exit) noexcept {
  return exit.status == kExitNotExecutable || exit.status == kExitNotFound;
}

/// The failure from which the search begins: what a stage lacks is nobody else's fault; of others
/// that failed in the same moment the one nearest the source comes first, since data flow from
/// there.
const Failure& first_of(const std::vector<Failure>& failures,
                        const std::vector<StageProcess>& processes, const Plan& plan) {
  const Pipeline& pipeline = plan.pipeline();
  const std::vector<std::size_t> depth = depths(pipeline.channels, pipeline.stages.size());
  return *std::ranges::min_element(failures, {}, [&](const Failure& failure) {
    const StageProcess& process = processes[failure.process];
    return std::pair(!lacks_a_program(process.exit()), depth[process.id().stage]);
  });
}

/// The failure that caused the others. A signal comes from outside. A bad exit may well be the
/// answer to a peer that left, which may have been an answer, too, and that peer need not have
/// failed by its own account: the first end that was given up is where it began.
Failure root_cause(const std::vector<Failure>& failures, const std::vector<StageProcess>& processes,
                   const Plan& plan) {
  const auto killed = std::ranges::find_if(failures, &Failure::by_signal);
  if (killed != failures.end()) return *killed;
  const Failure& found = first_of(failures, processes, plan);
  if (lacks_a_program(processes[found.process].exit())) return found;
  auto earlier = first_left(end_of(processes[found.process]), processes, plan);
  if (!earlier) earlier = lone_peer(found.process, processes, plan);
  if (!earlier) return found;
  const auto own = std::ranges::find(failures, earlier->process, &Failure::process);
  return own != failures.end() ? *own : *earlier;
}

/// A shell says no more than the status, where a command of its pipe was ended by SIGPIPE.
Failure explained(Failure cause, const std::vector<StageProcess>& processes, const Plan& plan) {
  const StageProcess& process = processes[cause.process];
  const Stage& stage = plan.pipeline().stages[process.id().stage];
  if (std::string_view(stage.command_key) != "shell") return cause;
  if (lacks_a_program(process.exit()))
    cause.hint = process.exit().status == kExitNotFound
                     ? "a program of its line was not found: install it, or write its path"
                     : "a program of its line cannot be executed: chmod +x";
  if (process.exit().status != cli::kExitReaderLeft) return cause;
  if (const std::string channel = plan.unread_input(process.id()); !channel.empty())
    cause.why = fmt::format("left its input '{}' unread, and {}", channel, cause.why);
  cause.hint =
      "a command of its pipe wrote to one that had ended, as before head; let each read to the end "
      "of its input (sed -n 1,10p in place of head)";
  return cause;
}

/// A neighbour towards the source that had ended its stream and went on: a command of its pipe may
/// have failed, which its shell says when all have ended. Null: none.
const StageProcess* early_neighbour(std::size_t cause, const std::vector<StageProcess>& processes,
                                    const Plan& plan) {
  for (const Link& link : plan.links()) {
    if (!is_receiver(link, processes[cause].id()) || !link.sender.report().ended) continue;
    const auto peer = std::ranges::find(processes, link.from, &StageProcess::id);
    if (peer != processes.end() && peer->had_input()) return &*peer;
  }
  return nullptr;
}

void show_last_words(const StageProcess& process, Console& console) {
  if (process.last_errors().empty()) return;
  console.line(fmt::format("last lines of standard error of stage {}:", process.label()));
  for (const std::string& line : process.last_errors()) console.line("  " + line);
}

}  // namespace

Failure failed_exit(std::size_t process, Exit exit) {
  const bool by_signal = exit.signal != 0;
  return {process,
          by_signal,
          by_signal ? "was killed by " + signal_name(exit.signal)
                    : fmt::format("exited with status {}", exit.status),
          {}};
}

Failure ended_unopened(std::size_t process, const std::string& end) {
  return {process, false, "ended without opening its " + end, opening_hint(end)};
}

Failure left_unclosed(std::size_t process, const std::string& output) {
  return {process, false, fmt::format("left its output '{}' without closing it", output),
          "a stage calls close() when it has sent everything"};
}

Failure unopened_in_time(std::size_t process, const std::string& end,
                         std::chrono::nanoseconds limit) {
  return {process, false,
          fmt::format("has not opened its {} within {}", end, cli::format_time(limit)),
          opening_hint(end) + "; --connect-within allows more time"};
}

Error report_failures(const std::vector<Failure>& failures,
                      const std::vector<StageProcess>& processes, const Plan& plan,
                      Console& console, std::vector<std::string>& last_words) {
  const Failure cause = explained(root_cause(failures, processes, plan), processes, plan);
  const StageProcess& process = processes[cause.process];
  const bool is_silent = process.last_errors().empty();
  std::string hint = cause.hint;
  if (hint.empty() || !is_silent)
    hint += fmt::format(
        "{}{}", hint.empty() ? "" : "; ",
        is_silent ? "it wrote nothing to standard error" : "its last words stand above");
  for (const Failure& failure : failures) {
    if (failure.process == cause.process) continue;
    show_last_words(processes[failure.process], console);
    hint += fmt::format("; stage {} {}, too", processes[failure.process].label(), failure.why);
  }
  if (const StageProcess* const early = early_neighbour(cause.process, processes, plan)) {
    show_last_words(*early, console);
    hint += fmt::format("; stage {} had ended its stream while it had input", early->label());
  }
  show_last_words(process, console);
  last_words.assign(process.last_errors().begin(), process.last_errors().end());
  return {Code::peer_gone, fmt::format("stage {}: {}", process.label(), cause.why),
          std::move(hint)};
}

}  // namespace gantry::run
