#pragma once  // tools/gantry/run/process/console.hpp: writes standard error without ever blocking
              // on it.

#include <unistd.h>

#include "run/process/plan.hpp"
#include "tools/command_line/progress.hpp"

namespace gantry::run {

/// Prints the stages' lines, notes, and on a terminal a last line that is redrawn. A reader of our
/// standard error that does not read holds up neither the stages' end nor their clean-up: text
/// waits here, and wants_pause() asks the caller to take no more from the stages.
class Console {
 public:
  explicit Console(int stream = STDERR_FILENO);
  virtual ~Console();  ///< Writes what waits, for at most a second, and erases the status line.
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  [[nodiscard]] bool is_terminal() const noexcept { return style_.is_drawn; }
  virtual void line(std::string_view text);  ///< Above the status line.
  /// A line that a stage wrote.
  virtual void stage_line(ProcessId process, std::string_view label, bool errors,
                          std::string_view text);
  void status(std::string_view text);  ///< The line that is drawn anew; only on a terminal.
  void flush() noexcept;               ///< Writes what can be written now.
  [[nodiscard]] bool wants_pause() const noexcept { return waiting_.size() > kPauseBytes; }
  [[nodiscard]] bool has_waiting() const noexcept { return !waiting_.empty(); }

 private:
  static constexpr Bytes kPauseBytes = 256 << 10;
  void erase_status();
  [[nodiscard]] bool is_writable(int wait_ms) const noexcept;
  const int stream_;
  std::string waiting_;
  std::string status_;
  const cli::ProgressStyle style_;
};

}  // namespace gantry::run
