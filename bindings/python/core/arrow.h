#pragma once  // bindings/python/core/arrow.h: tables by the structs of the Arrow C data interface.

#include <stdint.h>

#include "core.h"

// As arrow.apache.org/docs/format/CDataInterface.html has them.
typedef struct ArrowSchema {
  const char *format, *name, *metadata;
  int64_t flags, n_children;
  struct ArrowSchema **children, *dictionary;
  void (*release)(struct ArrowSchema*);
  void* private_data;
} ArrowSchema;
typedef struct ArrowArray {
  int64_t length, null_count, offset, n_buffers, n_children;
  const void** buffers;
  struct ArrowArray **children, *dictionary;
  void (*release)(struct ArrowArray*);
  void* private_data;
} ArrowArray;

// ---- a table in a message: docs/formats/table.md

enum { kArrowMagic = 0x31425447, kArrowNone = -1 };  // "GTB1"
typedef struct TableHead {
  uint32_t magic, nodes, buffers, text_bytes, segments, unused;
} TableHead;
typedef struct TableNode {
  int64_t length, null_count, offset, flags;
  uint32_t format, name, metadata, metadata_bytes;  // places in the text; kArrowNone: there is none
  uint32_t children, has_dictionary;
} TableNode;
typedef struct TablePlace {
  uint32_t segment, unused;  // from the table's own on; kArrowNone: the buffer is NULL
  uint64_t offset, bytes;
} TablePlace;
_Static_assert(sizeof(TableHead) == 24 && sizeof(TableNode) == 56 && sizeof(TablePlace) == 24,
               "others have written them: docs/formats/table.md");

// ---- a table in memory, whoever's

enum { kArrowDepth = 64, kArrowNodes = 65536 };  // at most
enum ArrowLayout { kNothing, kFixed, kVariable, kStruct, kList, kMap, kFixedList };
typedef struct ArrowType {
  enum ArrowLayout layout;
  int buffers, is_integer, is_signed;
  uint32_t bits;  // of a value or an offset; of kFixedList: values
} ArrowType;
typedef struct ArrowNode {
  TableNode said;
  ArrowType type;
  uint32_t end;     // the node behind its children and its dictionary, which follow it
  uint32_t buffer;  // its first
} ArrowNode;
typedef struct ArrowBuffer {
  const void* data;
  uint64_t bytes;
} ArrowBuffer;
typedef struct ArrowTree {
  ArrowNode* nodes;  // nodes[0] is the table; each before its children, its dictionary last
  ArrowBuffer* buffers;
  char* text;
  uint32_t node_count, buffer_count, text_bytes;
  uint32_t segments;         // of a message; else 0
  struct ArrowCopy* copies;  // of what a sender must not change any more
} ArrowTree;
typedef struct ArrowRefusal {
  gantry_code code;
  char why[200];
  const char* hint;
} ArrowRefusal;

// ---- arrow_types.c and arrow_checks.c: know nothing of Python's, and need no GIL

/// -1: a format that is not known here.
int arrow_type_of(const char* format, ArrowType* type);
/// Whether the nodes are one table, whose lengths go together; sets type, end and buffer of each.
int arrow_check_nodes(ArrowTree* tree, ArrowRefusal* refusal);
/// The bytes that buffer `index` of a node must have; those of kVariable's values are not known.
uint64_t arrow_least_bytes(const ArrowNode* node, int index);
/// The table that begins in segments[0]. All that a consumer finds other bytes by is checked, in
/// copies: the sender could change it afterwards. `tree` is to be freed, also if it is refused.
int arrow_load(const ArrowBuffer* segments, uint32_t count, ArrowTree* tree, ArrowRefusal* refusal);
void arrow_free(ArrowTree* tree);
int arrow_refuse(ArrowRefusal* refusal, gantry_code code, const char* hint, const char* why, ...)
    __attribute__((format(printf, 4, 5)));
const char* arrow_name(const ArrowTree* tree, const ArrowNode* node);  // for errors

// ---- arrow_read.c: the structs of others; no GIL either

int arrow_read(const ArrowSchema* schema, const ArrowArray* array, ArrowTree* tree,
               ArrowRefusal* refusal);
/// Where each buffer goes if at most `room` have segments of their own, and how large the first
/// segment is, which has the others.
uint64_t arrow_place(const ArrowTree* tree, uint32_t room, TablePlace* places);
void arrow_write(const ArrowTree* tree, const TablePlace* places, char* into, uint64_t bytes);

// ---- arrow_export.c

PyObject* arrow_export_schema(const ArrowTree* tree, PyObject* owner);  // capsules
PyObject* arrow_export_array(const ArrowTree* tree, PyObject* owner);
/// Capsules that own what these two held, which are released from now on.
PyObject* arrow_take(ArrowSchema* schema, ArrowArray* array);
