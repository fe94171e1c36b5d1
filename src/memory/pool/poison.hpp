#pragma once  // memory/pool/poison.hpp: in debug builds, catches the use of freed memory.

#include <algorithm>
#include <cstring>
#include <gantry/types.hpp>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace gantry {

#if defined(__SANITIZE_ADDRESS__)
/// AddressSanitizer then reports every use of freed pool memory.
inline void poison(ByteSpan memory) noexcept {
  __asan_poison_memory_region(memory.data(), memory.size());
}
inline void unpoison(ByteSpan memory) noexcept {
  __asan_unpoison_memory_region(memory.data(), memory.size());
}
#else
inline void poison(ByteSpan) noexcept {}
inline void unpoison(ByteSpan) noexcept {}
#endif

#if defined(NDEBUG)
inline constexpr bool kSpoils = false;
#else
inline constexpr bool kSpoils = true;
#endif

/// Fills a freed block with nonsense, so that whoever still reads it notices.
inline void spoil(ByteSpan memory) noexcept {
  constexpr int kNonsense = 0xdb;
  constexpr Bytes kAtMost = Bytes{64} << 10;  // enough to be noticed
  if (kSpoils) std::memset(memory.data(), kNonsense, std::min(memory.size(), kAtMost));
}

}  // namespace gantry
