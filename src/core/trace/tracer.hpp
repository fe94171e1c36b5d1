#pragma once  // trace/tracer.hpp: whether anybody records what this process does.

#include <atomic>
#include <chrono>
#include <memory>
#include <string>

#include "core/base/os/fd.hpp"
#include "core/trace/ring_file.hpp"

namespace gantry::trace {

// One of the few things that belong to the process and not to a runtime: the question "does anybody
// record?" stands in the way of every message, where there is room for one load of one place.
namespace detail {
extern std::atomic<bool> is_on;                    // somebody records in one of our directories
extern std::atomic<std::uint64_t> next_look;       // ticks
void slow_look(std::uint64_t ticks) noexcept;      // asks the directories
extern std::atomic<std::int64_t> next_timed_look;  // nanoseconds of CLOCK_MONOTONIC
void slow_timed_look(std::int64_t now_ns) noexcept;
extern std::atomic<bool> has_own;  // see Scope::keep_own()
void slow_keep_own() noexcept;
}  // namespace detail

/// Relaxed: what is recorded then is checked by EndTrace.
[[nodiscard]] inline bool is_on() noexcept {
  return detail::is_on.load(std::memory_order_relaxed);
}

/// Called where the time was read anyhow: now and then it looks whether somebody records, or does
/// not any more.
inline void look(std::uint64_t ticks) noexcept {
  const std::uint64_t due = detail::next_look.load(std::memory_order_relaxed);
  if (static_cast<std::int64_t>(ticks - due) >= 0) [[unlikely]]
    detail::slow_look(ticks);
}

/// The same where that clock was read.
inline void look(std::chrono::steady_clock::time_point now) noexcept {
  const std::int64_t now_ns = std::chrono::nanoseconds(now.time_since_epoch()).count();
  if (now_ns >= detail::next_timed_look.load(std::memory_order_relaxed)) [[unlikely]]
    detail::slow_timed_look(now_ns);
}

/// The time where a message is timed; what look() is for.
[[nodiscard]] inline std::uint64_t ticks_and_look() noexcept {
  const std::uint64_t ticks = read_ticks();
  look(ticks);
  return ticks;
}

/// A runtime directory in which this process has ends.
class Scope {
 public:
  explicit Scope(std::string directory);
  /// That of this directory; looks at it at once. Ends keep it.
  [[nodiscard]] static std::shared_ptr<Scope> of(const std::string& directory);
  /// Has the process look into its environment's directory from now on, whether it has ends or not.
  static void keep_own() noexcept {
    // Relaxed: who does not see it yet does what was done already.
    if (!detail::has_own.load(std::memory_order_relaxed)) [[unlikely]]
      detail::slow_keep_own();
  }
  /// One in which somebody records; null: there is none.
  [[nodiscard]] static std::shared_ptr<Scope> any_on() noexcept;

  /// The recording's number; 0: nobody records.
  [[nodiscard]] std::uint64_t run() const noexcept { return run_.load(std::memory_order_acquire); }
  /// Of each ring.
  [[nodiscard]] std::uint32_t events() const noexcept {
    return events_.load(std::memory_order_relaxed);  // run() is read first
  }
  /// The folder for rings. Errors: it is gone, or not ours.
  [[nodiscard]] Result<Fd> open_folder() const;
  void look() noexcept;  ///< Any thread.
  [[nodiscard]] const std::string& directory() const noexcept { return directory_; }

 private:
  std::string directory_;
  std::string folder_;  // in it
  std::atomic<std::uint64_t> run_{0};
  std::atomic<std::uint32_t> events_{0};
};

/// What stands in the folder's control file; without a run if that makes no sense.
[[nodiscard]] Control control_in(int folder) noexcept;

/// DIRECTORY/trace, which must belong to this user and to nobody else.
[[nodiscard]] Result<Fd> open_trace_folder(const std::string& directory);

}  // namespace gantry::trace
