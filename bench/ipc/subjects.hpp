#pragma once  // bench/ipc/subjects.hpp: the ways of handing a message to another process.

#include <chrono>

#include "../support/trips/subject.hpp"

namespace gantry::bench {

/// How long Gantry's ends poll before they sleep: more than any trip's pause, for the hand-made
/// subjects never sleep.
inline constexpr std::chrono::microseconds kGantrySpin{200};

inline constexpr const char* kSyncName = "gantry/sync";
inline constexpr const char* kLookName = "gantry/look";
inline constexpr const char* kCpuSyncName = "cpu-sync";
inline constexpr const char* kCpuSyncFreshName = "cpu-sync-fresh";
inline constexpr const char* kPingPongName = "limit/cache-line-ping-pong";
inline constexpr const char* kTwoLinesName = "limit/two-lines";
inline constexpr const char* kLoanName = "gantry/loan";
inline constexpr const char* kStreamBesideName = "beside/16 MiB";  // what others ran beside
inline constexpr const char* kTracedName = "traced/sync";          // takes part when it is named

/// All of Gantry's ways: gantry/sync, /look, /async, /pipelined-whole, /pipelined-streamed, /loan,
/// /move, and the first with a recorder beside it.
std::vector<SubjectKind> gantry_subjects();
SubjectKind cpu_sync();            ///< Plain shared memory: copied in, copied out, read.
SubjectKind cpu_sync_fresh();      ///< The same in memory that is new for every message.
SubjectKind pipe_stream();         ///< Two pipes; read into a private buffer.
SubjectKind pipe_stream_polled();  ///< The same, both ends polling.
SubjectKind unix_socket();         ///< A stream socket pair; read into a private buffer.
SubjectKind unix_socket_polled();  ///< The same, both ends polling.
SubjectKind ping_pong();           ///< Limit: one cache line there and back.
SubjectKind two_lines();    ///< Limit: 64 bytes and a flag there, a flag back; one writer each.
SubjectKind single_copy();  ///< Limit: the best copy of that size within one process.

inline constexpr const char* kAsWholeName = "gantry/as-whole";
inline constexpr const char* kAsPipelinedName = "gantry/as-pipelined";
inline constexpr const char* kAsStreamedName = "gantry/as-streamed";
/// Ways of fp32 that is wanted as bf16, for the cases `typed/...` alone.
std::vector<SubjectKind> typed_subjects();

inline constexpr const char* kDecideWholeName = "gantry/decide-whole";
inline constexpr const char* kDecidePipelinedName = "gantry/decide-pipelined";
/// Ways of a decision, for the cases `top/...` and `nearest/...` alone.
std::vector<SubjectKind> decision_subjects();

/// Limits: a copy in chunks into 1, 8, ... 512 places in turn, and the receiver's own copy.
std::vector<SubjectKind> chunk_limits();

/// Those that need nothing to be installed, in the order of the tables. Pipes and sockets that are
/// polled are of interest beside other systems only.
std::vector<SubjectKind> own_subjects(bool with_polled);

}  // namespace gantry::bench
