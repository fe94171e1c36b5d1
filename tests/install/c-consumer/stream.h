#pragma once  // c-consumer/stream.h: what sender and receiver agree on: sizes and every byte.

#include <gantry/gantry.h>
#include <stdio.h>
#include <stdlib.h>

static const char* const kName = "c-consumer-test";
static const int64_t kPatienceNs = INT64_C(120000000000);  // Only a hang takes this long.
enum { kMessages = 200, kMostBytes = 300000 };

static inline size_t size_of(unsigned number) {
  return (number * 7919u) % kMostBytes;
}
static inline unsigned char byte_at(unsigned number, size_t offset) {
  return (unsigned char)(number * 131u + offset * 7 + offset / 251);
}
static inline void check(gantry_code code) {
  if (code == GANTRY_OK) return;
  fprintf(stderr, "%s: %s\n", gantry_last_error()->message, gantry_last_error()->hint);
  exit(1);
}
