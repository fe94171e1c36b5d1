#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <gantry/runtime.hpp>

#include "core/base/enum_text.hpp"
#include "core/base/os/fd.hpp"
#include "core/base/result.hpp"

namespace gantry {

std::string_view to_string(ProcessState state) noexcept {
  return text_in({"unknown", "running", "stopped", "zombie", "gone"}, state, "?");
}

// proc(5): "pid (comm) state ..."; comm may hold anything, so the last parenthesis counts.
ProcessState process_state(int pid) noexcept {
  if (pid <= 0) return ProcessState::unknown;
  std::array<char, 32> path{};
  *fmt::format_to_n(path.data(), path.size() - 1, "/proc/{}/stat", pid).out = '\0';
  const Fd file(::open(path.data(), O_RDONLY | O_CLOEXEC));
  if (!file) {
    const bool missing = errno == ENOENT && ::access("/proc/self/stat", F_OK) == 0;
    return missing ? ProcessState::gone : ProcessState::unknown;
  }
  std::array<char, 256> text{};
  const ssize_t got = ::read(file.get(), text.data(), text.size());
  if (got <= 0) return got < 0 && errno == ESRCH ? ProcessState::gone : ProcessState::unknown;
  const std::string_view read(text.data(), static_cast<std::size_t>(got));
  const auto end = read.rfind(')');
  if (end == std::string_view::npos || end + 2 >= read.size()) return ProcessState::unknown;
  switch (read[end + 2]) {
    case 'T':  // by a signal
    case 't':  // by a debugger
      return ProcessState::stopped;
    case 'Z':
      return ProcessState::zombie;
    case 'X':
    case 'x':
      return ProcessState::gone;
    default:
      return ProcessState::running;
  }
}

}  // namespace gantry
