#pragma once  // gantry/group.h: groups of ranks and their collectives, for C99.

#include <gantry/gantry.h>  // whose rules hold here, too

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gantry_group gantry_group;            // This process as one of some ranks.
typedef struct gantry_collective gantry_collective;  // Ready to be run, on the same memory.

typedef struct gantry_group_options {  // Which group, and as which rank. `size`: of the struct.
  size_t size;
  const char* name;  // The same at all ranks, by the rule of channels' names. With addresses: any.
  uint32_t rank;     // Of this process, from 0.
  uint32_t ranks;    // 1 to 256.
  /// HOST:PORT of each of the ranks. NULL: they are of one machine and user, and find each other by
  /// name in the runtime's directory.
  const char* const* addresses;
  const char* token;         // For addresses. NULL: what $GANTRY_TOKEN_FILE holds.
  int64_t stall_ns;          // A rank that is silent for so long is gone. 0: ten seconds.
  int interrupt_descriptor;  // 0: the runtime's; -1: none.
} gantry_group_options;

/// No rank joins before all have come; if one has not come within `timeout_ns`, joining fails at
/// each. NULL for `options`: as the rank as which `gantry run` started this process.
/// GANTRY_TIMED_OUT names the ranks that have not come. gantry_free() leaves; collectives of the
/// group may be freed before or after.
GANTRY_C_API gantry_code gantry_group_join(gantry_runtime* runtime,
                                           const gantry_group_options* options, int64_t timeout_ns,
                                           gantry_group** group);
/// Tells which rank this process is, from 0, and how many there are.
GANTRY_C_API gantry_code gantry_group_place(gantry_group* group, uint32_t* rank, uint32_t* ranks);

// Piece i of `elements` begins at element elements * i / ranks.
enum {
  GANTRY_ALL_GATHER = 0,      // Piece i is rank i's; in the end every rank has all of them.
  GANTRY_REDUCE_SCATTER = 1,  // In the end piece i of rank i's is the sum of all ranks'.
  GANTRY_ALL_REDUCE = 2,      // In the end every rank's is the sum of all.
  GANTRY_ALL_TO_ALL = 3,      // Piece i goes to rank i's result, or as `counts` say.
  GANTRY_BROADCAST = 4        // In the end every rank has the root's.
};

/// What all ranks do together: the same but for the memory, which must outlive the collective.
/// `size`: of the struct.
typedef struct gantry_collective_call {
  size_t size;
  uint32_t kind;      // GANTRY_ALL_GATHER and its like.
  uint32_t root;      // Of a broadcast.
  void* data;         // Elements one after another; what comes in goes there, too.
  int64_t elements;   // At `data`: those of all pieces.
  uint8_t type_code;  // GANTRY_INT of 32 or 64 bits, GANTRY_FLOAT of 16, 32 or 64, or
  uint8_t type_bits;  // GANTRY_BFLOAT of 16.
  /// Of all-to-all; does not overlap `data`, and has room for `ranks` pieces of the largest size.
  void* result;
  int64_t result_elements;  // At `result`.
  /// Of all-to-all: rank r has counts[r * ranks + q] elements for rank q, in the order of the ranks
  /// without gaps. NULL: pieces. With counts `elements` and `result_elements` are, at every rank,
  /// at least the most that any rank has for all or gets from all.
  const int64_t* counts;
  const char* program;  // A program's name or file. NULL: picked by the size.
  const char* variant;  // NULL: picked, or the program's first.
} gantry_collective_call;

/// Every rank calls it, in the same order as its other calls of the group. When it fails at one
/// rank the group is broken at all, and what all see is said to all the same; of a call that this
/// rank alone finds impossible (also for its `timeout_ns`, there and in gantry_collective_run())
/// the others hear that it left.
GANTRY_C_API gantry_code gantry_collective_prepare(gantry_group* group,
                                                   const gantry_collective_call* call,
                                                   int64_t timeout_ns,
                                                   gantry_collective** collective);
/// Every rank calls it, any number of times, each time on what the memory holds then. After an
/// error, which names the rank that failed first, the contents are undefined and the group is
/// broken: the ranks that are left may join a new one.
GANTRY_C_API gantry_code gantry_collective_run(gantry_collective* collective, int64_t timeout_ns);
/// What was taken, and why; valid as long as the collective.
GANTRY_C_API const char* gantry_collective_choice(const gantry_collective* collective);

#ifdef __cplusplus
}
#endif
