#pragma once  // errors.hpp: one-line errors, and the exit status that goes with them.

#include <gantry/types.hpp>

namespace tensor_parallel {

inline constexpr int kDone = 0;
inline constexpr int kFailed = 1;
inline constexpr int kMisused = 2;
inline constexpr int kInterrupted = 130;  // as a shell says it of SIGINT

[[nodiscard]] tl::unexpected<gantry::Error> fail(gantry::Code code, std::string message,
                                                 std::string hint = {});
/// "what: why", of the errno that a call left.
[[nodiscard]] tl::unexpected<gantry::Error> fail_errno(const std::string& what);

/// "message; hint" without line breaks, on standard error.
void complain(const gantry::Error& error);
[[nodiscard]] int status_of(const gantry::Error& error) noexcept;

template <class T>
[[nodiscard]] tl::unexpected<gantry::Error> failed(gantry::Result<T>& result) {
  return tl::unexpected(std::move(result).error());
}

}  // namespace tensor_parallel
