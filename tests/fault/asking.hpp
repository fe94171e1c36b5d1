#pragma once  // fault/asking.hpp: what a client and its server agree on.

#include <gantry/call.hpp>

#include "fault/payload.hpp"
#include "fault/trouble.hpp"

namespace gantry::fault {

/// What becomes of a call.
enum class Ask { answered, cancelled, hurried, refused, dropped, loaned };

/// 1 to kBurst, in either burst.
[[nodiscard]] constexpr std::uint64_t place_of(std::uint64_t id) noexcept {
  return id < kSecondBurst ? id : id - kSecondBurst + 1;
}

/// The last of a burst is always answered.
[[nodiscard]] constexpr Ask ask_of(const Scenario& scenario, std::uint64_t id) noexcept {
  constexpr std::array kInTurn{Ask::answered, Ask::cancelled, Ask::hurried,
                               Ask::refused,  Ask::dropped,   Ask::loaned};
  const std::uint64_t place = place_of(id) - 1;
  return scenario.mixed && place < kInTurn.size() ? kInTurn[place] : Ask::answered;
}

/// The number of the answer to request `number`.
[[nodiscard]] constexpr std::uint64_t answer_to(std::uint64_t number) noexcept {
  return number | std::uint64_t{1} << 40;
}

[[nodiscard]] inline ClientOptions calling_options(const Part& part) {
  ClientOptions options;
  options.directory = part.directory;
  options.spin = std::chrono::nanoseconds(0);
  options.pool.slab_bytes = Bytes{512} << 10;
  options.mode = part.scenario.mode;
  // Few, so that ends wait for credits; but a refusal waits for none, and who waits for one of a
  // process that is stopped does not look after it.
  options.slots = part.scenario.mixed || part.may_stop ? 8 : 2;
  return options;
}

}  // namespace gantry::fault
