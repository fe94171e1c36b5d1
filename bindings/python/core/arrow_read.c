// Tables out: the structs of others as a tree, and its buffers as segments of a message.

#include "arrow.h"

enum { kOwnSegment = 4096, kAlignment = 64 };  // smaller ones go along with the description
static const char kAtProducer[] = "ask what made this table; it breaks Arrow's C data interface";

struct Reading {
  ArrowTree* tree;
  ArrowRefusal* refusal;
  size_t nodes, buffers, text;  // that there is room for
};

static int refuse(struct Reading* it, const char* why) {
  return arrow_refuse(it->refusal, GANTRY_INVALID_ARGUMENT, kAtProducer, "this table: %s", why);
}

/// Room for `count` more in an array that has `used`.
static int reserve(struct Reading* it, void** array, size_t* room, size_t used, size_t count,
                   size_t size) {
  if (used + count <= *room) return 0;
  if (used + count >= UINT32_MAX / 2) return refuse(it, "its names and metadata are too long");
  const size_t wanted = 2 * (used + count) + 8;
  void* const larger = realloc(*array, wanted * size);
  if (larger == NULL)
    return arrow_refuse(it->refusal, GANTRY_OUT_OF_MEMORY, "",
                        "this table: no memory to describe it");
  *array = larger;
  *room = wanted;
  return 0;
}

static int add_text(struct Reading* it, const char* bytes, size_t count, uint32_t* place) {
  ArrowTree* const tree = it->tree;
  if (reserve(it, (void**)&tree->text, &it->text, tree->text_bytes, count + 16, 1) != 0) return -1;
  while (tree->text_bytes % 8 != 0) tree->text[tree->text_bytes++] = '\0';
  *place = tree->text_bytes;
  memcpy(tree->text + tree->text_bytes, bytes, count);
  tree->text_bytes += (uint32_t)count;
  tree->text[tree->text_bytes++] = '\0';
  return 0;
}

static int64_t metadata_bytes(const char* metadata) {
  int64_t used = 4;
  int32_t pairs = 0, length = 0;
  memcpy(&pairs, metadata, 4);
  for (int64_t i = 0; i < 2 * (int64_t)pairs; ++i) {
    memcpy(&length, metadata + used, 4);
    if (length < 0) return -1;
    used += 4 + (int64_t)length;
  }
  return pairs < 0 || used > INT32_MAX ? -1 : used;
}

static int add_texts(struct Reading* it, const ArrowSchema* schema, TableNode* node) {
  node->name = node->metadata = (uint32_t)kArrowNone;
  if (add_text(it, schema->format, strlen(schema->format), &node->format) != 0) return -1;
  if (schema->name != NULL && add_text(it, schema->name, strlen(schema->name), &node->name) != 0)
    return -1;
  if (schema->metadata == NULL) return 0;
  const int64_t bytes = metadata_bytes(schema->metadata);
  if (bytes < 0) return refuse(it, "metadata of a negative length");
  node->metadata_bytes = (uint32_t)bytes;
  return add_text(it, schema->metadata, (size_t)bytes, &node->metadata);
}

static int add_buffers(struct Reading* it, const ArrowArray* array, const ArrowType* type) {
  ArrowTree* const tree = it->tree;
  if (array->n_buffers != type->buffers || (type->buffers > 0 && array->buffers == NULL))
    return refuse(it, "a wrong number of buffers");
  if (reserve(it, (void**)&tree->buffers, &it->buffers, tree->buffer_count, 4,
              sizeof *tree->buffers) != 0)
    return -1;
  for (int i = 0; i < type->buffers; ++i)
    tree->buffers[tree->buffer_count++] = (ArrowBuffer){array->buffers[i], 0};
  return 0;
}

/// Whether schema and array can be the same node; their children are looked at when they come.
static const char* why_not(const ArrowSchema* schema, const ArrowArray* array) {
  if (schema == NULL || array == NULL) return "a child is NULL";
  if (schema->release == NULL || array->release == NULL) return "it was released already";
  if (schema->format == NULL) return "a format is NULL";
  if (schema->n_children < 0 || schema->n_children != array->n_children ||
      (schema->n_children > 0 && (schema->children == NULL || array->children == NULL)))
    return "its two structs have different children";
  if ((schema->dictionary == NULL) != (array->dictionary == NULL))
    return "one of its two structs lacks a dictionary";
  return NULL;
}

static int read_node(struct Reading* it, const ArrowSchema* schema, const ArrowArray* array,
                     int depth) {
  ArrowTree* const tree = it->tree;
  const char* const why = why_not(schema, array);
  if (why != NULL) return refuse(it, why);
  if (depth == kArrowDepth || tree->node_count == kArrowNodes)
    return arrow_refuse(it->refusal, GANTRY_UNSUPPORTED, "send its parts one by one",
                        "this table: it is nested more than 64 deep, or has more than 65536 nodes");
  if (reserve(it, (void**)&tree->nodes, &it->nodes, tree->node_count, 1, sizeof *tree->nodes) != 0)
    return -1;
  ArrowNode node = {.said = {array->length, array->null_count, array->offset, schema->flags, 0, 0,
                             0, 0, (uint32_t)schema->n_children, schema->dictionary != NULL}};
  if (schema->n_children > kArrowNodes) return refuse(it, "more than 65536 children");
  if (add_texts(it, schema, &node.said) != 0) return -1;
  tree->nodes[tree->node_count++] = node;
  if (arrow_type_of(schema->format, &node.type) != 0) return 0;  // arrow_check_nodes() says so
  if (add_buffers(it, array, &node.type) != 0) return -1;
  for (int64_t i = 0; i < schema->n_children; ++i)
    if (read_node(it, schema->children[i], array->children[i], depth + 1) != 0) return -1;
  return schema->dictionary == NULL
             ? 0
             : read_node(it, schema->dictionary, array->dictionary, depth + 1);
}

/// How many bytes of values the offsets speak of; -1: they cannot be.
static int64_t bytes_by_offsets(const ArrowNode* node, const void* offsets) {
  const int64_t total = node->said.length + node->said.offset;
  if (total == 0) return 0;
  if (offsets == NULL) return -1;
  int32_t narrow = 0;
  int64_t wide = 0;
  if (node->type.bits == 64) {
    memcpy(&wide, (const int64_t*)offsets + total, sizeof wide);
    return wide;
  }
  memcpy(&narrow, (const int32_t*)offsets + total, sizeof narrow);
  return narrow;
}

/// The interface does not say how long buffers are: their types and lengths do.
static int measure(struct Reading* it, const ArrowNode* node) {
  ArrowBuffer* const buffers = &it->tree->buffers[node->buffer];
  for (int i = 0; i < node->type.buffers; ++i) buffers[i].bytes = arrow_least_bytes(node, i);
  if (node->type.layout == kVariable) {
    const int64_t bytes = bytes_by_offsets(node, buffers[1].data);
    if (bytes < 0) return refuse(it, "negative offsets, or none");
    buffers[2].bytes = (uint64_t)bytes;
  }
  for (int i = 0; i < node->type.buffers; ++i) {
    if (buffers[i].data == NULL && buffers[i].bytes > 0 && (i > 0 || node->said.null_count > 0))
      return refuse(it, "a buffer is NULL, and should not be empty");
    if (buffers[i].data == NULL || buffers[i].bytes == 0) buffers[i] = (ArrowBuffer){NULL, 0};
  }
  return 0;
}

int arrow_read(const ArrowSchema* schema, const ArrowArray* array, ArrowTree* tree,
               ArrowRefusal* refusal) {
  struct Reading it = {.tree = tree, .refusal = refusal};
  if (read_node(&it, schema, array, 0) != 0) return -1;
  if (arrow_check_nodes(tree, refusal) != 0) {
    if (refusal->code != GANTRY_PEER_MISBEHAVED) return -1;
    refusal->code = GANTRY_INVALID_ARGUMENT;  // it was made here
    refusal->hint = kAtProducer;
    return -1;
  }
  for (uint32_t i = 0; i < tree->node_count; ++i)
    if (measure(&it, &tree->nodes[i]) != 0) return -1;
  return 0;
}

// ---- as segments

static uint64_t aligned(uint64_t at) {
  return (at + kAlignment - 1) & ~(uint64_t)(kAlignment - 1);
}

static uint32_t count_above(const ArrowTree* tree, uint64_t bytes) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < tree->buffer_count; ++i) count += tree->buffers[i].bytes > bytes;
  return count;
}

/// The least size such that at most `room` buffers are larger.
static uint64_t least_owned(const ArrowTree* tree, uint32_t room) {
  uint64_t low = kOwnSegment - 1, high = (uint64_t)INT64_MAX;
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    if (count_above(tree, middle) <= room)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

uint64_t arrow_place(const ArrowTree* tree, uint32_t room, TablePlace* places) {
  const uint64_t least = least_owned(tree, room);
  uint32_t own = 0, as_large = least < kOwnSegment ? 0 : room - count_above(tree, least);
  uint64_t end = sizeof(TableHead) + tree->node_count * (uint64_t)sizeof(TableNode) +
                 tree->buffer_count * (uint64_t)sizeof(TablePlace) + tree->text_bytes;
  for (uint32_t i = 0; i < tree->buffer_count; ++i) {
    const ArrowBuffer* const buffer = &tree->buffers[i];
    places[i] = (TablePlace){0, 0, 0, buffer->bytes};
    if (buffer->data == NULL) {
      places[i].segment = (uint32_t)kArrowNone;
    } else if (buffer->bytes > least || (buffer->bytes == least && as_large > 0)) {
      as_large -= buffer->bytes == least;
      places[i].segment = ++own;
    } else {
      places[i].offset = aligned(end);
      end = places[i].offset + buffer->bytes;
    }
  }
  return end;
}

void arrow_write(const ArrowTree* tree, const TablePlace* places, char* into, uint64_t bytes) {
  memset(into, 0, bytes);  // what lies between
  TableHead head = {kArrowMagic, tree->node_count, tree->buffer_count, tree->text_bytes, 1, 0};
  char* at = into + sizeof head;
  for (uint32_t i = 0; i < tree->node_count; ++i, at += sizeof(TableNode))
    memcpy(at, &tree->nodes[i].said, sizeof(TableNode));
  for (uint32_t i = 0; i < tree->buffer_count; ++i, at += sizeof(TablePlace)) {
    memcpy(at, &places[i], sizeof(TablePlace));
    if (places[i].segment == 0)
      memcpy(into + places[i].offset, tree->buffers[i].data, places[i].bytes);
    head.segments += places[i].segment != 0 && places[i].segment != (uint32_t)kArrowNone;
  }
  memcpy(at, tree->text, tree->text_bytes);
  memcpy(into, &head, sizeof head);
}
