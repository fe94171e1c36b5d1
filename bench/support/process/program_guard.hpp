#pragma once  // bench/support/process/program_guard.hpp: a helper program that ends with the
              // benchmark, however that ends.

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include "../system/posix.hpp"

namespace gantry::bench {

/// What a guard is to look after.
struct Kept {
  std::vector<std::string> words{};      ///< The program and its arguments; none: names only.
  std::vector<std::string> variables{};  ///< "NAME=value", added to the environment.
  std::string log{};                     ///< File for what the program says.
  std::chrono::milliseconds grace{0};    ///< To end by itself before it is asked to.
  std::vector<std::string> leftovers{};  ///< Files and folders to remove when all is over.
};

/// A process that starts a program, asks it to end (SIGTERM, SIGKILL after five seconds) when this
/// handle is dropped or this process dies in whatever way, and then removes what it leaves.
class ProgramGuard {
 public:
  /// Only while this process has one thread. A program that cannot be started ends at once.
  [[nodiscard]] static Result<ProgramGuard> start(const Kept& kept);
  ProgramGuard(ProgramGuard&& other) noexcept;
  ProgramGuard& operator=(ProgramGuard&&) = delete;
  ~ProgramGuard();

  [[nodiscard]] pid_t program() const noexcept { return program_; }
  /// A pidfd of the guard itself: readable once the program has ended and all is removed.
  [[nodiscard]] int descriptor() const noexcept { return process_.get(); }
  [[nodiscard]] bool has_ended() const noexcept;

 private:
  ProgramGuard(pid_t guard, pid_t program, Descriptor process) noexcept
      : guard_(guard), program_(program), process_(std::move(process)) {}

  pid_t guard_ = -1;
  pid_t program_ = -1;
  Descriptor process_;
};

/// Waits until `log` has `words` in it. Errors: `system` with its last words when the program ends
/// before, or says nothing for 20 s.
[[nodiscard]] Result<void> await_saying(const ProgramGuard& guard, const std::string& log,
                                        const std::string& words);

/// The last line of a log that is not empty; "" when there is none.
[[nodiscard]] std::string last_words(const std::string& log);

}  // namespace gantry::bench
