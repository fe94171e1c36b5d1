#pragma once  // tools/gantry/run/process/leftovers.hpp: processes that left their stage's group.

#include "run/process/processes.hpp"

namespace gantry::run {

/// Makes orphans below this process its children while it lives, so that they can be found.
class Adoption {
 public:
  Adoption() noexcept;
  ~Adoption();
  Adoption(const Adoption&) = delete;
  Adoption& operator=(const Adoption&) = delete;

 private:
  int before_ = 0;
};

struct Leftovers {
  std::size_t ended = 0;      ///< Processes that still ran.
  std::vector<pid_t> remain;  ///< Processes that could not be ended in time.
};

/// Kills and reaps every child of this process but `strangers`, and the children these leave.
[[nodiscard]] Leftovers end_leftovers(const std::vector<ProcessFacts>& strangers);

}  // namespace gantry::run
