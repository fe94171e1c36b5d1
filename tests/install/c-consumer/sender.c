// c-consumer/sender.c: sends the stream.

#include "stream.h"

int main(void) {
  static unsigned char bytes[kMostBytes];
  gantry_runtime* runtime = NULL;
  gantry_producer* out = NULL;
  check(gantry_runtime_create(NULL, &runtime));
  check(gantry_producer_open(runtime, kName, NULL, &out));
  for (unsigned number = 0; number < kMessages; ++number) {
    gantry_part part = {sizeof part};
    part.data = bytes;
    part.bytes = size_of(number);
    for (size_t i = 0; i < part.bytes; ++i) bytes[i] = byte_at(number, i);
    check(gantry_send(out, &part, 1, kPatienceNs, NULL));
  }
  check(gantry_producer_close(out, kPatienceNs));
  gantry_free(out);
  gantry_free(runtime);
  return 0;
}
