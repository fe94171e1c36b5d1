#pragma once  // tools/gantry/run/process/stage_process.hpp: one running replica: its output and its
              // end.

#include <algorithm>
#include <chrono>
#include <deque>

#include "run/process/console.hpp"
#include "run/process/spawn.hpp"

namespace gantry::run {

/// How a process ended.
struct Exit {
  int status = 0;  ///< Exit status when no signal ended it.
  int signal = 0;  ///< 0: none.

  [[nodiscard]] bool failed() const noexcept { return status != 0 || signal != 0; }
};

/// What the kernel charged to the processes of a stage's group, and to those that they waited for.
struct Usage {
  double wall_s = 0;
  double user_s = 0;
  double system_s = 0;
  Bytes max_rss_bytes = 0;
};

/// Cuts a stream into lines. Longer ones than `longest` are cut there.
class LineCutter {
 public:
  static constexpr std::size_t kLongest = 4096;
  explicit LineCutter(std::size_t longest = kLongest) noexcept : longest_(longest) {}

  /// Adds what was read; `take` gets every line that is whole by now.
  template <class Take>
  void add(std::string_view text, Take take);
  template <class Take>
  void finish(Take take);  ///< The rest, when the stream has ended.

 private:
  std::size_t longest_;
  std::string rest_;
};

class StageProcess {
 public:
  using Clock = std::chrono::steady_clock;
  enum class Stream { output, errors };

  StageProcess(ProcessId id, std::string label, Child child)
      : id_(id), label_(std::move(label)), child_(std::move(child)), started_(Clock::now()) {}

  /// One on another host: only what its agent tells of it is known here.
  StageProcess(ProcessId id, std::string label) : StageProcess(id, std::move(label), Child{}) {}

  [[nodiscard]] bool is_elsewhere() const noexcept { return child_.pid == 0; }
  /// To all of its group, if that is here.
  void signal(int number) const noexcept;
  void take(Stream stream, std::string_view line, Console& console);
  void note_end_elsewhere(Exit exit, const Usage& usage) noexcept;

  [[nodiscard]] ProcessId id() const noexcept { return id_; }
  [[nodiscard]] const std::string& label() const noexcept { return label_; }
  [[nodiscard]] const Child& child() const noexcept { return child_; }
  [[nodiscard]] bool running() const noexcept { return running_; }
  [[nodiscard]] Exit exit() const noexcept { return exit_; }
  [[nodiscard]] const std::deque<std::string>& last_errors() const noexcept { return last_errors_; }

  /// It ended before anybody told it to.
  [[nodiscard]] bool ended_by_itself() const noexcept { return ended_by_itself_; }
  void note_ended_by_itself() noexcept { ended_by_itself_ = true; }
  /// When that was seen; without a meaning before.
  [[nodiscard]] std::chrono::steady_clock::time_point ended() const noexcept { return ended_; }

  /// It ran, and had not received all of an input, when the run was about to be stopped.
  [[nodiscard]] bool had_input() const noexcept { return had_input_; }
  void note_input(bool has_input) noexcept { had_input_ = has_input; }

  /// Learns how it ended, but leaves it unreaped, so that its number stays its group's. False: it
  /// has not ended.
  bool note_end();

  /// Forwards what the stream holds now, up to some KiB.
  enum class Read { some, nothing, ended };
  Read forward(Stream stream, Console& console);
  void forward_all(Console& console);

  /// Kills what is left of its group, then reaps it and all of the group that has come to us. Stops
  /// at `until`, since not everything can be killed.
  Usage reap(Guard& guard, Deadline until);

 private:
  ProcessId id_;
  std::string label_;
  Child child_;
  Clock::time_point started_;
  Clock::time_point ended_{};
  bool running_ = true;
  bool ended_by_itself_ = false;
  bool had_input_ = false;
  Exit exit_;
  Usage usage_;  // of one elsewhere
  LineCutter output_lines_;
  LineCutter error_lines_;
  std::deque<std::string> last_errors_;
};

template <class Take>
void LineCutter::add(std::string_view text, Take take) {
  rest_ += text;
  std::string_view left = rest_;
  while (!left.empty()) {
    const std::size_t end = left.find('\n');
    if (end == std::string_view::npos && left.size() < longest_) break;
    const std::size_t length = std::min({end, left.size(), longest_});
    take(left.substr(0, length));
    left.remove_prefix(length == end ? length + 1 : length);
  }
  rest_ = std::string(left);
}

template <class Take>
void LineCutter::finish(Take take) {
  if (!rest_.empty()) take(std::string_view(rest_));
  rest_.clear();
}

}  // namespace gantry::run
