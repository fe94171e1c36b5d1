#pragma once  // gantry/trace.h: spans of one's own beside what gantry trace records.

#include <gantry/gantry.h>

#ifdef __cplusplus
extern "C" {
#endif

// A span lasts from the first call to the second, and stands under its name in the trace of the
// thread that makes the second. While nobody records, both take a few nanoseconds. Recordings of
// $GANTRY_DIR, or of the user's own directory without it, have the spans of every process; those of
// other directories, of processes with an end of a channel there.

/// Begins a span. Returns what gantry_span_end() takes: 0 while nobody records.
GANTRY_C_API uint64_t gantry_span_begin(void);
/// Ends it; `began` 0: does nothing. Of `name`, 31 bytes of UTF-8 are kept. GANTRY_INVALID_ARGUMENT
/// if `name` is NULL or empty, whether anybody records or not.
GANTRY_C_API gantry_code gantry_span_end(uint64_t began, const char* name);

#ifdef __cplusplus
}
#endif
