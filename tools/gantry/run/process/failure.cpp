#include "run/process/failure.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <string.h>

#include "output.hpp"

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

Failure unopened_in_time(std::size_t process, const std::string& end,
                         std::chrono::nanoseconds limit) {
  return {process, false,
          fmt::format("has not opened its {} within {}", end, cli::format_time(limit)),
          opening_hint(end) + "; --connect-within allows more time"};
}

const Failure& root_cause(const std::vector<Failure>& failures) {
  const auto killed = std::ranges::find_if(failures, &Failure::by_signal);
  return killed == failures.end() ? failures.front() : *killed;
}

Error report_failures(const std::vector<Failure>& failures,
                      const std::vector<StageProcess>& processes, Console& console) {
  const Failure& cause = root_cause(failures);
  const StageProcess& process = processes[cause.process];
  std::string hint = cause.hint;
  if (hint.empty())
    hint = process.last_errors().empty() ? "it wrote nothing to standard error"
                                         : "its last words stand above";
  for (const Failure& failure : failures) {
    if (failure.process == cause.process) continue;
    show_last_words(processes[failure.process], console);
    hint += fmt::format("; stage {} {}, too", processes[failure.process].label(), failure.why);
  }
  show_last_words(process, console);
  return {Code::peer_gone, fmt::format("stage {}: {}", process.label(), cause.why),
          std::move(hint)};
}

}  // namespace gantry::run
