#pragma once  // bench/ipc/shared_memory.hpp: hand-made shared memory, without any of Gantry.

#include <sched.h>

#include <atomic>

#include "../support/system/mapping.hpp"
#include "../support/system/posix.hpp"

namespace gantry::bench {

/// A number in a cache line of its own.
struct alignas(64) Flag {
  std::atomic<std::uint64_t> number{0};
  std::uint64_t sum = 0;  ///< Travels with the number, in its line: written before that is raised.
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);  // a lock would be per process

constexpr unsigned kPollsPerYield = 1 << 16;

/// Polls until `flag` is `number`. [F] Acquires what its writer did before. Lets others run now
/// and then: on a CPU that is not ours alone the flag would never change otherwise.
inline void await(const Flag& flag, std::uint64_t number) noexcept {
  for (unsigned polls = 1; flag.number.load(std::memory_order_acquire) != number; ++polls) {
    if (polls % kPollsPerYield == 0) ::sched_yield();
  }
}

/// The same until it is at least `number`: its writer may be ahead. Lets others run after so many
/// polls.
inline void await_at_least(const Flag& flag, std::uint64_t number, unsigned yields_after) noexcept {
  for (unsigned polls = 1; flag.number.load(std::memory_order_acquire) < number; ++polls) {
    if (polls % yields_after == 0) ::sched_yield();
  }
}

/// [F] Releases what was done before to whoever awaits `number`.
inline void raise(Flag& flag, std::uint64_t number) noexcept {
  flag.number.store(number, std::memory_order_release);
}

}  // namespace gantry::bench
