#pragma once  // base/fork.hpp: is this still the process in which a thing was made?

namespace gantry {

/// How many fork()s lie between this process and the first that asked. A copy of an object that a
/// fork() made sees another number than its original did: threads, peers and names are not its.
[[nodiscard]] unsigned fork_generation() noexcept;

/// Remembers where it was made. Cheap to ask: one load, no system call.
class MakerProcess {
 public:
  [[nodiscard]] bool is_this() const noexcept { return generation_ == fork_generation(); }

 private:
  unsigned generation_ = fork_generation();
};

}  // namespace gantry
