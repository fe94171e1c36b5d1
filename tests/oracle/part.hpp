#pragma once  // oracle/part.hpp: what every role does: call with a deadline, check bytes, give up.

#include <functional>
#include <gantry/runtime.hpp>

#include "fault/broken_property.hpp"
#include "oracle/scenario.hpp"

namespace gantry::oracle {

using fault::Trouble;

[[noreturn]] void give_up(const std::string& what);
[[noreturn]] void give_up(const std::string& what, const Error& error);

[[nodiscard]] std::uint64_t now_ns() noexcept;
void sleep_us(std::uint64_t microseconds) noexcept;

/// Beyond this a call that should have been served has hung. Below the driver's own limit.
inline constexpr std::chrono::milliseconds kPatience{20'000};
/// For calls that look up in between.
inline constexpr std::chrono::milliseconds kLook{50};

/// One life of one role, in its own process.
struct Part {
  const Scenario& scenario;
  const Role& role;
  unsigned index = 0;
  unsigned life = 0;
  const std::string& directory;
  Board& board;
  const Pulse& pulse;
  Runtime& runtime;
  Dice dice;

  [[nodiscard]] Desk& desk() const noexcept { return board.desks[index]; }
  [[nodiscard]] bool is_last_life() const noexcept { return life + 1 >= role.lives; }
  [[nodiscard]] bool is_over(unsigned channel) const noexcept {
    return board.is_over[channel].load(std::memory_order_acquire);
  }
  [[nodiscard]] ProducerOptions producer_options() const;
  [[nodiscard]] ConsumerOptions consumer_options() const;

  /// `call(deadline)` with so much time. It must return by then, whatever it says.
  template <class Call>
  auto timed(const char* name, std::chrono::nanoseconds time, Call call)
      -> decltype(call(Deadline::now())) {
    const Stopwatch watch(*this, name, time);
    auto result = call(Deadline::after(time));
    watch.check();
    if (result) watch.check_woken();
    return result;
  }
  /// What is to be expected of calls where descriptors or memory have been taken away.
  [[nodiscard]] bool is_starvation(const Error& error) const noexcept;

 private:
  class Stopwatch {
   public:
    Stopwatch(Part& part, const char* name, std::chrono::nanoseconds time) noexcept;
    ~Stopwatch();
    Stopwatch(const Stopwatch&) = delete;
    Stopwatch& operator=(const Stopwatch&) = delete;
    void check() const;
    void check_woken() const;  ///< Of a call that says success.

   private:
    Part& part_;
    const char* name_;
    std::chrono::nanoseconds time_;
    std::uint64_t started_, stopped_, stalled_;
  };
};

inline constexpr std::array<const char*, 2> kChannelNames{"frames", "passed-on"};

/// Checks that these are the bytes of `id` from `offset` on.
void check_bytes(ConstByteSpan bytes, Id id, Bytes offset, const char* when);
/// Checks all segments; how many bytes they have.
Bytes check_message(const Message& message, Id id, const char* when);

/// Descriptors and shared mappings of this process.
struct Footprint {
  std::size_t descriptors = 0;
  std::size_t mappings = 0;
  std::size_t events = 0;  // a runtime keeps one for each thread that slept at the same time
  [[nodiscard]] bool is_left_by(const Footprint& before, unsigned runtimes) const noexcept {
    return descriptors == before.descriptors && mappings == before.mappings &&
           events <= before.events + 2 * runtimes;
  }
  [[nodiscard]] static Footprint take();
};
/// It is `before` again soon, but for two events for each of so many runtimes. Throws Trouble.
void check_footprint(const Footprint& before, unsigned runtimes = 1);

/// One life of a role, until it ends; what was wrong is on the board. Its process's exit code.
int perform(const Scenario& scenario, unsigned role, unsigned life, const std::string& directory,
            Board& board, const Pulse& pulse);
/// Nobody sends on a channel any more when all who do have ended for good.
void tell_who_is_over(const Scenario& scenario, Board& board,
                      const std::function<bool(std::size_t role)>& has_finished);
/// "role 1 (consume, life 0)".
[[nodiscard]] std::string name_of(const Scenario& scenario, unsigned role, unsigned life);

// The plays, each in a file of its own.
void produce(Part& part);  // also of inboxes
void consume(Part& part);  // also of inboxes
void relay(Part& part);
void serve(Part& part);
void call(Part& part);
void keep_queue(Part& part);
void put_items(Part& part);
void work(Part& part);

/// A copy of this process runs `late` and ends; it is waited for by reap_copies(). Nothing where
/// sanitizers do not bear a fork of a process with threads.
void fork_copy(Part& part, const std::function<void(Dice&)>& late);
void reap_copies();

}  // namespace gantry::oracle
