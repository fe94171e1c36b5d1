#pragma once  // base/os/thread_urgency.hpp: threads for which somebody waits, and those for which
              // nobody does.

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

namespace gantry {

/// How the kernel schedules a thread; the C library does not have it.
struct ThreadSchedule {
  std::uint32_t size = 0;
  std::uint32_t policy = 0;
  std::uint64_t flags = 0;
  std::int32_t nice = 0;
  std::uint32_t priority = 0;
  std::uint64_t slice_ns = 0;
  std::uint64_t deadline_ns = 0, period_ns = 0;

  /// Of the calling thread.
  static ThreadSchedule now() noexcept {
    ThreadSchedule schedule;
    ::syscall(SYS_sched_getattr, 0, &schedule, sizeof schedule, 0);
    return schedule;
  }
  [[nodiscard]] bool is_usual() const noexcept {
    return size != 0 && (policy == SCHED_OTHER || policy == SCHED_BATCH);
  }
  /// False: it may not.
  bool apply() const noexcept { return ::syscall(SYS_sched_setattr, 0, this, 0) == 0; }
};

/// From now on the calling thread gets a tenth of what others get where they want the same CPU, and
/// all of it where nobody does. Its slices are long (Linux 6.12): the scheduler lets who wakes up
/// begin at once only if that thread's slice is shorter, and if it had no more than its share, of
/// which a lesser weight of those who run makes more. It cannot be taken back without rights.
inline void give_way() noexcept {
  constexpr std::uint64_t kLongestSlice = 100'000'000;
  ThreadSchedule schedule = ThreadSchedule::now();
  if (!schedule.is_usual()) return;
  schedule.nice = std::min(schedule.nice + 10, 19);
  schedule.slice_ns = kLongestSlice;
  schedule.apply();
}

/// Threads that the calling thread starts meanwhile, and those that they start, run before all
/// usual ones, if the process may have that (CAP_SYS_NICE, or RLIMIT_RTPRIO of at least 1). For
/// those that do little and are waited for.
class StartsUrgent {
 public:
  StartsUrgent() noexcept : before_(ThreadSchedule::now()) {
    if (!before_.is_usual()) return;
    ThreadSchedule urgent = before_;
    urgent.policy = SCHED_RR;
    urgent.priority = 1;
    urgent.nice = 0;
    urgent.slice_ns = 0;
    is_changed_ = urgent.apply();
  }
  ~StartsUrgent() {
    if (is_changed_) before_.apply();
  }
  StartsUrgent(const StartsUrgent&) = delete;
  StartsUrgent& operator=(const StartsUrgent&) = delete;

 private:
  const ThreadSchedule before_;
  bool is_changed_ = false;
};

}  // namespace gantry
