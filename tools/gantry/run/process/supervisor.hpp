#pragma once  // tools/gantry/run/process/supervisor.hpp: the work of supervise(), in three files.

#include <algorithm>
#include <optional>

#include "run/process/leftovers.hpp"
#include "run/process/processes.hpp"
#include "run/process/progress.hpp"
#include "run/process/remote_host.hpp"
#include "run/process/supervise.hpp"
#include "run/process/watcher.hpp"

namespace gantry::run {

/// One run of the processes of one host; that of `gantry run` hears from the others.
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
  using nanoseconds = std::chrono::nanoseconds;
  using milliseconds = std::chrono::milliseconds;
  using Clock = std::chrono::steady_clock;

  static constexpr milliseconds kSettle{200};   // between the first failure and SIGTERM
  static constexpr milliseconds kStopPoll{10};  // how often a stopping run checks what is left
  // between SIGKILL and giving up on what cannot be killed
  static constexpr std::chrono::seconds kKilled{5};
  static constexpr std::chrono::seconds kPlainTick{10};  // between progress lines of no terminal

  // The subject of an event: the kind, and the index of a process or of a host.
  enum class Event : std::uint32_t {
    interrupt,
    stop,
    guard,
    streams,
    exit,
    output,
    errors,
    host_exit,
    host_output,
    host_errors
  };
  static Watcher::Tag tag(Event event, std::size_t index = 0) {
    return (static_cast<Watcher::Tag>(event) << 32) | index;
  }

  Result<void> watch();
  Result<void> watch(const Child& child, Event exit, Event output, Event errors, std::size_t index);
  Result<void> start_hosts();
  Result<void> let_hosts_go();
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
  void add_failure(Failure failure);
  void hear(std::size_t host);
  void obey(const HostRecord& record);
  void note_host_end(std::size_t host);
  [[nodiscard]] const std::optional<Error>* host_error() const;
  [[nodiscard]] bool is_going() const;
  void check_opened();
  void show_progress();
  [[nodiscard]] Clock::time_point next_moment() const;
  [[nodiscard]] std::vector<bool> living_stages() const;
  [[nodiscard]] bool all_ended() const;
  [[nodiscard]] bool hosts_ended() const;
  [[nodiscard]] bool somebody_left() const;
  void settle();
  void note_dying();
  void note_left_behind();
  void stop();
  Finished reap();
  void end_hosts();
  void end_rest();
  [[nodiscard]] Error verdict(std::vector<std::string>& last_words);

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
  Console own_console_;
  Console& console_ = options_.reporter != nullptr ? *options_.reporter : own_console_;
  Progress progress_;
  Clock::time_point started_ = Clock::now();
  Clock::time_point next_progress_ = started_;
  Clock::time_point open_by_ = Clock::time_point::max();
  std::vector<StageProcess> processes_;
  std::vector<RemoteHost> hosts_;
  std::vector<bool> dying_;  // already exiting when the first failure was seen
  std::vector<Failure> failures_;
};

}  // namespace gantry::run
