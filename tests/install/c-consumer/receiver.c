// c-consumer/receiver.c: receives the stream and checks every byte of it.

#include "stream.h"

static int is_as_sent(const gantry_message* message, unsigned number) {
  gantry_segment segment = {sizeof segment};
  check(gantry_message_segment(message, 0, &segment));
  if (segment.bytes != size_of(number)) return 0;
  for (size_t i = 0; i < segment.bytes; ++i)
    if (((const unsigned char*)segment.data)[i] != byte_at(number, i)) return 0;
  return 1;
}

int main(void) {
  gantry_runtime* runtime = NULL;
  gantry_consumer* in = NULL;
  gantry_message* message = NULL;
  check(gantry_runtime_create(NULL, &runtime));
  check(gantry_consumer_open(runtime, kName, NULL, kPatienceNs, &in));
  for (unsigned number = 0; number < kMessages; ++number) {
    check(gantry_receive(in, kPatienceNs, &message));
    if (!is_as_sent(message, number)) {
      fprintf(stderr, "receiver: message %u is not as sent\n", number);
      return 1;
    }
    gantry_free(message);
  }
  if (gantry_receive(in, kPatienceNs, &message) != GANTRY_CLOSED) return 1;
  gantry_free(in);
  gantry_free(runtime);
  printf("receiver: %d messages, every byte as sent\n", kMessages);
  return 0;
}
