#pragma once  // base/assert.hpp: broken contracts stop the program, in every build.

#include <cstdio>
#include <cstdlib>

namespace gantry {
[[noreturn]] inline void contract_broken(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "gantry: broken contract: %s (%s:%d)\n", condition, file, line);
  std::abort();
}
}  // namespace gantry

/// One condition each; name the invariant in a comment beside it.
#define GANTRY_ASSERT(condition) \
  ((condition) ? void(0) : ::gantry::contract_broken(#condition, __FILE__, __LINE__))
