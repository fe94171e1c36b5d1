#pragma once  // tools/command_line/progress.hpp: how far a long command is, for the person who
              // waits.

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include <unistd.h>

namespace gantry::cli {

/// How a stream of this process shows progress, as its kind and the environment have it.
struct ProgressStyle {
  bool is_drawn =
      false;  ///< A terminal that can take a line back; TERM=dumb and NO_COLOR forbid it.
  bool is_utf8 = false;  ///< LC_ALL, LC_CTYPE or LANG, the first that is set, says UTF-8.
};
[[nodiscard]] ProgressStyle progress_style(int stream);

/// Takes a drawn line back: precedes whatever else is written to that terminal.
inline constexpr std::string_view kEraseLine = "\r\x1b[K";

/// Columns of the terminal now, which change with its window; 80 where they are not known.
[[nodiscard]] std::size_t terminal_columns(int stream) noexcept;

/// `text` in at most `columns`, with a mark where it was cut. Counts code points.
[[nodiscard]] std::string cut_to(std::string_view text, std::size_t columns, bool is_utf8);

/// On a terminal one line: a bar, what is done now, how much is done, what is left. Otherwise a
/// line for each thing that begins, and one every ten seconds while it lasts. Only the calls write,
/// so whoever measures calls between two measurements. Whoever prints something else calls clear()
/// before it. For one thread.
class Progress {
 public:
  /// `steps`: how often step() will be called. The time that is left is counted from here.
  explicit Progress(std::string title, std::uint64_t steps = 0, int stream = STDERR_FILENO);
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// The next of the steps begins; `label` says what it belongs to.
  void step(std::string_view label);
  /// `part` of the whole, from 0 to 1, is done, and `label` goes on; `count`: as "3/40", or empty.
  void show(std::string_view label, double part, std::string_view count = {});
  void clear();  ///< Takes the drawn line back.

  [[nodiscard]] bool is_drawn() const noexcept { return style_.is_drawn; }

 private:
  using Clock = std::chrono::steady_clock;
  void draw(double part, std::string_view count, Clock::time_point now);
  void print(bool has_begun, double part, std::string_view count, Clock::time_point now);

  const std::string title_;
  const std::uint64_t steps_;
  const int stream_;
  const ProgressStyle style_;
  const Clock::time_point started_ = Clock::now();
  std::uint64_t begun_ = 0;
  std::string label_;
  Clock::time_point last_{};  // when something was written
  bool is_shown_ = false;     // a drawn line stands there
};

/// The line of a terminal with so many columns: what finds no room is left out, the title first.
/// `left`: "3 min 2 s", or empty.
struct ProgressLine {
  std::string_view title, label, count, left;
  double part = 0;
};
[[nodiscard]] std::string progress_line(const ProgressLine& line, std::size_t columns,
                                        bool is_utf8);

}  // namespace gantry::cli
