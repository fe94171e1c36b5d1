#pragma once  // base/result.hpp: makes errors and passes them on in one line.

#include <fmt/format.h>

#include <cerrno>
#include <gantry/types.hpp>
#include <new>
#include <system_error>
#include <utility>

namespace gantry {

[[nodiscard]] inline tl::unexpected<Error> fail(Code code, std::string message,
                                                std::string hint = {}) {
  return tl::unexpected<Error>(Error{code, std::move(message), std::move(hint)});
}

/// "what: the kernel's words" for an errno value.
[[nodiscard]] inline tl::unexpected<Error> fail_errno(std::string_view what, int error = errno,
                                                      std::string hint = {}) {
  const Code code = error == EACCES || error == EPERM ? Code::permission_denied
                    : error == ENOENT                 ? Code::not_found
                    : error == ENOMEM                 ? Code::out_of_memory
                    : error == EEXIST                 ? Code::already_exists
                                                      : Code::system;
  if (hint.empty() && error == EMFILE) hint = "raise the limit of open files (ulimit -n)";
  return fail(code, fmt::format("{}: {}", what, std::generic_category().message(error)),
              std::move(hint));
}

/// Runs `work`. Running out of heap becomes an error, which itself needs no heap.
template <class Work>
[[nodiscard]] auto guarded(Work work) noexcept -> decltype(work()) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return tl::unexpected(Error{Code::out_of_memory, "out of memory", {}});
  }
}

}  // namespace gantry

// Passes an error on, or goes on. GANTRY_TRY(check(x));
#define GANTRY_TRY(expression)                                       \
  do {                                                               \
    if (auto gantry_try_result_ = (expression); !gantry_try_result_) \
      return tl::unexpected(std::move(gantry_try_result_).error());  \
  } while (false)

#define GANTRY_CONCAT_(a, b) a##b
#define GANTRY_CONCAT(a, b) GANTRY_CONCAT_(a, b)
// Passes an error on, or takes the value. GANTRY_ASSIGN(const Fd fd, open_file(path));
#define GANTRY_ASSIGN(declaration, expression) \
  GANTRY_ASSIGN_(GANTRY_CONCAT(gantry_assign_, __LINE__), declaration, expression)
#define GANTRY_ASSIGN_(result, declaration, expression)          \
  auto result = (expression);                                    \
  if (!result) return tl::unexpected(std::move(result).error()); \
  declaration = std::move(*result)
