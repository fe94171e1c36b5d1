#pragma once  // bindings/c/errors.hpp: results become codes, and what is thrown does, too.

#include <gantry/gantry.h>

#include <exception>
#include <gantry/types.hpp>
#include <new>
#include <string>
#include <string_view>
#include <utility>

namespace gantry::c {

/// The number of a code, frozen; and the code of a number. Numbers that it does not know are
/// `system`.
[[nodiscard]] gantry_code number_of(Code code) noexcept;
[[nodiscard]] Code code_of(gantry_code number) noexcept;

/// Keeps the error for gantry_last_error() and returns its number. Needs no heap.
gantry_code keep_error(gantry_code code, std::string_view message, std::string_view hint) noexcept;

[[nodiscard]] inline tl::unexpected<Error> fail(Code code, std::string message,
                                                std::string hint = {}) {
  return tl::unexpected<Error>(Error{code, std::move(message), std::move(hint)});
}

/// Runs `work`, which returns a Result<void>, and makes a code of whatever comes of it.
template <class Work>
gantry_code guarded(Work work) noexcept {
  try {
    const Result<void> result = work();
    if (result) return GANTRY_OK;
    return keep_error(number_of(result.error().code), result.error().message, result.error().hint);
  } catch (const std::bad_alloc&) {
    return keep_error(GANTRY_OUT_OF_MEMORY, "out of memory", "");
  } catch (const std::exception& error) {
    return keep_error(GANTRY_SYSTEM, error.what(), "");
  } catch (...) {
    return keep_error(GANTRY_SYSTEM, "an exception of an unknown kind", "");
  }
}

}  // namespace gantry::c

// Passes an error on, or goes on; passes an error on, or takes the value.
#define GANTRY_C_TRY(expression)                               \
  do {                                                         \
    if (auto gantry_tried_ = (expression); !gantry_tried_)     \
      return tl::unexpected(std::move(gantry_tried_).error()); \
  } while (false)
#define GANTRY_C_NAME_(line) gantry_assigned_##line
#define GANTRY_C_NAME(line) GANTRY_C_NAME_(line)
#define GANTRY_C_ASSIGN(declaration, expression) \
  GANTRY_C_ASSIGN_(GANTRY_C_NAME(__LINE__), declaration, expression)
#define GANTRY_C_ASSIGN_(result, declaration, expression)        \
  auto result = (expression);                                    \
  if (!result) return tl::unexpected(std::move(result).error()); \
  declaration = std::move(*result)
