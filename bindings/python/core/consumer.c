// The receiving end: of a channel, an inbox, a server, a stage.

#include "core.h"

/// Of a queue: "queue", or "queue, done by hand". Its first question connects it, which takes as
/// long as the queue does not run: here, where others have the GIL.
static gantry_code open_queue_end(const struct Opening* it, int64_t timeout_ns,
                                  gantry_consumer** made) {
  gantry_queue_report report = {.size = sizeof report};
  const unsigned acknowledge =
      it->kind[5] == '\0' ? GANTRY_ACKNOWLEDGE_ON_GET : GANTRY_ACKNOWLEDGE_BY_HAND;
  gantry_code code =
      gantry_queue_get_end(it->runtime, it->name, it->options, acknowledge, timeout_ns, made);
  if (code != GANTRY_OK) return code;
  code = gantry_queue_ask(*made, GANTRY_QUEUE_REPORT, timeout_ns, &report);
  if (code == GANTRY_OK) return code;
  gantry_free(*made);
  *made = NULL;
  return code;
}

static gantry_code open_kind(const struct Opening* it, int64_t timeout_ns, gantry_consumer** made) {
  switch (it->kind[0]) {
    case 'i':
      return gantry_inbox_open(it->runtime, it->name, it->options, made);
    case 's':
      return gantry_server_open(it->runtime, it->name, it->options, made);
    case 'q':
      return open_queue_end(it, timeout_ns, made);
    case 'g':
      return gantry_stage_input(it->runtime, it->name, made);
    default:
      return gantry_consumer_open(it->runtime, it->name, it->options, timeout_ns, made);
  }
}

static gantry_code open_step(void* handle, void* arguments, int64_t timeout_ns) {
  (void)handle;
  struct Opening* const it = arguments;
  gantry_consumer* made = NULL;
  const gantry_code code = open_kind(it, timeout_ns, &made);
  it->made = made;
  return code;
}

#define FIELD(name, kind) {#name, kind, offsetof(gantry_consumer_options, name)}
static const struct Option kOptions[] = {FIELD(depth, kNumber),
                                         FIELD(senders, kNumber),
                                         FIELD(spin_ns, kSigned64),
                                         FIELD(when_slow, kNumber),
                                         {0}};

static PyObject* consumer_open(PyObject* self, PyObject* arguments) {
  gantry_consumer_options options = {.size = sizeof options};
  struct Opening it = {.options = &options, .interrupt_descriptor = &options.interrupt_descriptor};
  return end_open((End*)self, arguments, &it, kOptions, open_step);
}

static gantry_code receive_step(void* handle, void* arguments, int64_t timeout_ns) {
  return gantry_receive(handle, timeout_ns, arguments);
}

/// receive(timeout): the next message; None if there is none within `timeout`.
static PyObject* consumer_receive(PyObject* self, PyObject* seconds) {
  const int64_t timeout_ns = timeout_of(seconds);
  if (timeout_ns == -2) return NULL;
  gantry_message* message = NULL;
  const gantry_code code = end_run((End*)self, receive_step, &message, timeout_ns, kQuick);
  if (code == GANTRY_OK) return message_new(message, ((End*)self)->held);
  if (code == GANTRY_TIMED_OUT) Py_RETURN_NONE;
  return raise_code(code);
}

/// receive_now(): as receive(0), with the library's words of what keeps a message from coming.
static PyObject* consumer_receive_now(PyObject* self, PyObject* unused) {
  (void)unused;
  gantry_message* message = NULL;
  const gantry_code code = end_run((End*)self, receive_step, &message, 0, kQuick);
  return code == GANTRY_OK ? message_new(message, ((End*)self)->held) : raise_code(code);
}

static gantry_code look_step(void* handle, void* arguments, int64_t timeout_ns) {
  return gantry_look(handle, timeout_ns, arguments);
}

/// look(timeout): the next message where it lies, until its end_look().
static PyObject* consumer_look(PyObject* self, PyObject* seconds) {
  const int64_t timeout_ns = timeout_of(seconds);
  if (timeout_ns == -2) return NULL;
  gantry_message* message = NULL;
  const gantry_code code = end_run((End*)self, look_step, &message, timeout_ns, kQuick);
  return code == GANTRY_OK ? message_of_look(message, (End*)self) : raise_code(code);
}

struct Into {
  Py_buffer buffer;
  size_t received;
};

static gantry_code receive_into_step(void* handle, void* arguments, int64_t timeout_ns) {
  struct Into* const it = arguments;
  return gantry_receive_into(handle, it->buffer.buf, (size_t)it->buffer.len, timeout_ns,
                             &it->received, NULL);
}

/// receive_into(buffer, timeout): the number of bytes.
static PyObject* consumer_receive_into(PyObject* self, PyObject* arguments) {
  PyObject *object, *seconds;
  if (!PyArg_ParseTuple(arguments, "OO", &object, &seconds)) return NULL;
  const int64_t timeout_ns = timeout_of(seconds);
  struct Into it = {.received = 0};
  if (timeout_ns == -2 || PyObject_GetBuffer(object, &it.buffer, PyBUF_CONTIG) != 0) return NULL;
  const gantry_code code = end_run((End*)self, receive_into_step, &it, timeout_ns, 0);
  PyBuffer_Release(&it.buffer);
  return code != GANTRY_OK ? raise_code(code) : PyLong_FromSize_t(it.received);
}

static gantry_code rejoin_step(void* handle, void* arguments, int64_t timeout_ns) {
  (void)arguments;
  return gantry_consumer_rejoin(handle, timeout_ns);
}

static PyObject* consumer_rejoin(PyObject* self, PyObject* seconds) {
  const int64_t timeout_ns = timeout_of(seconds);
  if (timeout_ns == -2) return NULL;
  const gantry_code code = end_run((End*)self, rejoin_step, NULL, timeout_ns, kLong);
  if (code != GANTRY_OK) return raise_code(code);
  Py_RETURN_NONE;
}

static gantry_code descriptor_step(void* handle, void* arguments, int64_t timeout_ns) {
  (void)timeout_ns;
  return gantry_consumer_descriptor(handle, arguments);
}

static PyObject* consumer_descriptor(PyObject* self, PyObject* unused) {
  (void)unused;
  int descriptor = -1;
  const gantry_code code = end_run((End*)self, descriptor_step, &descriptor, 0, kQuick);
  return code != GANTRY_OK ? raise_code(code) : PyLong_FromLong(descriptor);
}

static PyMethodDef consumer_methods[] = {
    {"open", consumer_open, METH_VARARGS, NULL},
    {"receive", consumer_receive, METH_O, NULL},
    {"receive_now", consumer_receive_now, METH_NOARGS, NULL},
    {"look", consumer_look, METH_O, NULL},
    {"receive_into", consumer_receive_into, METH_VARARGS, NULL},
    {"rejoin", consumer_rejoin, METH_O, NULL},
    {"get", queue_get, METH_O, NULL},
    {"get_many", queue_get_many, METH_VARARGS, NULL},
    {"ask", queue_ask, METH_VARARGS, NULL},
    {"descriptor", consumer_descriptor, METH_NOARGS, NULL},
    {"close", end_close_now, METH_NOARGS, NULL},
    {0}};
/// How many messages have been received and are still held.
static PyObject* consumer_held(PyObject* self, void* unused) {
  (void)unused;
  return PyLong_FromSize_t(((End*)self)->held->messages);
}

static PyGetSetDef consumer_getset[] = {
    {"is_open", end_is_open, NULL, NULL, NULL}, {"held", consumer_held, NULL, NULL, NULL}, {0}};
static PyType_Slot consumer_slots[] = {{Py_tp_new, end_new},
                                       {Py_tp_dealloc, end_dealloc},
                                       {Py_tp_methods, consumer_methods},
                                       {Py_tp_getset, consumer_getset},
                                       {0, NULL}};
PyType_Spec consumer_spec = {"gantry._core.Consumer", sizeof(End), 0, Py_TPFLAGS_DEFAULT,
                             consumer_slots};
