// How small items of a queue are written: for each value a byte that says its kind, and what
// belongs to it. Plain C without Python, so that tests/fuzz/ reads the same lines.
//   'N' 'T' 'F'   None, True, False
//   'i' 'f'       8 bytes: an int of 64 bits with a sign, a float
//   'b' 's'       4 bytes for the length, and as many: bytes, or text in UTF-8
//   't'           1 byte: so many values follow, of a tuple
//   'a' 'A'       an array that may be written to, and one that may not: 1 byte for the character
//                 that names its elements' type, 1 for its dimensions, 4 for the length, and as
//                 many bytes: 8 for each dimension, and the elements, the last dimension first
// Numbers are of this machine's order: an item stays on its host. No kind is 0x80, with which each
// pickle of protocol 2 and later begins.

#ifndef GANTRY_PYTHON_ITEM_CODE_H
#define GANTRY_PYTHON_ITEM_CODE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
  kItemMost = 4096,    // bytes of an item that is written so
  kItemMostDepth = 8,  // of tuples in tuples, and dimensions
  kItemMostValues = 255
};

typedef struct ItemReader {
  const unsigned char* at;
  size_t left;
} ItemReader;

typedef struct ItemValue {
  char kind;
  uint8_t values;  // of a tuple; dimensions of an array
  char element;    // of an array
  uint32_t length;
  const unsigned char* bytes;  // within what is read
  int64_t number;
  double real;
} ItemValue;

static inline int item_take(ItemReader* reader, void* into, size_t bytes) {
  if (reader->left < bytes) return -1;
  memcpy(into, reader->at, bytes);
  reader->at += bytes;
  reader->left -= bytes;
  return 0;
}

/// The next value, of a tuple only how many follow. 0; -1: these are no such bytes.
static inline int item_next(ItemReader* reader, ItemValue* value) {
  memset(value, 0, sizeof *value);
  if (item_take(reader, &value->kind, 1) != 0) return -1;
  switch (value->kind) {
    case 'N':
    case 'T':
    case 'F':
      return 0;
    case 'i':
      return item_take(reader, &value->number, sizeof value->number);
    case 'f':
      return item_take(reader, &value->real, sizeof value->real);
    case 't':
      return item_take(reader, &value->values, 1);
    case 'a':
    case 'A':
      if (item_take(reader, &value->element, 1) != 0 || item_take(reader, &value->values, 1) != 0)
        return -1;
      // fall through
    case 'b':
    case 's':
      if (item_take(reader, &value->length, sizeof value->length) != 0 ||
          reader->left < value->length)
        return -1;
      value->bytes = reader->at;
      reader->at += value->length;
      reader->left -= value->length;
      return 0;
    default:
      return -1;
  }
}

typedef struct ItemWriter {
  unsigned char bytes[kItemMost];
  size_t size;
} ItemWriter;

/// 0; -1: there is no room.
static inline int item_put(ItemWriter* writer, const void* bytes, size_t count) {
  if (count > sizeof writer->bytes - writer->size) return -1;
  if (count != 0) memcpy(writer->bytes + writer->size, bytes, count);
  writer->size += count;
  return 0;
}

static inline int item_write(ItemWriter* writer, const ItemValue* value) {
  if (item_put(writer, &value->kind, 1) != 0) return -1;
  switch (value->kind) {
    case 'i':
      return item_put(writer, &value->number, sizeof value->number);
    case 'f':
      return item_put(writer, &value->real, sizeof value->real);
    case 't':
      return item_put(writer, &value->values, 1);
    case 'a':
    case 'A':
      if (item_put(writer, &value->element, 1) != 0 || item_put(writer, &value->values, 1) != 0)
        return -1;
      // fall through
    case 'b':
    case 's':
      if (item_put(writer, &value->length, sizeof value->length) != 0) return -1;
      return item_put(writer, value->bytes, value->length);
    default:
      return 0;
  }
}

#endif
