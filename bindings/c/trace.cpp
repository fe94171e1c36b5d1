#include <gantry/trace.h>

#include <gantry/runtime.hpp>

#include "errors.hpp"

using gantry::Result;
namespace c = gantry::c;

uint64_t gantry_span_begin(void) {
  return gantry::trace::begin_span();
}

gantry_code gantry_span_end(uint64_t began, const char* name) {
  return c::guarded([&]() -> Result<void> {
    if (name == nullptr || *name == '\0')
      return c::fail(gantry::Code::invalid_argument, "name: the span has none",
                     "say what is done in it: \"decode\"");
    gantry::trace::end_span(began, name);
    return {};
  });
}
