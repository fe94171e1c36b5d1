#include <cstdio>
#include <cstdlib>
#include <gantry/types.hpp>

namespace gantry {

std::string_view to_string(Code code) noexcept {
  switch (code) {
    case Code::invalid_argument:
      return "invalid argument";
    case Code::not_found:
      return "not found";
    case Code::already_exists:
      return "already exists";
    case Code::permission_denied:
      return "permission denied";
    case Code::out_of_memory:
      return "out of memory";
    case Code::too_large:
      return "too large";
    case Code::timed_out:
      return "timed out";
    case Code::busy:
      return "busy";
    case Code::interrupted:
      return "interrupted";
    case Code::closed:
      return "closed";
    case Code::peer_gone:
      return "peer gone";
    case Code::aborted:
      return "aborted";
    case Code::peer_misbehaved:
      return "peer misbehaved";
    case Code::unsupported:
      return "unsupported";
    case Code::system:
      return "system error";
    case Code::device_full:
      return "device full";
    case Code::device_lost:
      return "device lost";
    case Code::kernel_fault:
      return "kernel fault";
    case Code::build_failed:
      return "build failed";
  }
  return "unknown";
}

std::string to_string(const Error& error) {
  return error.hint.empty() ? error.message : error.message + "; " + error.hint;
}

void exit_with(const Error& error) noexcept {
  std::fprintf(stderr, "gantry: %s%s%s\n", error.message.c_str(), error.hint.empty() ? "" : "; ",
               error.hint.c_str());
  std::exit(1);
}

Deadline Deadline::after(std::chrono::nanoseconds wait) noexcept {
  const auto now = Clock::now();
  return wait > Clock::time_point::max() - now ? never() : Deadline(now + wait);
}

std::chrono::nanoseconds Deadline::left() const noexcept {
  if (is_never()) return std::chrono::nanoseconds::max();
  const auto left = at_ - Clock::now();
  return left > left.zero() ? left : left.zero();
}

}  // namespace gantry
