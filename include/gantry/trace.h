#pragma once  // gantry/trace.h: the program's own spans in recordings of gantry trace.

#include <gantry/gantry.h>

#ifdef __cplusplus
extern "C" {
#endif

// A span lasts from the first call to the second, and appears under its name in the trace of the
// thread that makes the second call. Without a recording, both calls take a few nanoseconds.
// Recordings of $GANTRY_DIR (if that is not set: of the user's own directory) have the spans of
// every process; recordings of other directories have those of processes with an end of a channel
// there.

/// Begins a span. Returns the argument for gantry_span_end(): 0 without a recording.
GANTRY_C_API uint64_t gantry_span_begin(void);
/// Ends a span; if `began` is 0, does nothing. Keeps 31 bytes of UTF-8 of `name`.
/// GANTRY_INVALID_ARGUMENT if `name` is NULL or empty, with or without a recording.
GANTRY_C_API gantry_code gantry_span_end(uint64_t began, const char* name);

#ifdef __cplusplus
}
#endif
