#pragma once  // base/futex.hpp: sleeps on a word of this process until it changes or time is up.

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>
#include <ctime>

namespace gantry {

inline constexpr std::uint64_t kForever = ~std::uint64_t{0};

/// Sleeps while the word is `expected`, until woken, until `until_ns` of the monotonic clock, or
/// for no reason. The caller must look again.
inline void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected,
                       std::uint64_t until_ns = kForever) noexcept {
  timespec until{};
  until.tv_sec = static_cast<time_t>(until_ns / 1'000'000'000u);
  until.tv_nsec = static_cast<long>(until_ns % 1'000'000'000u);
  // The bitset form takes an absolute time, FUTEX_WAIT a relative one.
  ::syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, expected,
            until_ns == kForever ? nullptr : &until, nullptr, FUTEX_BITSET_MATCH_ANY);
}

inline void futex_wake(const std::atomic<std::uint32_t>& word, int count = INT_MAX) noexcept {
  ::syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, count, nullptr, nullptr, 0);
}

}  // namespace gantry
