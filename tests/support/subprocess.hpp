#pragma once  // tests/support/subprocess.hpp: programs under test, as processes with a deadline.

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gantry::test {

struct Command {
  std::vector<std::string> argv;  ///< argv[0] is looked up in PATH unless it has a slash.
  std::vector<std::pair<std::string, std::string>> env;  ///< On top of this process's.
  std::string cwd;                                       ///< Empty: this process's.
  std::string input;        ///< Standard input, which then ends, unless:
  bool keep_input = false;  ///< it stays open until close_input().
  std::string output_path;  ///< Standard output goes to this file instead of into Ended::output.
};

/// How a process ended, and all it said.
struct Ended {
  int status = -1;  ///< Exit status; -1 when a signal ended it.
  int signal = 0;   ///< The signal that ended it; 0: none.
  std::string output;
  std::string errors;
};

/// A running program. Its streams are pumped by a thread of its own, so several can be chained
/// and none blocks. Destruction kills it (by its pid) and reaps it: no test leaves one behind.
class Subprocess {
 public:
  using Wait = std::chrono::nanoseconds;
  static constexpr Wait kLong = std::chrono::seconds(60);  ///< For what should not take long.

  /// Starts it; throws std::runtime_error when there is no such program.
  explicit Subprocess(const Command& command);
  Subprocess(Subprocess&&) noexcept;
  Subprocess& operator=(Subprocess&&) noexcept;
  ~Subprocess();

  [[nodiscard]] int pid() const noexcept;
  void write_input(std::string_view bytes);  ///< Queues; needs keep_input.
  void close_input();
  void signal(int number) const;  ///< To this pid only; after SIGSTOP it stands still.

  /// Waits until its output (or errors) contains `text`; false after `limit` or when it ended.
  [[nodiscard]] bool wait_output(std::string_view text, Wait limit = kLong);
  [[nodiscard]] bool wait_errors(std::string_view text, Wait limit = kLong);

  /// Waits for its end; nothing when it is still running after `limit`. Callable again.
  [[nodiscard]] std::optional<Ended> wait(Wait limit = kLong);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Starts it and waits for its end; one that outlives `limit` is killed and reported as SIGKILLed.
[[nodiscard]] Ended run(const Command& command, Subprocess::Wait limit = Subprocess::kLong);

/// A fresh folder (mode 0700) that goes away with everything in it.
class ScratchDirectory {
 public:
  ScratchDirectory();
  ~ScratchDirectory();
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] std::string file(std::string_view name) const;  ///< path()/name
  [[nodiscard]] std::vector<std::string> entries() const;       ///< Names in it, sorted.

 private:
  std::string path_;
};

/// Asks `condition` every few milliseconds until it holds; false after `limit`.
template <class Condition>
[[nodiscard]] bool eventually(Condition condition, Subprocess::Wait limit = Subprocess::kLong);

}  // namespace gantry::test

#include <thread>

template <class Condition>
bool gantry::test::eventually(Condition condition, Subprocess::Wait limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}
