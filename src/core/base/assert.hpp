#pragma once  // base/assert.hpp: stops the program on a broken contract, and in debug builds on a
              // broken invariant.

#include <cstdio>
#include <cstdlib>

namespace gantry {
[[noreturn]] inline void contract_broken(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "gantry: broken contract: %s (%s:%d)\n", condition, file, line);
  std::abort();
}

/// A friend of every class that checks its invariants. Only tests specialise it, to break one and
/// see that it is caught.
template <class Checked>
struct InvariantBreaker;
}  // namespace gantry

/// Assert one condition each; name the invariant in a comment beside it.
#define GANTRY_ASSERT(condition) \
  ((condition) ? void(0) : ::gantry::contract_broken(#condition, __FILE__, __LINE__))

// Only in debug builds; a release build evaluates nothing. Arguments after the object are passed to
// check_invariants().
#ifndef NDEBUG
#define GANTRY_DEBUG_ASSERT(condition) GANTRY_ASSERT(condition)
#define GANTRY_CHECK_INVARIANTS(object, ...) (object).check_invariants(__VA_ARGS__)
#else
#define GANTRY_DEBUG_ASSERT(condition) static_cast<void>(sizeof((condition) ? 1 : 0))
#define GANTRY_CHECK_INVARIANTS(object, ...) static_cast<void>(sizeof(object))
#endif
