#pragma once  // base/test_effort.hpp: how much a test tries, and what it draws, in each preset.

#include "core/base/test_sanitizer.hpp"

namespace gantry {

/// The plain build tries each of many cases, AddressSanitizer each eighth case. ThreadSanitizer
/// sees a race in any case, and tries each 32nd case.
inline const int kTestStride = has_thread_sanitizer() ? 32 : has_address_sanitizer() ? 8 : 1;

/// The seed of a test's random numbers: another one under each sanitizer, so that three runs see
/// more than one does.
[[nodiscard]] inline unsigned test_seed(unsigned seed) noexcept {
  return seed + (has_thread_sanitizer() ? 2'000'000 : has_address_sanitizer() ? 1'000'000 : 0);
}

}  // namespace gantry
