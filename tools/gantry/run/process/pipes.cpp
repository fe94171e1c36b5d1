#include "run/process/pipes.hpp"

#include <errno.h>
#include <fcntl.h>

#include <array>

#include "errors.hpp"

namespace gantry::run {

Result<Pipe> Pipe::create() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    return tl::unexpected(cli::system_error("pipe", errno, "raise the limit: ulimit -n"));
  return Pipe{Descriptor(ends[0]), Descriptor(ends[1])};
}

Result<void> keep_standard_streams() {
  while (true) {
    const int lowest = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    if (lowest < 0) return tl::unexpected(cli::system_error("/dev/null", errno));
    if (lowest > STDERR_FILENO) {
      ::close(lowest);
      return {};
    }
    ::fcntl(lowest, F_SETFD, 0);
  }
}

}  // namespace gantry::run
