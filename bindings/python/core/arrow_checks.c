// What is believed of a table: nothing that a consumer finds other bytes by, before it was checked.
//  I1: each node's format is known; it has the children, the dictionary and the buffers that go
//      with it, within kArrowDepth and kArrowNodes; each child is as long as its parent needs.
//  I2: each buffer lies within its segment and is as long as its node needs; all together are no
//      longer than the message.
//  I3: offsets never fall, and end within what they point into; an index that counts lies in its
//      dictionary; null counts are those of the bitmaps. Bitmaps, offsets and indices are copies.
// Values are not checked: neither numbers, nor whether text is UTF-8.

#include <stdatomic.h>

#include "arrow.h"

static const char kAtSender[] = "do not trust this sender; message.data has the bytes";
static const char kFormats[] =
    "cast it: numbers, bool, text, binary, decimals, times, lists, structs, maps, dictionaries";
enum { kMostRows = 48 };  // 2^48: no sum or product below wraps

struct ArrowCopy {
  struct ArrowCopy* next;
  uint64_t data[];
};

void arrow_free(ArrowTree* tree) {
  while (tree->copies != NULL) {
    struct ArrowCopy* const next = tree->copies->next;
    free(tree->copies);
    tree->copies = next;
  }
  free(tree->nodes);
  free(tree->buffers);
  free(tree->text);
}

/// The sender may write meanwhile. What was copied is looked at from here on, and never again what
/// it was copied from, which the compiler could think the same.
static void copy_once(void* into, const void* from, size_t bytes) {
  memcpy(into, from, bytes);
  atomic_signal_fence(memory_order_seq_cst);
}

// ---- I1

#define REFUSE(code, ...) return arrow_refuse(refusal, code, kAtSender, __VA_ARGS__)
#define BAD(node, why) \
  REFUSE(GANTRY_PEER_MISBEHAVED, "this table: '%.60s' %s", arrow_name(tree, node), why)

/// A count, and for each key and value a length and bytes.
static int metadata_fits(const char* at, uint32_t bytes) {
  uint32_t used = 4;
  int32_t pairs = 0, length = 0;
  if (bytes < 4) return 0;
  memcpy(&pairs, at, 4);
  if (pairs < 0) return 0;
  for (int64_t i = 0; i < 2 * (int64_t)pairs; ++i) {
    if (bytes - used < 4) return 0;
    memcpy(&length, at + used, 4);
    used += 4;
    if (length < 0 || (uint32_t)length > bytes - used) return 0;
    used += (uint32_t)length;
  }
  return used == bytes;
}

static int check_text(const ArrowTree* tree, const ArrowNode* node, ArrowRefusal* refusal) {
  const TableNode* const said = &node->said;
  const uint32_t none = (uint32_t)kArrowNone;
  if (said->format >= tree->text_bytes || (said->name != none && said->name >= tree->text_bytes))
    REFUSE(GANTRY_PEER_MISBEHAVED, "this table: a name or format lies outside of it");
  if (said->metadata == none) return 0;
  if (said->metadata > tree->text_bytes ||
      said->metadata_bytes > tree->text_bytes - said->metadata ||
      !metadata_fits(tree->text + said->metadata, said->metadata_bytes))
    BAD(node, "has metadata that do not fit");
  return 0;
}

static int check_numbers(const ArrowTree* tree, const ArrowNode* node, ArrowRefusal* refusal) {
  const TableNode* const said = &node->said;
  const int64_t most = INT64_C(1) << kMostRows;
  if (said->length < 0 || said->offset < 0 || said->length > most || said->offset > most)
    BAD(node, "has an impossible length or offset");
  if (said->null_count < -1 || said->null_count > said->length)
    BAD(node, "has an impossible null count");
  if (said->has_dictionary > 1 || (said->has_dictionary && !node->type.is_integer))
    BAD(node, "has a dictionary, and is no integer");
  const uint32_t children = said->children;
  const int is_list = node->type.layout >= kList;
  if (is_list ? children != 1 : node->type.layout != kStruct && children != 0)
    BAD(node, "has a wrong number of children");
  return 0;
}

/// How long each child must be at least; those of lists are measured by their offsets.
static int check_child(const ArrowTree* tree, const ArrowNode* parent, const ArrowNode* child,
                       ArrowRefusal* refusal) {
  const uint64_t total = (uint64_t)parent->said.length + (uint64_t)parent->said.offset;
  const uint64_t length = (uint64_t)child->said.length;
  if (parent->type.layout == kStruct && length < total) BAD(child, "is shorter than its parent");
  if (parent->type.layout == kFixedList && (unsigned __int128)total * parent->type.bits > length)
    BAD(child, "is shorter than its parent needs");
  if (parent->type.layout == kMap && (child->type.layout != kStruct || child->said.children != 2))
    BAD(child, "is not the pairs of a map");
  return 0;
}

static int check_node(ArrowTree* tree, uint32_t* at, uint32_t* buffer, int depth,
                      ArrowRefusal* refusal) {
  if (depth == kArrowDepth)
    REFUSE(GANTRY_UNSUPPORTED, "this table: it is nested more than 64 deep");
  if (*at == tree->node_count) REFUSE(GANTRY_PEER_MISBEHAVED, "this table: a child is missing");
  ArrowNode* const node = &tree->nodes[(*at)++];
  if (check_text(tree, node, refusal) != 0) return -1;
  if (arrow_type_of(tree->text + node->said.format, &node->type) != 0)
    return arrow_refuse(refusal, GANTRY_UNSUPPORTED, kFormats,
                        "this table: '%.60s' has the format '%.40s', which is not known here",
                        arrow_name(tree, node), tree->text + node->said.format);
  if (check_numbers(tree, node, refusal) != 0) return -1;
  node->buffer = *buffer;
  if ((uint32_t)node->type.buffers > tree->buffer_count - *buffer) BAD(node, "lacks a buffer");
  *buffer += (uint32_t)node->type.buffers;
  for (uint32_t i = 0; i < node->said.children + node->said.has_dictionary; ++i) {
    const ArrowNode* const child = &tree->nodes[*at];
    if (check_node(tree, at, buffer, depth + 1, refusal) != 0) return -1;
    if (i < node->said.children && check_child(tree, node, child, refusal) != 0) return -1;
  }
  node->end = *at;
  return 0;
}

int arrow_check_nodes(ArrowTree* tree, ArrowRefusal* refusal) {
  uint32_t nodes = 0, buffers = 0;
  if (tree->text_bytes == 0 || tree->text[tree->text_bytes - 1] != '\0')
    REFUSE(GANTRY_PEER_MISBEHAVED, "this table: its text has no end");
  if (check_node(tree, &nodes, &buffers, 0, refusal) != 0) return -1;
  if (nodes != tree->node_count || buffers != tree->buffer_count)
    REFUSE(GANTRY_PEER_MISBEHAVED, "this table: it has more than its columns");
  return 0;
}

// ---- I3

/// Makes a buffer a copy of its first `bytes`, all that anybody has reason to look at.
static int copy_buffer(ArrowTree* tree, ArrowBuffer* buffer, uint64_t bytes,
                       ArrowRefusal* refusal) {
  if (buffer->data == NULL || bytes == 0) return 0;
  struct ArrowCopy* const copy = malloc(sizeof *copy + ((bytes + 7) & ~UINT64_C(7)));
  if (copy == NULL)
    return arrow_refuse(refusal, GANTRY_OUT_OF_MEMORY, "release other messages first",
                        "this table: no memory for a copy of its offsets");
  copy_once(copy->data, buffer->data, bytes);
  copy->next = tree->copies;
  tree->copies = copy;
  buffer->data = copy->data;
  buffer->bytes = bytes;
  return 0;
}

static int is_set(const uint8_t* bits, uint64_t at) {
  return bits[at / 8] >> (at % 8) & 1;
}

static int64_t count_set(const uint8_t* bits, uint64_t at, uint64_t end) {
  int64_t count = 0;
  for (; at < end && at % 8 != 0; ++at) count += is_set(bits, at);
  for (uint64_t word; at + 64 <= end; at += 64) {
    memcpy(&word, bits + at / 8, sizeof word);
    count += __builtin_popcountll(word);
  }
  for (; at < end; ++at) count += is_set(bits, at);
  return count;
}

static int check_validity(ArrowTree* tree, const ArrowNode* node, ArrowRefusal* refusal) {
  ArrowBuffer* const buffer = &tree->buffers[node->buffer];
  if (buffer->data == NULL) {
    if (node->said.null_count > 0) BAD(node, "has nulls, but does not say which");
    return 0;
  }
  if (copy_buffer(tree, buffer, arrow_least_bytes(node, 0), refusal) != 0) return -1;
  const uint64_t begin = (uint64_t)node->said.offset, length = (uint64_t)node->said.length;
  const int64_t nulls = node->said.length - count_set(buffer->data, begin, begin + length);
  if (node->said.null_count != -1 && node->said.null_count != nulls)
    BAD(node, "has another number of nulls than it says");
  return 0;
}

#define DEFINE_CHECK_OFFSETS(type, name)                                       \
  static int name(const type* offsets, uint64_t total, uint64_t most) {        \
    int falls = offsets[0] < 0;                                                \
    for (uint64_t i = 0; i < total; ++i) falls |= offsets[i + 1] < offsets[i]; \
    return !falls && (uint64_t)offsets[total] <= most;                         \
  }
DEFINE_CHECK_OFFSETS(int32_t, offsets_fit_32)
DEFINE_CHECK_OFFSETS(int64_t, offsets_fit_64)

static int check_offsets(ArrowTree* tree, const ArrowNode* node, ArrowRefusal* refusal) {
  ArrowBuffer* const buffer = &tree->buffers[node->buffer + 1];
  const uint64_t total = (uint64_t)node->said.length + (uint64_t)node->said.offset;
  const uint64_t most =
      node->type.layout == kVariable ? buffer[1].bytes : (uint64_t)node[1].said.length;
  if (copy_buffer(tree, buffer, arrow_least_bytes(node, 1), refusal) != 0) return -1;
  if (total == 0) {  // they are not looked at; the consumer gets a 0
    *buffer = (ArrowBuffer){NULL, 0};
    return 0;
  }
  if (!(node->type.bits == 32 ? offsets_fit_32(buffer->data, total, most)
                              : offsets_fit_64(buffer->data, total, most)))
    BAD(node, "has offsets that fall, or end behind its values");
  return 0;
}

/// As an unsigned number: a negative one is too large for any dictionary.
static uint64_t index_at(const void* indices, uint64_t at, const ArrowType* type) {
  uint64_t value = 0;
  const unsigned bytes = type->bits / 8;
  memcpy(&value, (const char*)indices + at * bytes, bytes);
  const int is_negative = type->is_signed && value >> (type->bits - 1) != 0;
  return is_negative ? UINT64_MAX : value;
}

static int check_indices(ArrowTree* tree, const ArrowNode* node, ArrowRefusal* refusal) {
  ArrowBuffer* const buffers = &tree->buffers[node->buffer];
  if (copy_buffer(tree, &buffers[1], arrow_least_bytes(node, 1), refusal) != 0) return -1;
  const ArrowNode* dictionary = node + 1;  // it has no children
  const uint64_t most = (uint64_t)dictionary->said.length, begin = (uint64_t)node->said.offset;
  for (uint64_t i = begin; i < begin + (uint64_t)node->said.length; ++i)
    if (index_at(buffers[1].data, i, &node->type) >= most &&
        (buffers[0].data == NULL || is_set(buffers[0].data, i)))
      BAD(node, "has an index that its dictionary has not");
  return 0;
}

// ---- I2

static int check_buffers(ArrowTree* tree, const ArrowNode* node, ArrowRefusal* refusal) {
  for (int i = 0; i < node->type.buffers; ++i) {
    const ArrowBuffer* const buffer = &tree->buffers[node->buffer + (uint32_t)i];
    const uint64_t least = arrow_least_bytes(node, i);
    if (i == 0 && buffer->data == NULL) continue;
    if (buffer->bytes < least) BAD(node, "has a buffer that is too short");
    const uint64_t step = i == 1 && node->type.bits >= 64 ? 8 : node->type.bits / 8;
    if (i == 1 && (step & (step - 1)) == 0 && step > 1 && (uintptr_t)buffer->data % step != 0)
      BAD(node, "has a buffer that is not aligned");
  }
  if (node->type.buffers > 0 && check_validity(tree, node, refusal) != 0) return -1;
  const enum ArrowLayout layout = node->type.layout;
  if (layout == kVariable || layout == kList || layout == kMap)
    return check_offsets(tree, node, refusal);
  return node->said.has_dictionary ? check_indices(tree, node, refusal) : 0;
}

static int find_buffers(const char* places, const ArrowBuffer* segments, ArrowTree* tree,
                        ArrowRefusal* refusal) {
  uint64_t left = 0;  // segments lie in memory, so that this cannot wrap
  for (uint32_t i = 0; i < tree->segments; ++i) left += segments[i].bytes;
  for (uint32_t i = 0; i < tree->buffer_count; ++i) {
    TablePlace place;
    copy_once(&place, places + i * sizeof place, sizeof place);
    if (place.segment == (uint32_t)kArrowNone) continue;
    if (place.segment >= tree->segments || place.bytes > left ||
        place.offset > segments[place.segment].bytes ||
        place.bytes > segments[place.segment].bytes - place.offset)
      REFUSE(GANTRY_PEER_MISBEHAVED, "this table: a buffer lies outside of the message");
    left -= place.bytes;
    if (place.bytes == 0) continue;
    tree->buffers[i].data = (const char*)segments[place.segment].data + place.offset;
    tree->buffers[i].bytes = place.bytes;
  }
  return 0;
}

static int read_head(const ArrowBuffer* segments, uint32_t count, TableHead* head,
                     ArrowRefusal* refusal) {
  if (count > 0 && segments[0].bytes >= sizeof *head)
    copy_once(head, segments[0].data, sizeof *head);
  if (head->magic != kArrowMagic)
    return arrow_refuse(refusal, GANTRY_INVALID_ARGUMENT,
                        "message.array has arrays; table(index) begins at that segment",
                        "this message: no table begins there");
  if (head->nodes == 0 || head->nodes > kArrowNodes)
    REFUSE(GANTRY_UNSUPPORTED, "this table: it has no columns, or more than 65536 nodes");
  const uint64_t described = sizeof *head + head->nodes * (uint64_t)sizeof(TableNode) +
                             head->buffers * (uint64_t)sizeof(TablePlace) + head->text_bytes;
  if (described > segments[0].bytes)
    REFUSE(GANTRY_PEER_MISBEHAVED, "this table: its description is cut off");
  if (head->segments == 0 || head->segments > count)
    return arrow_refuse(refusal, GANTRY_PEER_MISBEHAVED,
                        "send tables over channels, not over pipes or ZeroMQ",
                        "this table: it has %u segments, the message %u", head->segments, count);
  return 0;
}

int arrow_load(const ArrowBuffer* segments, uint32_t count, ArrowTree* tree,
               ArrowRefusal* refusal) {
  TableHead head = {0};
  if (read_head(segments, count, &head, refusal) != 0) return -1;
  const char* const nodes = (const char*)segments[0].data + sizeof head;
  const char* const places = nodes + head.nodes * sizeof(TableNode);
  tree->node_count = head.nodes;
  tree->buffer_count = head.buffers;
  tree->text_bytes = head.text_bytes;
  tree->segments = head.segments;
  tree->nodes = calloc(head.nodes, sizeof *tree->nodes);
  tree->buffers = calloc((size_t)head.buffers + 1, sizeof *tree->buffers);
  tree->text = malloc((size_t)head.text_bytes + 1);
  if (tree->nodes == NULL || tree->buffers == NULL || tree->text == NULL)
    return arrow_refuse(refusal, GANTRY_OUT_OF_MEMORY, "release other messages first",
                        "this table: no memory for its description");
  for (uint32_t i = 0; i < head.nodes; ++i)
    copy_once(&tree->nodes[i].said, nodes + i * sizeof(TableNode), sizeof(TableNode));
  copy_once(tree->text, places + head.buffers * sizeof(TablePlace), head.text_bytes);
  if (arrow_check_nodes(tree, refusal) != 0) return -1;
  if (find_buffers(places, segments, tree, refusal) != 0) return -1;
  for (uint32_t i = 0; i < tree->node_count; ++i)
    if (check_buffers(tree, &tree->nodes[i], refusal) != 0) return -1;
  return 0;
}
