#pragma once  // base/poison.hpp: memory that must not be used, as AddressSanitizer is told.

#include <gantry/types.hpp>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace gantry {

#if defined(__SANITIZE_ADDRESS__)
/// AddressSanitizer then reports every use of that memory.
inline void poison(ConstByteSpan memory) noexcept {
  __asan_poison_memory_region(memory.data(), memory.size());
}
inline void unpoison(ConstByteSpan memory) noexcept {
  __asan_unpoison_memory_region(memory.data(), memory.size());
}
#else
inline void poison(ConstByteSpan) noexcept {}
inline void unpoison(ConstByteSpan) noexcept {}
#endif

}  // namespace gantry
