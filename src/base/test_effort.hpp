#pragma once  // base/test_effort.hpp: whether each try of a test costs ten times as much.

namespace gantry {

/// Under a sanitizer a test that tries many cases takes every eighth; the plain build takes all.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr int kTestStride = 8;
#else
inline constexpr int kTestStride = 1;
#endif

}  // namespace gantry
