#pragma once  // fault/run.hpp: one run: processes of every role, one of them struck.

#include "fault/trouble.hpp"

namespace gantry::fault {

/// Which end is struck: who sends or asks, or who receives or answers.
enum class Victim : std::uint8_t { producer, consumer };
/// What it is called: a client is a producer, an inbox or a server a consumer.
[[nodiscard]] std::string_view role_name(const Scenario& scenario, Victim victim) noexcept;

struct Run {
  std::size_t scenario = 0;  ///< In kScenarios.
  Victim victim = Victim::producer;
  Arm arm;
};

/// Runs it with this process as survivor. Everything that must hold is checked: what survivors are
/// told, what is received, that the successor takes the victim's place, and that nothing is left.
/// Needs a process of one thread. Throws Trouble; the processes of the run have ended in any case.
void run(const Run& run, const std::string& directory, std::shared_ptr<Engine> engine,
         Board& board);

}  // namespace gantry::fault
