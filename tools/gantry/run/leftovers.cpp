#include "leftovers.hpp"

#include <signal.h>
#include <sys/prctl.h>

#include <algorithm>
#include <chrono>

#include "processes.hpp"

namespace gantry::run {
namespace {

std::vector<ProcessFacts> adopted(const std::vector<ProcessFacts>& strangers) {
  std::vector<ProcessFacts> children = own_children();
  std::erase_if(children, [&](const ProcessFacts& child) {
    return std::ranges::count(strangers, child.pid, &ProcessFacts::pid) != 0;
  });
  return children;
}

}  // namespace

Adoption::Adoption() noexcept {
  ::prctl(PR_GET_CHILD_SUBREAPER, &before_);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
}

Adoption::~Adoption() {
  ::prctl(PR_SET_CHILD_SUBREAPER, before_);
}

std::size_t end_leftovers(const std::vector<ProcessFacts>& strangers) {
  // Each round ends one generation; a family that forks faster than that is given up on.
  constexpr std::chrono::seconds kPatience{1};
  const auto limit = std::chrono::steady_clock::now() + kPatience;
  std::size_t count = 0;
  for (auto children = adopted(strangers);
       !children.empty() && std::chrono::steady_clock::now() < limit;
       children = adopted(strangers)) {
    for (const ProcessFacts& child : children) {
      count += child.dead ? 0 : 1;
      ::kill(child.pid, SIGKILL);
      reap_child(child.pid);
    }
  }
  return count;
}

}  // namespace gantry::run
