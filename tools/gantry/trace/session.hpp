#pragma once  // tools/gantry/trace/session.hpp: a recording that goes on beside the command, and
              // the file that it ends in.

#include <condition_variable>
#include <gantry/runtime.hpp>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tools/command_line/output_file.hpp"

namespace gantry::cli {

/// The value of an option that says how many events.
[[nodiscard]] Result<std::uint64_t> parse_trace_events(std::string_view text);

/// Records in the background until write().
class TraceSession {
 public:
  /// Make the Interrupt before. `option` sets how many events: the user is told of it if some are
  /// lost. Errors: `file` cannot be written; those of Recording::start().
  [[nodiscard]] static Result<TraceSession> start(const std::vector<std::string>& directories,
                                                  const std::string& file,
                                                  const trace::RecordingOptions& options,
                                                  std::string option);

  /// It could not go on recording; write() says why.
  [[nodiscard]] bool has_failed() const;
  /// Ends it, and writes what was recorded of `channel`, empty: of all. Prints a line on standard
  /// error that says how much, and one for each note. Errors: the file cannot be written, and what
  /// was written is gone; it could not go on recording; nothing was recorded of the channel, which
  /// nobody has (`is_there`): there is no file.
  [[nodiscard]] Result<void> write(const std::string& channel = {}, bool is_there = true);

 private:
  struct Background {
    explicit Background(trace::Recording started) : recording(std::move(started)) {}
    ~Background() { stop(); }
    Background(const Background&) = delete;
    Background& operator=(const Background&) = delete;
    void stop() noexcept;
    void keep_up();

    trace::Recording recording;
    std::mutex mutex;  // guards those below
    std::condition_variable over;
    bool is_over = false;
    Result<void> kept{};
    std::thread thread;
  };

  TraceSession() = default;
  OutputFile file_;
  std::string option_;
  std::unique_ptr<Background> background_;
};

}  // namespace gantry::cli
