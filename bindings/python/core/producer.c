// The sending end: of a channel, to an inbox or a server, of a stage. And calls.

#include "core.h"

static gantry_code open_kind(const struct Opening* it, int64_t timeout_ns, gantry_producer** made) {
  switch (it->kind[0]) {
    case 'i':
      return gantry_producer_connect(it->runtime, it->name, it->options, timeout_ns, made);
    case 's':
      return gantry_client_connect(it->runtime, it->name, it->options, timeout_ns, made);
    case 'q':
      return gantry_queue_put_end(it->runtime, it->name, it->options, timeout_ns, made);
    case 'g':
      return gantry_stage_output(it->runtime, it->name, made);
    default:
      return gantry_producer_open(it->runtime, it->name, it->options, made);
  }
}

static gantry_code open_step(void* handle, void* arguments, int64_t timeout_ns) {
  (void)handle;
  struct Opening* const it = arguments;
  gantry_producer* made = NULL;
  const gantry_code code = open_kind(it, timeout_ns, &made);
  it->made = made;
  return code;
}

#define FIELD(name, kind) {#name, kind, offsetof(gantry_producer_options, name)}
static const struct Option kOptions[] = {FIELD(slots, kCount),
                                         FIELD(consumers, kCount),
                                         FIELD(mode, kMode),
                                         FIELD(history, kNumber),
                                         FIELD(copy_threads, kNumber),
                                         FIELD(spin_ns, kSigned64),
                                         FIELD(bytes_in_flight, kNumber64),
                                         FIELD(budget_bytes, kNumber64),
                                         FIELD(pool, kPool),
                                         {0}};

static PyObject* producer_open(PyObject* self, PyObject* arguments) {
  gantry_producer_options options = {.size = sizeof options};
  struct Opening it = {.options = &options, .interrupt_descriptor = &options.interrupt_descriptor};
  return end_open((End*)self, arguments, &it, kOptions, open_step);
}

// ---- send(values, timeout, type, user), and send_async()

struct Sending {
  Parts* parts;
  gantry_send_options options;
  int64_t timeout_ns;
  uint64_t ticket;
};

static gantry_code send_step(void* handle, void* arguments, int64_t timeout_ns) {
  struct Sending* const it = arguments;
  return gantry_send(handle, it->parts->parts, it->parts->count, timeout_ns, &it->options);
}

static gantry_code send_async_step(void* handle, void* arguments, int64_t timeout_ns) {
  (void)timeout_ns;
  struct Sending* const it = arguments;
  return gantry_send_async(handle, it->parts->parts, it->parts->count, it->timeout_ns, &it->options,
                           &it->ticket);
}

static int read_sending(PyObject* const* arguments, Py_ssize_t count, struct Sending* it) {
  if (count != 4) {
    PyErr_SetString(PyExc_TypeError, "(values, timeout, type, user)");
    return -1;
  }
  it->options = (gantry_send_options){.size = sizeof it->options};
  it->timeout_ns = timeout_of(arguments[1]);
  if (it->timeout_ns == -2 || read_number(arguments[2], "type", &it->options.type) != 0 ||
      read_number64(arguments[3], "user", &it->options.user) != 0)
    return -1;
  it->parts = parts_of(arguments[0]);
  return it->parts == NULL ? -1 : 0;
}

// ---- what an end keeps until its ticket has ended

/// Whether the last call on a ticket says that it has not ended; GANTRY_TIMED_OUT may be how it
/// ended, too.
static int goes_on(gantry_code code) {
  return code == GANTRY_INTERRUPTED ||
         (code == GANTRY_TIMED_OUT &&
          strcmp(gantry_last_error()->message, "the message was not sent in time") == 0);
}

struct Ended {
  End* end;
  InFlight* first;
};

/// Takes those whose tickets have ended, which they do in their order.
static gantry_code take_ended(void* handle, void* arguments, int64_t timeout_ns) {
  struct Ended* const it = arguments;
  InFlight** at = &it->end->in_flight;
  while (*at != NULL && !goes_on(gantry_ticket_wait(handle, (*at)->ticket, timeout_ns)))
    at = &(*at)->next;
  if (at == &it->end->in_flight) return GANTRY_OK;
  it->first = it->end->in_flight;
  it->end->in_flight = *at;
  *at = NULL;
  return GANTRY_OK;
}

/// Lets go of what the library does not read any more.
static void free_ended(End* end) {
  struct Ended it = {end, NULL};
  if (end->in_flight != NULL) end_glance(end, take_ended, &it);
  in_flight_free(it.first);  // what runs then may use the end
}

static void keep(End* end, InFlight* entry, const struct Sending* it) {
  *entry = (InFlight){NULL, it->ticket, (PyObject*)it->parts};
  InFlight** last = &end->in_flight;
  while (*last != NULL) last = &(*last)->next;
  *last = entry;
}

static PyObject* producer_send(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  struct Sending it;
  free_ended((End*)self);
  if (read_sending(arguments, count, &it) != 0) return NULL;
  const int flags = it.parts->forwards ? kOnce : it.parts->bytes <= kQuickBytes ? kQuick : 0;
  const gantry_code code = end_run((End*)self, send_step, &it, it.timeout_ns, flags);
  Py_DECREF(it.parts);
  if (code != GANTRY_OK) return raise_code(code);
  if (PyErr_CheckSignals() != 0) return say_put(1);  // otherwise nobody would learn that it went
  Py_RETURN_NONE;
}

/// Returns the ticket. The end keeps what is read until that has ended.
static PyObject* producer_send_async(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  End* const end = (End*)self;
  struct Sending it;
  free_ended(end);
  if (read_sending(arguments, count, &it) != 0) return NULL;
  InFlight* const entry = PyMem_Malloc(sizeof *entry);
  const gantry_code code = entry == NULL ? -1 : end_run(end, send_async_step, &it, 0, kOnce);
  if (code == GANTRY_OK) {
    keep(end, entry, &it);
    return PyLong_FromUnsignedLongLong(it.ticket);
  }
  if (entry == NULL) PyErr_NoMemory();
  raise_code(code);
  Py_DECREF(it.parts);
  PyMem_Free(entry);
  return NULL;
}

static gantry_code ticket_step(void* handle, void* arguments, int64_t timeout_ns) {
  return gantry_ticket_wait(handle, *(uint64_t*)arguments, timeout_ns);
}

/// has_ended(ticket): raises what its send ended with.
static PyObject* producer_has_ended(PyObject* self, PyObject* number) {
  uint64_t ticket;
  if (read_number64(number, "ticket", &ticket) != 0) return NULL;
  const gantry_code code = end_run((End*)self, ticket_step, &ticket, 0, kQuick);
  if (code != -1 && goes_on(code)) Py_RETURN_FALSE;
  if (code != GANTRY_OK) raise_code(code);
  free_ended((End*)self);
  if (code != GANTRY_OK) return NULL;
  Py_RETURN_TRUE;
}

// ---- the rest

static gantry_code wait_step(void* handle, void* arguments, int64_t timeout_ns) {
  return gantry_producer_wait_for_consumers(handle, *(uint32_t*)arguments, timeout_ns);
}

static PyObject* producer_wait_for_consumers(PyObject* self, PyObject* arguments) {
  uint32_t count;
  PyObject *given, *seconds;
  if (!PyArg_ParseTuple(arguments, "OO", &given, &seconds) ||
      read_number(given, "count", &count) != 0)
    return NULL;
  const int64_t timeout_ns = timeout_of(seconds);
  if (timeout_ns == -2) return NULL;
  const gantry_code code = end_run((End*)self, wait_step, &count, timeout_ns, kLong);
  if (code != GANTRY_OK) return raise_code(code);
  Py_RETURN_NONE;
}

static gantry_code finish_step(void* handle, void* arguments, int64_t timeout_ns) {
  (void)arguments;
  return gantry_producer_close(handle, timeout_ns);
}

static PyObject* producer_finish(PyObject* self, PyObject* seconds) {
  const int64_t timeout_ns = timeout_of(seconds);
  if (timeout_ns == -2) return NULL;
  const gantry_code code = end_run((End*)self, finish_step, NULL, timeout_ns, kLong);
  if (code != GANTRY_OK) return raise_code(code);
  Py_RETURN_NONE;
}

static gantry_code pool_step(void* handle, void* arguments, int64_t timeout_ns) {
  (void)timeout_ns;
  return gantry_producer_pool(handle, arguments);
}

static PyObject* producer_pool(PyObject* self, PyObject* unused) {
  (void)unused;
  gantry_pool* pool = NULL;
  const gantry_code code = end_run((End*)self, pool_step, &pool, 0, kQuick);
  return code != GANTRY_OK ? raise_code(code) : pool_new(pool);
}

static gantry_code descriptor_step(void* handle, void* arguments, int64_t timeout_ns) {
  (void)timeout_ns;
  return gantry_producer_descriptor(handle, arguments);
}

static PyObject* producer_descriptor(PyObject* self, PyObject* unused) {
  (void)unused;
  int descriptor = -1;
  const gantry_code code = end_run((End*)self, descriptor_step, &descriptor, 0, kQuick);
  return code != GANTRY_OK ? raise_code(code) : PyLong_FromLong(descriptor);
}

// ---- calls

typedef struct Call {
  PyObject_HEAD End* client;
  gantry_call* handle;
} Call;

struct Beginning {
  struct Sending sending;
  gantry_call* call;
};

static gantry_code begin_step(void* handle, void* arguments, int64_t timeout_ns) {
  (void)timeout_ns;
  struct Beginning* const it = arguments;
  return gantry_call_begin(handle, it->sending.parts->parts, it->sending.parts->count,
                           it->sending.timeout_ns, &it->sending.options, &it->call);
}

/// begin_call(values, timeout, type, 0)
static PyObject* producer_begin_call(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  struct Beginning it = {.call = NULL};
  if (read_sending(arguments, count, &it.sending) != 0) return NULL;
  const gantry_code code = end_run((End*)self, begin_step, &it, it.sending.timeout_ns, kOnce);
  Py_DECREF(it.sending.parts);
  if (code != GANTRY_OK) return raise_code(code);
  Call* const call = (Call*)PyType_GenericAlloc(call_type, 0);
  if (call == NULL) {
    end_doom((End*)self, it.call);
    return NULL;
  }
  call->client = (End*)Py_NewRef(self);
  call->handle = it.call;
  return (PyObject*)call;
}

struct Awaiting {
  gantry_call* call;
  gantry_message* reply;
  gantry_code outcome;
};

static gantry_code reply_step(void* handle, void* arguments, int64_t timeout_ns) {
  (void)handle;
  struct Awaiting* const it = arguments;
  int is_over = 0;
  const gantry_code code = gantry_call_wait(it->call, timeout_ns, &it->reply, &is_over);
  if (code == GANTRY_OK || !is_over) return code;
  it->outcome = code;  // a server refuses by any code, also by those that end a mere step here
  return GANTRY_OK;
}

/// wait(timeout): the reply; None if the call goes on.
static PyObject* call_wait(PyObject* self, PyObject* seconds) {
  Call* const call = (Call*)self;
  struct Awaiting it = {.call = call->handle};
  const int64_t timeout_ns = timeout_of(seconds);
  if (timeout_ns == -2) return NULL;
  const gantry_code code = end_run(call->client, reply_step, &it, timeout_ns, kQuick);
  if (code == GANTRY_TIMED_OUT) Py_RETURN_NONE;
  if (code != GANTRY_OK) return raise_code(code);
  return it.outcome != GANTRY_OK ? raise_code(it.outcome) : message_new(it.reply, NULL);
}

static void call_dealloc(PyObject* self) {
  Call* const call = (Call*)self;
  if (call->handle != NULL) end_doom(call->client, call->handle);
  Py_XDECREF((PyObject*)call->client);
  dealloc_object(self);
}

static PyMethodDef call_methods[] = {{"wait", call_wait, METH_O, NULL}, {0}};
static PyType_Slot call_slots[] = {
    {Py_tp_dealloc, call_dealloc}, {Py_tp_methods, call_methods}, {0, NULL}};
PyType_Spec call_spec = {"gantry._core.Call", sizeof(Call), 0,
                         Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, call_slots};

static PyMethodDef producer_methods[] = {
    {"open", producer_open, METH_VARARGS, NULL},
    {"send", FASTCALL(producer_send), METH_FASTCALL, NULL},
    {"send_async", FASTCALL(producer_send_async), METH_FASTCALL, NULL},
    {"has_ended", producer_has_ended, METH_O, NULL},
    {"wait_for_consumers", producer_wait_for_consumers, METH_VARARGS, NULL},
    {"finish", producer_finish, METH_O, NULL},
    {"ask", queue_ask, METH_VARARGS, NULL},
    {"put_many", queue_put_many, METH_VARARGS, NULL},
    {"pool", producer_pool, METH_NOARGS, NULL},
    {"descriptor", producer_descriptor, METH_NOARGS, NULL},
    {"begin_call", FASTCALL(producer_begin_call), METH_FASTCALL, NULL},
    {"close", end_close_now, METH_NOARGS, NULL},
    {0}};
static PyGetSetDef producer_getset[] = {{"is_open", end_is_open, NULL, NULL, NULL}, {0}};
static PyType_Slot producer_slots[] = {{Py_tp_new, end_new},
                                       {Py_tp_dealloc, end_dealloc},
                                       {Py_tp_methods, producer_methods},
                                       {Py_tp_getset, producer_getset},
                                       {0, NULL}};
PyType_Spec producer_spec = {"gantry._core.Producer", sizeof(End), 0, Py_TPFLAGS_DEFAULT,
                             producer_slots};
