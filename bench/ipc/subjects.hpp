#pragma once  // bench/ipc/subjects.hpp: the ways of handing a message to another process.

#include <chrono>

#include "../support/subject.hpp"

namespace gantry::bench {

/// How long Gantry's ends poll before they sleep: more than any trip's pause, for the hand-made
/// subjects never sleep.
inline constexpr std::chrono::microseconds kGantrySpin{200};

inline constexpr const char* kSyncName = "gantry/sync";
inline constexpr const char* kShmTwoCopiesName = "shm-two-copies";
inline constexpr const char* kPingPongName = "limit/cache-line-ping-pong";

SubjectKind gantry_sync();     ///< send() from a private buffer, read in place.
SubjectKind gantry_loan();     ///< Written into a loan beforehand; published, read in place.
SubjectKind shm_two_copies();  ///< Plain shared memory: copied in, copied out, read.
SubjectKind pipe_stream();     ///< Two pipes; read into a private buffer.
SubjectKind unix_socket();     ///< A stream socket pair; read into a private buffer.
SubjectKind ping_pong();       ///< Limit: one cache line there and back.
SubjectKind single_copy();     ///< Limit: the best copy of that size within one process.

/// All of them, in the order of the tables.
std::vector<SubjectKind> all_subjects();

}  // namespace gantry::bench
