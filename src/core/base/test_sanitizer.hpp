#pragma once  // base/test_sanitizer.hpp: which sanitizer a test runs under, asked when it runs.

#include <dlfcn.h>

namespace gantry {

/// Test objects are the same with and without AddressSanitizer (docs/results/build.md), so a macro
/// of the compiler cannot tell.
[[nodiscard]] inline bool has_address_sanitizer() noexcept {
  return ::dlsym(RTLD_DEFAULT, "__asan_init") != nullptr;
}

[[nodiscard]] constexpr bool has_thread_sanitizer() noexcept {
#if defined(__SANITIZE_THREAD__)
  return true;
#else
  return false;
#endif
}

[[nodiscard]] inline bool has_sanitizer() noexcept {
  return has_thread_sanitizer() || has_address_sanitizer();
}

}  // namespace gantry
