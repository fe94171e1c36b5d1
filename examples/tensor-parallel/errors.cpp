#include "errors.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace tensor_parallel {

tl::unexpected<gantry::Error> fail(gantry::Code code, std::string message, std::string hint) {
  return tl::unexpected(gantry::Error{code, std::move(message), std::move(hint)});
}

tl::unexpected<gantry::Error> fail_errno(const std::string& what) {
  return fail(gantry::Code::system, what + ": " + std::strerror(errno));
}

void complain(const gantry::Error& error) {
  std::string line = gantry::to_string(error);
  std::replace(line.begin(), line.end(), '\n', ' ');
  std::fprintf(stderr, "tensor_parallel: %s\n", line.c_str());
}

int status_of(const gantry::Error& error) noexcept {
  return error.code == gantry::Code::interrupted ? kInterrupted : kFailed;
}

}  // namespace tensor_parallel
