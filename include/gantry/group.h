#pragma once  // gantry/group.h: groups of ranks and their collectives, for C99.

#include <gantry/gantry.h>  // with the rules for handles and structs

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gantry_group gantry_group;  // This process as a rank of a group.
/// A prepared collective, always on the same memory.
typedef struct gantry_collective gantry_collective;

typedef struct gantry_group_options {  // The group to join, and this process's rank. `size`: of the
                                       // struct.
  size_t size;
  const char* name;  // Name that obeys the rule for channel names, equal at all ranks. Any text if
                     // `addresses` is set.
  uint32_t rank;     // Number of this process's rank, from 0.
  uint32_t ranks;    // Number of ranks, 1 to 256.
  /// HOST:PORT of each rank. NULL: the ranks run on one machine for one user, and find each other
  /// by name in the runtime's directory.
  const char* const* addresses;
  /// With addresses. NULL: the content of the file that $GANTRY_TOKEN_FILE names.
  const char* token;
  int64_t stall_ns;          // A rank that is silent for this time counts as gone. 0: ten seconds.
  int interrupt_descriptor;  // 0: the runtime's; -1: none.
} gantry_group_options;

/// Joins a group. No call returns successfully before all ranks have come; if a rank has not come
/// within `timeout_ns`, joining fails at every rank, and GANTRY_TIMED_OUT names the missing ranks.
/// NULL for `options`: the rank that `gantry run` gave this process. gantry_free() leaves
/// the group; its collectives may be freed before or after.
GANTRY_C_API gantry_code gantry_group_join(gantry_runtime* runtime,
                                           const gantry_group_options* options, int64_t timeout_ns,
                                           gantry_group** group);
/// Returns the number of this process's rank, from 0, and the number of ranks.
GANTRY_C_API gantry_code gantry_group_place(gantry_group* group, uint32_t* rank, uint32_t* ranks);

// Piece i of `elements` begins at element elements * i / ranks.
enum {
  GANTRY_ALL_GATHER = 0,      // Piece i comes from rank i; at the end every rank has all pieces.
  GANTRY_REDUCE_SCATTER = 1,  // At the end, piece i at rank i is the sum of all ranks' pieces i.
  GANTRY_ALL_REDUCE = 2,      // At the end every rank has the sum of all.
  GANTRY_ALL_TO_ALL = 3,      // Piece i goes to rank i's result, or as `counts` say.
  GANTRY_BROADCAST = 4        // At the end every rank has the root's elements.
};

/// A collective of all ranks: equal at all ranks, except for the memory, which must outlive the
/// collective. `size`: of the struct.
typedef struct gantry_collective_call {
  size_t size;
  uint32_t kind;      // One of GANTRY_ALL_GATHER to GANTRY_BROADCAST.
  uint32_t root;      // For a broadcast: number of the rank whose elements all ranks get.
  void* data;         // Adjacent elements; also the output, unless `result` is used.
  int64_t elements;   // Number of elements of all pieces at `data`.
  uint8_t type_code;  // GANTRY_INT of 32 or 64 bits, GANTRY_FLOAT of 16, 32 or 64, or
  uint8_t type_bits;  // GANTRY_BFLOAT of 16.
  /// For all-to-all; must not overlap `data`, and must have room for `ranks` pieces of the largest
  /// size.
  void* result;
  int64_t result_elements;  // Number of elements at `result`.
  /// For all-to-all: rank r has counts[r * ranks + q] elements for rank q, in the order of the
  /// ranks without gaps. NULL: pieces. With counts, `elements` and `result_elements` must be, at
  /// every rank, at least the largest total that any rank sends or gets.
  const int64_t* counts;
  const char* program;  // Name or file of a program. NULL: chosen by size.
  const char* variant;  // Name of a variant. NULL: chosen, or the program's first.
} gantry_collective_call;

/// Prepares a collective; every rank must call it, in the same order as its other calls of the
/// group. When it fails at one rank, the group is broken at all ranks, and all get the same error.
/// If only this rank finds the call impossible (`timeout_ns` can also be the reason, here and in
/// gantry_collective_run()), the others are told that this rank left.
GANTRY_C_API gantry_code gantry_collective_prepare(gantry_group* group,
                                                   const gantry_collective_call* call,
                                                   int64_t timeout_ns,
                                                   gantry_collective** collective);
/// Runs the collective on the present contents of the memory, any number of times; every rank must
/// call it. After an error, which names the rank that failed first, the contents are undefined and
/// the group is broken: the remaining ranks may join a new one.
GANTRY_C_API gantry_code gantry_collective_run(gantry_collective* collective, int64_t timeout_ns);
/// The program in use, and why; valid as long as the collective.
GANTRY_C_API const char* gantry_collective_choice(const gantry_collective* collective);

#ifdef __cplusplus
}
#endif
