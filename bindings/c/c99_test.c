/* c/c99_test.c: two processes in C99 that know gantry.h alone. Compiled with -std=c99 -pedantic. */

#define _POSIX_C_SOURCE 200809L

#include <gantry/gantry.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MESSAGES = 100, ROWS = 37, COLUMNS = 1000 };
static const int64_t patience_ns = INT64_C(60000000000);
static const char* directory;

/* Ends the process with what the library says of a call that failed. */
static void check(gantry_code code, const char* what) {
  if (code == GANTRY_OK) return;
  fprintf(stderr, "c99_test: %s: %s: %s; %s\n", what, gantry_code_name(code),
          gantry_last_error()->message, gantry_last_error()->hint);
  exit(1);
}

static void expect(int is_true, const char* what) {
  if (is_true) return;
  fprintf(stderr, "c99_test: not so: %s\n", what);
  exit(1);
}

static float value_at(int number, size_t index) {
  return (float)number + (float)index / 8;
}

static gantry_runtime* open_runtime(void) {
  gantry_runtime_options options = {sizeof options};
  gantry_runtime* runtime = NULL;
  options.directory = directory;
  check(gantry_runtime_create(&options, &runtime), "runtime");
  return runtime;
}

/* Odd messages are written in place, even ones are copied. */
static void send_one(gantry_producer* out, int number, const gantry_tensor* tensor) {
  const size_t count = (size_t)ROWS * COLUMNS;
  gantry_loan* loan = NULL;
  void* data = NULL;
  float* values;
  size_t i;
  if (number % 2 != 0)
    check(gantry_loan_take(out, count * sizeof(float), patience_ns, &loan, &data), "loan");
  else
    data = malloc(count * sizeof(float));
  values = data;
  for (i = 0; i < count; ++i) values[i] = value_at(number, i);
  if (loan != NULL) {
    check(gantry_loan_publish(out, loan, 0, tensor, patience_ns, NULL), "publish");
    gantry_free(loan);
  } else {
    gantry_part part = {sizeof part};
    part.data = data;
    part.bytes = count * sizeof(float);
    part.tensor = tensor;
    check(gantry_send(out, &part, 1, patience_ns, NULL), "send");
    free(data);
  }
}

static int send_all(void) {
  const gantry_tensor tensor = {GANTRY_FLOAT, 32, 1, 2, {ROWS, COLUMNS}, {COLUMNS, 1}};
  gantry_runtime* runtime = open_runtime();
  gantry_producer* out = NULL;
  int number;
  check(gantry_producer_open(runtime, "c99", NULL, &out), "producer");
  for (number = 0; number < MESSAGES; ++number) send_one(out, number, &tensor);
  check(gantry_producer_close(out, patience_ns), "close");
  gantry_free(out);
  gantry_free(runtime);
  return 0;
}

static void check_message(gantry_message* message, int number) {
  gantry_segment segment = {sizeof segment};
  gantry_message_info info = {sizeof info};
  const float* values;
  size_t i;
  check(gantry_message_get_info(message, &info), "info");
  expect(info.sequence == (uint64_t)number + 1 && info.segments == 1, "number and segments");
  check(gantry_message_segment(message, 0, &segment), "segment");
  expect(segment.has_tensor == 1 && segment.tensor.dimensions == 2 &&
             segment.tensor.shape[0] == ROWS && segment.tensor.strides[0] == COLUMNS,
         "its tensor is that which was sent");
  expect(segment.bytes == sizeof(float) * ROWS * COLUMNS, "its size is that which was sent");
  values = segment.data;
  for (i = 0; i < (size_t)ROWS * COLUMNS; ++i)
    expect(memcmp(&values[i], &(float){value_at(number, i)}, sizeof(float)) == 0,  // NOLINT: the bits
           "each value is that which was sent");
}

int main(void) {
  char folder[] = "/tmp/gantry-c99-XXXXXX";
  gantry_runtime* runtime;
  gantry_consumer* in = NULL;
  gantry_message* message = NULL;
  int number;
  int status = 0;
  pid_t sender;
  expect(mkdtemp(folder) != NULL, "a folder can be made");
  directory = folder;
  sender = fork();
  if (sender == 0) return send_all();
  runtime = open_runtime();
  check(gantry_consumer_open(runtime, "c99", NULL, patience_ns, &in), "consumer");
  for (number = 0; number < MESSAGES; ++number) {
    check(gantry_receive(in, patience_ns, &message), "receive");
    check_message(message, number);
    gantry_free(message);
  }
  expect(gantry_receive(in, -1, &message) == GANTRY_CLOSED, "the stream ends");
  gantry_free(in);
  gantry_free(runtime);
  expect(waitpid(sender, &status, 0) == sender && status == 0, "the sender ends well");
  expect(rmdir(folder) == 0 || remove(folder) == 0, "nothing is left behind");
  printf("c99_test: %d messages, every byte as sent, by library %s\n", MESSAGES, gantry_version());
  return 0;
}
