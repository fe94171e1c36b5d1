#pragma once  // fault/scenario.hpp: the kinds of traffic under which processes are struck.

#include <algorithm>
#include <array>
#include <gantry/channel.hpp>

#include "core/channel/producer/mode_choice.hpp"

namespace gantry::fault {

/// How messages are sent, and how they are received.
enum class Via { send, async, loan, move, parts, forward };
enum class Take { whole, early, copied, looked };
/// Who comes to whom: consumers to a producer; producers to an inbox; clients to a server.
enum class Pattern { channel, inbox, calls };

struct Scenario {
  std::string_view name;
  Bytes bytes;  ///< Of a message: so many, or up to twice that.
  SendMode mode = SendMode::whole;
  Pattern pattern = Pattern::channel;
  Via via = Via::send;
  Take take = Take::whole;
  unsigned consumers = 1;
  unsigned history = 0;
  bool backlog = false;   ///< The first messages are sent before anybody joins.
  bool gives_up = false;  ///< Every third message cannot be read by its sender half-way.
  /// Of all consumers but the other one, which blocks.
  SlowConsumer policy = SlowConsumer::block;
  bool widened = false;  ///< Each byte becomes two on the way: the channel's `as`.
  bool lags = false;     ///< It takes nothing until the first burst was sent.
  unsigned depth = 0;
  bool mixed = false;     ///< Of calls: some are cancelled, refused, dropped, or have little time.
  bool outlives = false;  ///< Its last message is held for a moment after its consumer has gone.
  bool awaits = false;    ///< Inboxes, servers and clients wait in coroutines.

  [[nodiscard]] constexpr bool is_lossy() const noexcept { return policy != SlowConsumer::block; }
};

// `spin` is zero in all of them, so that ends go to sleep and must be woken; credits are few.
inline constexpr std::array kScenarios{
    Scenario{.name = "small", .bytes = 32},
    Scenario{.name = "small-async", .bytes = 32, .via = Via::async},
    Scenario{.name = "small-early", .bytes = 32, .take = Take::early},
    Scenario{.name = "beside", .bytes = 1500, .consumers = 2},
    Scenario{.name = "beside-looked", .bytes = 1500, .take = Take::looked, .backlog = true},
    Scenario{.name = "beside-looked-fan-out", .bytes = 1500, .take = Take::looked, .consumers = 2},
    Scenario{.name = "whole", .bytes = 4096},
    Scenario{.name = "whole-looked", .bytes = 20'000, .take = Take::looked},
    Scenario{.name = "whole-outliving", .bytes = 4096, .outlives = true},
    Scenario{.name = "whole-async", .bytes = 20'000, .via = Via::async},
    Scenario{.name = "whole-copied", .bytes = 20'000, .take = Take::copied},
    Scenario{.name = "pipelined", .bytes = 50'000, .mode = SendMode::pipelined},
    Scenario{
        .name = "pipelined-async", .bytes = 50'000, .mode = SendMode::pipelined, .via = Via::async},
    Scenario{.name = "pipelined-early",
             .bytes = 50'000,
             .mode = SendMode::pipelined,
             .take = Take::early},
    Scenario{.name = "pipelined-given-up",
             .bytes = 50'000,
             .mode = SendMode::pipelined,
             .gives_up = true},
    Scenario{.name = "streamed", .bytes = 300'000, .mode = SendMode::streamed},
    Scenario{.name = "streamed-async",
             .bytes = 300'000,
             .mode = SendMode::streamed,
             .via = Via::async,
             .take = Take::copied},
    Scenario{.name = "streamed-early",
             .bytes = 300'000,
             .mode = SendMode::streamed,
             .take = Take::early},
    Scenario{.name = "as", .bytes = 4096, .widened = true},
    Scenario{.name = "as-pipelined-early",
             .bytes = 50'000,
             .mode = SendMode::pipelined,
             .take = Take::early,
             .consumers = 2,
             .widened = true},
    Scenario{.name = "as-streamed",
             .bytes = 300'000,
             .mode = SendMode::streamed,
             .via = Via::async,
             .take = Take::copied,
             .widened = true},
    Scenario{.name = "as-given-up",
             .bytes = 50'000,
             .mode = SendMode::pipelined,
             .gives_up = true,
             .widened = true},
    Scenario{.name = "as-loan", .bytes = 8000, .via = Via::loan, .widened = true},
    Scenario{.name = "loan", .bytes = 8000, .via = Via::loan},
    Scenario{.name = "move", .bytes = 8000, .via = Via::move},
    Scenario{.name = "segments", .bytes = 60'000, .mode = SendMode::pipelined, .via = Via::parts},
    Scenario{.name = "segments-whole", .bytes = 9000, .via = Via::parts},
    Scenario{.name = "forward", .bytes = 8000, .via = Via::forward},
    Scenario{.name = "backlog", .bytes = 4096, .backlog = true},
    Scenario{.name = "fan-out", .bytes = 4096, .consumers = 2, .history = 2},
    Scenario{.name = "fan-out-small", .bytes = 32, .consumers = 2},
    Scenario{.name = "fan-out-pipelined",
             .bytes = 50'000,
             .mode = SendMode::pipelined,
             .via = Via::async,
             .take = Take::early,
             .consumers = 2},
    Scenario{
        .name = "fan-out-streamed", .bytes = 300'000, .mode = SendMode::streamed, .consumers = 2},
    Scenario{
        .name = "newest-dropped", .bytes = 4096, .policy = SlowConsumer::drop_newest, .lags = true},
    Scenario{.name = "newest-dropped-fan-out",
             .bytes = 4096,
             .consumers = 2,
             .policy = SlowConsumer::drop_newest,
             .depth = 1},
    Scenario{
        .name = "oldest-dropped", .bytes = 4096, .policy = SlowConsumer::drop_oldest, .lags = true},
    Scenario{.name = "oldest-dropped-small",
             .bytes = 32,
             .policy = SlowConsumer::drop_oldest,
             .depth = 1},
    Scenario{.name = "oldest-dropped-racing",
             .bytes = 4096,
             .policy = SlowConsumer::drop_oldest,
             .depth = 1},
    Scenario{.name = "oldest-dropped-early",
             .bytes = 50'000,
             .mode = SendMode::pipelined,
             .via = Via::async,
             .take = Take::early,
             .policy = SlowConsumer::drop_oldest,
             .depth = 2},
    Scenario{.name = "oldest-dropped-backlog",
             .bytes = 4096,
             .backlog = true,
             .policy = SlowConsumer::drop_oldest,
             .depth = 1},
    Scenario{.name = "oldest-dropped-fan-out",
             .bytes = 4096,
             .consumers = 2,
             .history = 2,
             .policy = SlowConsumer::drop_oldest,
             .lags = true,
             .depth = 1},
    Scenario{.name = "oldest-dropped-fan-out-racing",
             .bytes = 300'000,
             .mode = SendMode::streamed,
             .take = Take::copied,
             .consumers = 2,
             .policy = SlowConsumer::drop_oldest,
             .depth = 1},
    Scenario{.name = "inbox-small", .bytes = 32, .pattern = Pattern::inbox},
    Scenario{.name = "inbox", .bytes = 4096, .pattern = Pattern::inbox},
    Scenario{.name = "inbox-pipelined",
             .bytes = 50'000,
             .mode = SendMode::pipelined,
             .pattern = Pattern::inbox},
    Scenario{.name = "inbox-awaited", .bytes = 4096, .pattern = Pattern::inbox, .awaits = true},
    Scenario{.name = "calls-small", .bytes = 32, .pattern = Pattern::calls},
    Scenario{.name = "calls", .bytes = 4096, .pattern = Pattern::calls},
    Scenario{.name = "calls-pipelined",
             .bytes = 50'000,
             .mode = SendMode::pipelined,
             .pattern = Pattern::calls},
    Scenario{.name = "calls-mixed", .bytes = 4096, .pattern = Pattern::calls, .mixed = true},
    Scenario{.name = "calls-awaited",
             .bytes = 4096,
             .pattern = Pattern::calls,
             .mixed = true,
             .awaits = true},
};
static_assert(std::ranges::all_of(kScenarios,
                                  [](const Scenario& scenario) {
                                    return scenario.mode != SendMode::streamed ||
                                           window_of(scenario.bytes) < scenario.bytes;
                                  }),
              "a streamed message waits for its window");

/// Messages of a burst, and how they are numbered: the first is what goes on while a process is
/// struck, the second what its successor must go through with whole.
inline constexpr std::uint64_t kBurst = 7;
inline constexpr std::uint64_t kSecondBurst = 101;
inline constexpr std::uint64_t kEarlyMessages = 2;  // of a backlog; below the credits

[[nodiscard]] constexpr Bytes payload_bytes(const Scenario& scenario, std::uint64_t id) noexcept {
  const Bytes more =
      scenario.bytes <= Message::kInlineBytes ? id % 4 * 8 : id % 5 * scenario.bytes / 5;
  return (scenario.bytes + more) / 8 * 8;
}
[[nodiscard]] constexpr bool is_given_up(const Scenario& scenario, std::uint64_t id) noexcept {
  return scenario.gives_up && id % 3 == 2;
}

}  // namespace gantry::fault
