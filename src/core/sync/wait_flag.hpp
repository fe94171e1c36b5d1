#pragma once  // sync/wait_flag.hpp: sleeping without missing the wake-up, across a trust border.

#include <atomic>
#include <cstdint>

namespace gantry {

// The sleeper S looks at a word W of the other side O (a ring's sequence, say) and sleeps on a
// descriptor. O changes W and must ring the descriptor if S sleeps or is about to.
//   S: intent odd [D1]; read W [D2]; nothing there: sleep        O: write W [D3]; read intent [D4]
// All four are seq_cst, or D3 is a release store with a seq_cst fence behind it
// (ordered_store.hpp), which takes its place. In their single order either D3 precedes D2 and S
// sees the change, or D1 precedes D4 and O rings. The ring is sticky (base/wake.hpp), so ringing
// early is harmless.
//   I1  The intent's count only grows: odd while S means to sleep, even otherwise. Each sleep has
//       its own odd number, so O rings once a sleep however often it changes W.
//   I2  A quiet change of W rings nobody who sleeps for urgent ones only. Who does so needs no
//   quiet
//       one: before S does, it announces a sleep for all, and looks at W.

/// What a sleeper is rung for.
enum class Hears : std::uint32_t { all = 0, urgent = 1u << 31 };
/// How a change of W is.
enum class Urgency : std::uint8_t { urgent, quiet };

/// S's word, in S's memory; O maps it read-only.
class WaitFlag {
 public:
  void announce(Hears hears = Hears::all) noexcept { move_to_odd(hears); }
  void withdraw() noexcept {
    // Relaxed: a late reader rings once too often, which is harmless.
    intent_.store(next(), std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint32_t read() const noexcept {
    return intent_.load(std::memory_order_seq_cst);  // [D4]
  }

 private:
  static constexpr std::uint32_t kHears = static_cast<std::uint32_t>(Hears::urgent);

  void move_to_odd(Hears hears) noexcept {
    intent_.store(next() | static_cast<std::uint32_t>(hears), std::memory_order_seq_cst);  // [D1]
  }
  [[nodiscard]] std::uint32_t next() const noexcept {
    return (intent_.load(std::memory_order_relaxed) + 1) & ~kHears;  // own word
  }
  std::atomic<std::uint32_t> intent_{0};  // the count, and what S hears
};

/// O's memory of the sleep it has rung for. Any thread.
class WakeFilter {
 public:
  /// True once for each sleep. Call it after the word W was written [D3].
  [[nodiscard]] bool must_wake(const WaitFlag& sleeper,
                               Urgency urgency = Urgency::urgent) noexcept {
    const std::uint32_t intent = sleeper.read();
    if ((intent & 1u) == 0) return false;
    if (urgency == Urgency::quiet && (intent & static_cast<std::uint32_t>(Hears::urgent)) != 0)
      return false;  // I2
    // Relaxed: it does not matter which of two threads rings; their order with W is [D3].
    return last_.exchange(intent, std::memory_order_relaxed) != intent;
  }

 private:
  std::atomic<std::uint32_t> last_{0};
};

}  // namespace gantry
