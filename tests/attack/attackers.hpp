#pragma once  // attack/attackers.hpp: processes that do what they can with a channel's socket.

#include <atomic>
#include <span>
#include <string>
#include <string_view>

namespace gantry::attack {

/// Whom it is made for: a producer's readers, an inbox's senders, a server's clients.
enum class Target { producer, inbox, server };

struct Attack {
  std::string_view name;
  Target target;
  /// Goes on until it is killed. `directory`: where the socket "frames.sock" is.
  void (*run)(const std::string& directory);
  unsigned blows = 1;        ///< So many, and it is well under way.
  bool is_admitted = false;  ///< It is a reader, a sender or a client, with a share of its own.
};

[[nodiscard]] std::span<const Attack> all_attacks();
/// Those whose rate is held, for attack_bench alone: what they take depends on the rate.
[[nodiscard]] std::span<const Attack> paced_attacks();

/// In the attacking process: where its blows are counted, and that one has fallen.
void count_blows(std::atomic<unsigned>& counter) noexcept;
void note_blow() noexcept;

}  // namespace gantry::attack
