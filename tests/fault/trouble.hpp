#pragma once  // fault/trouble.hpp: what the processes of one run know of each other.

#include <unistd.h>

#include <array>
#include <cstdio>
#include <memory>
#include <string>

#include "fault/arm.hpp"
#include "fault/broken_property.hpp"
#include "fault/scenario.hpp"

namespace gantry::fault {

/// In memory that all processes of a run share; written anew for each.
struct Board {
  FaultCounts victim;
  std::atomic<bool> victim_finished{false};       ///< It came to its regular end.
  std::atomic<std::uint64_t> victim_sent{0};      ///< The newest message whose send succeeded.
  std::atomic<std::uint64_t> victim_received{0};  ///< Bits: what was put into the victim's hand.
  std::atomic<std::uint64_t> late_ns{0};  ///< From being struck to the first survivor's being told.
  std::atomic<std::uint64_t> stops{0};    ///< Times that somebody found it stopped.
  std::atomic<bool> opens_again{false};   ///< The second burst has a stream of its own.
  std::atomic<bool> has_trouble{false};
  std::array<char, 400> trouble{};

  void clear() noexcept {
    victim.clear();
    victim_finished = false;
    victim_sent = victim_received = late_ns = stops = 0;
    opens_again = has_trouble = false;
  }
  /// The first counts.
  void report(std::string_view who, const char* what) noexcept {
    if (has_trouble.exchange(true)) return;
    std::snprintf(trouble.data(), trouble.size(), "%.*s: %s", static_cast<int>(who.size()),
                  who.data(), what);
  }
};

inline constexpr std::string_view kOther = "the other one";

// Part::sender
inline constexpr std::uint64_t kVictimSender = 1, kOtherSender = 2, kThirdSender = 3;

/// Of Board::victim_received: of that sender's first burst; later messages have none.
[[nodiscard]] constexpr std::uint64_t bit_of(std::uint64_t sender, std::uint64_t id) noexcept {
  return id <= kBurst ? std::uint64_t{1} << ((sender - 1) * 16 + id) : 0;
}

/// What one role of a run is told.
struct Part {
  const Scenario& scenario;
  const std::string& directory;
  std::shared_ptr<Engine> engine;
  Board& board;
  std::string_view who;
  std::uint64_t sender = 0;  ///< Among many at one inbox or server, in all it says. 0: alone.
  bool is_victim = false;
  bool may_stop = false;  ///< The victim is stopped, not killed: nobody is gone.
  int victim = -1;        ///< A pidfd of it; -1 in itself.
  pid_t victim_pid = 0;
  int report = -1;  ///< Where the victim says that it received the first burst. Not read.
  int gate = -1;    ///< Backlog: the first messages were sent.
  int joined = -1;  ///< Where a successor says that it has joined.
};

}  // namespace gantry::fault
