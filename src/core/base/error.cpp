#include <cstdio>
#include <cstdlib>
#include <gantry/types.hpp>

#include "core/base/enum_text.hpp"

namespace gantry {

std::string_view to_string(Code code) noexcept {
  return text_in({"invalid argument", "not found", "already exists", "permission denied",
                  "out of memory", "too large", "timed out", "busy", "interrupted", "closed",
                  "peer gone", "aborted", "peer misbehaved", "unsupported", "system error",
                  "device full", "device lost", "kernel fault", "build failed"},
                 code);
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
