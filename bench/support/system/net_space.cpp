#include "net_space.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <cstdlib>

namespace gantry::bench {

Descriptor present_space() {
  return Descriptor(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
}

Result<Visit> Visit::begin(const Descriptor& home, const Descriptor& there) {
  if (!home.is_open()) return Visit(-1);
  if (::setns(there.get(), CLONE_NEWNET) != 0) return Unexpected(system_error("setns"));
  return Visit(home.get());
}

Visit::~Visit() {  // whoever stays abroad would measure something else
  if (home_ >= 0 && ::setns(home_, CLONE_NEWNET) != 0) std::abort();
}

Result<Descriptor> make_space(const Descriptor& home) {
  if (::unshare(CLONE_NEWNET) != 0) {
    if (errno != EPERM) return Unexpected(system_error("a network namespace"));
    return Unexpected({Code::permission_denied, "no right to make network namespaces", ""});
  }
  Descriptor made = present_space();
  const int number = errno;
  if (::setns(home.get(), CLONE_NEWNET) != 0) std::abort();  // see ~Visit()
  if (!made.is_open()) return Unexpected(system_error("a network namespace", number));
  return made;
}

std::string path_of_space(const Descriptor& space) {
  return fmt::format("/proc/{}/fd/{}", ::getpid(), space.get());
}

}  // namespace gantry::bench
