#pragma once  // engine/kernels.hpp: stores past the cache, with the widest vectors that this CPU
              // has.

#include <gantry/types.hpp>

namespace gantry {

/// Copies past the cache. Any alignment, no overlap. On return the bytes are ordered before later
/// stores of the thread, as after memcpy().
void stream_copy(std::byte* destination, const std::byte* source, Bytes bytes) noexcept;

/// Repeats the eight bytes of `pattern`, lowest first, from `destination` on, past the cache.
void stream_fill(std::byte* destination, std::uint64_t pattern, Bytes bytes) noexcept;
/// The same through the cache.
void cached_fill(std::byte* destination, std::uint64_t pattern, Bytes bytes) noexcept;

/// The vectors in use, by Highway's name ("AVX3"), for display.
[[nodiscard]] const char* vector_target() noexcept;

}  // namespace gantry
