#pragma once  // oracle/scenario.hpp: what is drawn from a seed.

#include <gantry/channel.hpp>
#include <vector>

#include "oracle/board.hpp"

namespace gantry::oracle {

/// A sequence of random numbers that is the same everywhere for the same words.
class Dice {
 public:
  explicit Dice(std::uint64_t seed, std::uint64_t a = 0, std::uint64_t b = 0) noexcept
      : state_(mix(mix(mix(seed) + a) + b)) {}
  std::uint64_t next() noexcept { return mix(state_++); }
  /// From 0 to `most`.
  std::uint64_t up_to(std::uint64_t most) noexcept { return next() % (most + 1); }
  std::uint64_t between(std::uint64_t least, std::uint64_t most) noexcept {
    return least + up_to(most - least);
  }
  bool chance(unsigned percent) noexcept { return next() % 100 < percent; }
  template <class T>
  T any_of(std::initializer_list<T> all) noexcept {
    return all.begin()[up_to(all.size() - 1)];
  }

 private:
  static std::uint64_t mix(std::uint64_t z) noexcept {  // splitmix64
    z += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
  }
  std::uint64_t state_;
};

/// What a scenario is drawn to look at. Everything else is drawn all the same.
enum class Theme { any, cut, relay, fork, successor, halfway, inbox, calls, queue, looks, late };
inline constexpr std::array kThemeNames{"any",   "cut",   "relay", "fork",  "successor", "halfway",
                                        "inbox", "calls", "queue", "looks", "late"};
[[nodiscard]] Theme theme_of(std::uint64_t seed) noexcept;

enum class Play { produce, consume, relay, inbox, deliver, serve, call, keep, put, work };
inline constexpr std::array kPlayNames{"produce", "consume", "relay", "inbox", "deliver",
                                       "serve",   "call",    "keep",  "put",   "work"};

/// How a consumer takes messages.
enum class Take { whole, early, copied, any, looked };

/// One process, and its next life when it ends early.
struct Role {
  Play play = Play::produce;
  unsigned channel = 0;  ///< The one it sends to, or receives from; 1: behind a relay.
  unsigned stream = 0;
  std::uint64_t starts_us = 0;
  unsigned messages = 0;  ///< To be sent, or calls to be made, in each life.
  unsigned lives = 8;     ///< At most; a kill in the last one does not happen.

  // Sending ends
  unsigned hurried = 0;       ///< Percent of calls with a deadline of up to 2 ms.
  unsigned forks = 0;         ///< So many copies of the process drop their handles late.
  bool drops_handle = false;  ///< Ends without close(), in all lives but the last.
  // Receiving ends
  SlowConsumer policy = SlowConsumer::block;
  unsigned depth = 0;
  Take take = Take::whole;
  unsigned holds = 0;         ///< Messages in hand at most, by its own will.
  std::uint64_t lags_us = 0;  ///< Between two messages, at most.
  bool is_by_hand = false;    ///< Items of a queue are acknowledged when they are done.
  unsigned leaves = 0;        ///< In a thousand messages: leaves, and comes again.
  // All
  unsigned max_descriptors = 0;  ///< RLIMIT_NOFILE; 0: as it is.
  Bytes max_more_memory = 0;     ///< RLIMIT_AS, beyond what it has; 0: as it is.
};

/// A signal to a role. SIGSTOP is followed by SIGCONT.
struct Blow {
  std::uint64_t at_us = 0;
  unsigned role = 0;
  int signal = 0;
  std::uint64_t lasts_us = 0;
};

struct Scenario {
  std::uint64_t seed = 0;
  Theme theme = Theme::any;
  ProducerOptions options;  ///< Without a directory.
  std::string engine;
  Bytes largest = 0;
  bool is_streamed_mostly = false;
  bool is_timeless = false;     ///< Time is virtual (tests/orders): nobody looks up in between.
  bool is_one_process = false;  ///< All roles are threads of one process (tests/orders).
  std::vector<Role> roles;
  std::vector<Blow> blows;

  /// Of a message's whole payload, known to both ends.
  [[nodiscard]] Bytes size_of(Id id) const noexcept;
  /// Loss and refusals for want of descriptors or memory are to be expected.
  [[nodiscard]] bool is_starved() const noexcept;
};

[[nodiscard]] Scenario draw(std::uint64_t seed, bool kills = true);
[[nodiscard]] std::string describe(const Scenario& scenario);

}  // namespace gantry::oracle
