#pragma once  // oracle/conductor.hpp: plays one scenario and says what was wrong.

#include "oracle/scenario.hpp"

namespace gantry::oracle {

/// Empty: all held, or it was broken off. In a process without other threads; every process that it
/// starts has ended.
[[nodiscard]] std::string conduct(const Scenario& scenario, const Pulse& pulse);

/// What the logs of all receivers say together: order, gaps, duplicates, loss. Throws Trouble.
void judge(const Scenario& scenario, Board& board);
/// What the newest sessions were handed last, and how they ended. For people.
[[nodiscard]] std::string describe_sessions(const Board& board);

}  // namespace gantry::oracle
