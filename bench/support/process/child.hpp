#pragma once  // bench/support/process/child.hpp: a forked process of a benchmark, from birth to
              // burial.

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <vector>

#include "link.hpp"

namespace gantry::bench {

/// In place of a CPU: the process runs wherever its parent may.
inline constexpr int kAnyCpu = -1;

/// A process that runs `body` bound to one CPU. It dies with its parent, leaves Ctrl-C to it, and
/// is killed and reaped when this handle is dropped.
class Child {
 public:
  using Body = std::function<void(Link&)>;

  /// `role` names it in messages: "the responder of pipe". Only while this process has one thread.
  [[nodiscard]] static Result<Child> start(std::string role, int cpu, const Body& body);
  Child(Child&& other) noexcept;
  Child& operator=(Child&&) = delete;
  ~Child();

  [[nodiscard]] const std::string& role() const noexcept { return role_; }
  [[nodiscard]] Link& link() noexcept { return link_; }
  [[nodiscard]] pid_t pid() const noexcept { return pid_; }  ///< -1 once it has been reaped.

  /// Kills it and waits until it is gone.
  void end() noexcept;
  /// Waits for its end until `patience` is spent; false when it still lives.
  bool wait(std::chrono::milliseconds patience);
  /// How it ended: "exit status 1", "signal 9 (Killed)". After wait() said true.
  [[nodiscard]] std::string ending() const;
  /// Whether it fell to a signal. After wait() said true.
  [[nodiscard]] bool was_killed() const noexcept;

 private:
  bool wait_without_pidfd(std::chrono::milliseconds patience);
  Child(std::string role, pid_t pid, Descriptor process, Link link) noexcept;

  std::string role_;
  pid_t pid_ = -1;  // -1: reaped
  int status_ = 0;
  Descriptor process_;  // a pidfd: readable once it has ended
  Link link_;
};

/// Waits for the first word of each. Errors: `peer_gone`; `system` with what one says has failed.
[[nodiscard]] Result<void> await_ready(std::vector<Child>& children);

}  // namespace gantry::bench
