#include "run/process/leftovers.hpp"

#include <signal.h>
#include <sys/prctl.h>

#include <algorithm>
#include <chrono>

#include "run/process/guard.hpp"
#include "run/process/processes.hpp"

namespace gantry::run {
namespace {

std::vector<ProcessFacts> adopted(const std::vector<ProcessFacts>& strangers) {
  std::vector<ProcessFacts> children = own_children();
  std::erase_if(children, [&](const ProcessFacts& child) {
    return std::ranges::count(strangers, child.pid, &ProcessFacts::pid) != 0;
  });
  return children;
}

/// The guard of a runner that was killed, an agent's for instance, ends by itself. It must not be
/// killed while it removes that one's run directory. True: it has ended.
bool has_cleaned_up(const ProcessFacts& child, Deadline until) {
  return Guard::is_one(child.pid) && reap_child(child.pid, until) != 0;
}

}  // namespace

Adoption::Adoption() noexcept {
  ::prctl(PR_GET_CHILD_SUBREAPER, &before_);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
}

Adoption::~Adoption() {
  ::prctl(PR_SET_CHILD_SUBREAPER, before_);
}

Leftovers end_leftovers(const std::vector<ProcessFacts>& strangers) {
  // Each round ends one generation. A family that forks faster than that, and a process that cannot
  // be killed, are given up.
  const Deadline until = Deadline::after(std::chrono::seconds(1));
  Leftovers found;
  for (auto children = adopted(strangers); !children.empty(); children = adopted(strangers)) {
    found.remain.clear();
    std::erase_if(children,
                  [&](const ProcessFacts& child) { return has_cleaned_up(child, until); });
    for (const ProcessFacts& child : children) ::kill(child.pid, SIGKILL);
    for (const ProcessFacts& child : children) {
      if (reap_child(child.pid, until) == 0)
        found.remain.push_back(child.pid);
      else
        found.ended += child.dead ? 0 : 1;
    }
    if (until.passed()) break;
  }
  return found;
}

}  // namespace gantry::run
