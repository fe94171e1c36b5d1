#pragma once  // oracle/board.hpp: what the processes of one scenario write down, in memory they
              // share.

#include <array>
#include <atomic>
#include <cstdint>
#include <gantry/types.hpp>

#include "oracle/payload.hpp"

namespace gantry::oracle {

inline constexpr unsigned kMaxMessages = 1024;  ///< Of one life of a sender.
inline constexpr unsigned kMaxRoles = 12;
inline constexpr unsigned kMaxLogs = 4096;

/// What a sender knows of a message.
enum class Fate : std::uint8_t {
  none,
  attempted,  ///< The call did not return: the sender was killed, or it has not yet.
  sent,       ///< It said success.
  refused,    ///< It said that it was not sent.
};

/// How a session of a receiver ended.
enum class End : std::uint8_t {
  unknown,  ///< It was killed.
  closed,
  gone,  ///< `peer_gone`
  left,  ///< By itself, maybe with messages unread.
  /// By itself after a call that timed out: it may have had the beginning of a message in hand.
  left_waiting,
};

/// One join of one receiver, and what it was handed since. Written by that receiver alone, read
/// when it has ended.
struct Log {
  static constexpr std::uint64_t kWhole = std::uint64_t{1} << 32;  // else its beginning
  static constexpr std::uint64_t kDone = std::uint64_t{1} << 33;   // of a queue: acknowledged
  static constexpr unsigned kTriesBit = 40;                        // of a queue: so many tries
  static constexpr unsigned kMost = 16 * kMaxMessages;

  std::atomic<std::uint32_t> count{0};
  std::atomic<std::uint8_t> role{0};
  std::atomic<End> end{End::unknown};
  std::atomic<std::uint8_t> batch{0};  ///< Places of the receive_batch() that it is in.
  std::array<char, 800> why{};         ///< The errors that ended it, or sessions of it. For people.
  std::array<std::atomic<std::uint64_t>, kMost> entries{};  // Id::pack(), and kWhole
};

/// How one role stands. Written by the process that plays it, but for `stopped_ns`.
struct Desk {
  std::atomic<std::uint64_t> stopped_ns{0};  ///< How long it was held by SIGSTOP so far.
  std::atomic<unsigned> kills{0};
  std::atomic<bool> was_orderly{false};      ///< Its newest life has given all back by itself.
  std::atomic<bool> will_come_again{false};  ///< It ended by itself, and has another life.
  std::array<char, 64> doing{};              ///< The call it is in. For people.
};

/// Fresh pages are a board: all zeros, as its members are initialised.
struct Board {
  std::atomic<bool> has_failed{false};
  std::array<char, 1000> failure{};
  std::atomic<std::uint32_t> logs_used{0};
  std::array<std::atomic<bool>, 2> is_over{};  ///< Nobody sends on that channel any more.
  std::array<std::array<std::atomic<bool>, 8>, 8> was_closed{};  ///< That close() said success.
  std::array<Desk, kMaxRoles> desks;
  std::array<std::array<std::array<std::atomic<Fate>, kMaxMessages>, 8>, 8> fates{};
  std::array<Log, kMaxLogs> logs;

  [[nodiscard]] std::atomic<Fate>& fate(Id id) noexcept {
    return fates[id.stream % Id::kReply % 8][id.epoch % 8][id.number % kMaxMessages];
  }
  [[nodiscard]] std::atomic<bool>& closed(Id id) noexcept {
    return was_closed[id.stream % 8][id.epoch % 8];
  }
  /// The first counts.
  void fail(const std::string& what) noexcept;
};

/// In memory that all scenarios share: how long the machine stood still, and the end of all.
struct Pulse {
  std::atomic<std::uint64_t> stalled_ns{0};
  std::atomic<std::uint64_t> beats{0};
  std::atomic<bool> is_over{false};  ///< Set by Ctrl-C: scenarios are broken off.
  /// Returns when what came before this call has been noticed.
  void await_beat() const noexcept;
};

}  // namespace gantry::oracle
