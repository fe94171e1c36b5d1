#pragma once  // fault/roles.hpp: what each process of a run does.

#include "fault/run.hpp"

namespace gantry::fault {

using Role = void (*)(const Part& part);

struct Roles {
  Role victim;
  Role survivor;   ///< At the other end; the worker itself.
  Role other;      ///< Beside the victim or the survivor; null: there is none.
  Role successor;  ///< Begins when the victim has ended.
};
[[nodiscard]] Roles roles_of(const Scenario& scenario, Victim victim) noexcept;

}  // namespace gantry::fault
