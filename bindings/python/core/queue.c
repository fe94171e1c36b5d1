// A queue of work, as its owner has it, and what its ends do besides sending and receiving.

#include "core.h"

typedef End Queue;  // its waits are those of take_here()

static gantry_queue* open_queue(PyObject* arguments) {
  PyObject *runtime, *given;
  const char* name;
  gantry_queue_options options = {.size = sizeof options};
  if (!PyArg_ParseTuple(arguments, "OOIIKK", &runtime, &given, &options.members, &options.slots,
                        &options.most_copied, &options.most_items) ||
      read_text(given, "name", &name) != 0)
    return NULL;
  gantry_runtime* const finder = runtime_of(runtime);
  if (finder == NULL) return NULL;
  gantry_queue* queue = NULL;
  PyThreadState* const state = PyEval_SaveThread();
  const gantry_code code = gantry_queue_open(finder, name, &options, &queue);
  PyEval_RestoreThread(state);
  if (code != GANTRY_OK) raise_code(code);
  return queue;
}

/// Queue(runtime, name, members, slots, most_copied, most_items)
static PyObject* queue_make(PyTypeObject* type, PyObject* arguments, PyObject* words) {
  (void)words;
  gantry_queue* const handle = open_queue(arguments);
  if (handle == NULL) return NULL;
  Queue* const queue = (Queue*)end_new(type, NULL, NULL);
  if (queue == NULL)
    gantry_free(handle);
  else
    queue->handle = handle;
  return (PyObject*)queue;
}

PyObject* say_put(size_t count) {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  PyObject* const put = PyLong_FromSize_t(count);
  if (value == NULL || put == NULL || PyObject_SetAttrString(value, "put", put) != 0)
    PyErr_Clear();  // of a class without attributes
  Py_XDECREF(put);
  PyErr_Restore(type, value, trace);
  return NULL;
}

/// Each item's bytes, which `list` keeps alive.
static gantry_part* parts_of_list(PyObject* list, size_t count);

/// put_here(items): how many of a tuple of bytes were put, the first ones; the next one must go by
/// an end. As put_many(), after an exception.
static PyObject* queue_put_here(PyObject* self, PyObject* list) {
  gantry_queue* const handle = ((Queue*)self)->handle;
  size_t put = 0;
  if (!PyTuple_Check(list)) return PyErr_Format(PyExc_TypeError, "items: a tuple is needed");
  if (handle == NULL) return PyLong_FromSize_t(0);
  const size_t count = (size_t)PyTuple_Size(list);
  gantry_part* const items = parts_of_list(list, count);
  if (items == NULL) return NULL;
  const gantry_code code = gantry_queue_put_here(handle, items, count, &put);
  PyMem_Free(items);
  if (code != GANTRY_OK) return raise_code(code);
  return PyErr_CheckSignals() != 0 ? say_put(put) : PyLong_FromSize_t(put);
}

struct Getting {
  size_t most, count;
  int interrupt;
  gantry_message* messages[GANTRY_QUEUE_MOST_BATCHED];
};

static gantry_code take_here_step(void* handle, void* arguments, int64_t timeout_ns) {
  struct Getting* const it = arguments;
  return gantry_queue_take_here(handle, it->most, timeout_ns, it->interrupt, it->messages,
                                &it->count);
}

/// take_here(timeout): the next item, or None if none came or an end has to look for it.
static PyObject* queue_take_here(PyObject* self, PyObject* seconds) {
  End* const end = (End*)self;
  const int64_t timeout_ns = timeout_of(seconds);
  if (timeout_ns == -2) return NULL;
  struct Getting it;
  it.most = 1, it.count = 0, it.interrupt = end->interrupt[0];
  const gantry_code code = end_run(end, take_here_step, &it, timeout_ns, kQuick);
  if (code == GANTRY_OK) return message_new(it.messages[0], NULL);
  if (code == GANTRY_TIMED_OUT) Py_RETURN_NONE;
  return raise_code(code);
}

static int read_getting(PyObject* arguments, struct Getting* it, int64_t* timeout_ns,
                        PyObject** into);
static int add_messages(const struct Getting* it, Held* held, PyObject* list);

/// take_many_here(most, timeout, into): as get_many() of an end.
static PyObject* queue_take_many_here(PyObject* self, PyObject* arguments) {
  End* const end = (End*)self;
  struct Getting it;
  int64_t timeout_ns;
  PyObject* into;
  if (read_getting(arguments, &it, &timeout_ns, &into) != 0) return NULL;
  it.interrupt = end->interrupt[0];
  const gantry_code code = end_run(end, take_here_step, &it, timeout_ns, kQuick);
  if (code == GANTRY_OK) return add_messages(&it, NULL, into) == 0 ? Py_NewRef(Py_True) : NULL;
  if (code == GANTRY_TIMED_OUT) Py_RETURN_FALSE;
  return raise_code(code);
}

/// Somebody waits for an item: a thread in take_here(), or an end.
static PyObject* queue_is_awaited(PyObject* self, void* unused) {
  (void)unused;
  gantry_queue_report report = {.size = sizeof report};
  gantry_queue* const handle = ((Queue*)self)->handle;
  if (handle == NULL) Py_RETURN_FALSE;
  const gantry_code code = gantry_queue_get_report(handle, &report);
  return code != GANTRY_OK ? raise_code(code) : PyBool_FromLong(report.waiting_workers != 0);
}

static PyGetSetDef queue_members[] = {{"is_awaited", queue_is_awaited, NULL, NULL, NULL}, {0}};
static PyMethodDef queue_methods[] = {{"close", end_close_now, METH_NOARGS, NULL},
                                      {"leave", end_leave, METH_NOARGS, NULL},
                                      {"put_here", queue_put_here, METH_O, NULL},
                                      {"take_here", queue_take_here, METH_O, NULL},
                                      {"take_many_here", queue_take_many_here, METH_VARARGS, NULL},
                                      {0}};
static PyType_Slot queue_slots[] = {{Py_tp_new, queue_make},
                                    {Py_tp_dealloc, end_dealloc},
                                    {Py_tp_methods, queue_methods},
                                    {Py_tp_getset, queue_members},
                                    {0, NULL}};
PyType_Spec queue_spec = {"gantry._core.Queue", sizeof(Queue), 0, Py_TPFLAGS_DEFAULT, queue_slots};

// ---- get(timeout)

// For the word of a queue that answers at once, if it runs.
enum { kPatienceNs = 1000000000 };

static gantry_code get_step(void* handle, void* arguments, int64_t timeout_ns) {
  return gantry_receive(handle, timeout_ns, arguments);
}

static gantry_code withdraw_step(void* handle, void* arguments, int64_t timeout_ns) {
  return gantry_queue_withdraw(handle, timeout_ns, arguments);
}

/// After an exception: what has been handed out is for the next get, of whichever end.
static void leave_line(End* end) {
  PyObject *type, *value, *trace;
  gantry_message* none = NULL;
  PyErr_Fetch(&type, &value, &trace);
  if (end_run(end, withdraw_step, &none, 0, kQuick) == -1) PyErr_Clear();
  PyErr_Restore(type, value, trace);
}

PyObject* queue_get(PyObject* self, PyObject* seconds) {
  End* const end = (End*)self;
  const int64_t timeout_ns = timeout_of(seconds);
  if (timeout_ns == -2) return NULL;
  gantry_message* message = NULL;
  gantry_code code = end_run(end, get_step, &message, timeout_ns, kQuick);
  if (code == GANTRY_TIMED_OUT) code = end_run(end, withdraw_step, &message, kPatienceNs, kLong);
  if (code == GANTRY_OK) return message_new(message, end->held);
  if (code == GANTRY_TIMED_OUT) Py_RETURN_NONE;
  if (code == -1) leave_line(end);
  return raise_code(code);
}

// ---- get_many(most, timeout, into)

static gantry_code get_many_step(void* handle, void* arguments, int64_t timeout_ns) {
  struct Getting* const it = arguments;
  return gantry_queue_get_many(handle, it->most, timeout_ns, it->messages, &it->count);
}

static gantry_code withdraw_many_step(void* handle, void* arguments, int64_t timeout_ns) {
  struct Getting* const it = arguments;
  return gantry_queue_withdraw_many(handle, it->most, timeout_ns, it->messages, &it->count);
}

/// Behind what is in the list. What cannot be put there goes back to the queue, or is lost where
/// there is no memory.
static int add_messages(const struct Getting* it, Held* held, PyObject* list) {
  int done = 0;
  for (size_t i = 0; i < it->count; ++i) {
    if (done != 0) {
      gantry_free(it->messages[i]);
      continue;
    }
    PyObject* const message = message_new(it->messages[i], held);
    done = message == NULL ? -1 : PyList_Append(list, message);
    Py_XDECREF(message);
  }
  return done;
}

static int read_getting(PyObject* arguments, struct Getting* it, int64_t* timeout_ns,
                        PyObject** into) {
  PyObject *most, *seconds;
  uint64_t wanted;
  if (!PyArg_ParseTuple(arguments, "OOO!", &most, &seconds, &PyList_Type, into) ||
      read_number64(most, "most", &wanted) != 0)
    return -1;
  *timeout_ns = timeout_of(seconds);
  it->most = wanted < GANTRY_QUEUE_MOST_BATCHED ? wanted : GANTRY_QUEUE_MOST_BATCHED;
  it->count = 0;
  return *timeout_ns == -2 ? -1 : 0;
}

/// Appends what it gets to the list `into`, where a signal's handler that raises leaves it. Returns
/// whether there was something.
PyObject* queue_get_many(PyObject* self, PyObject* arguments) {
  End* const end = (End*)self;
  struct Getting it;
  int64_t timeout_ns;
  PyObject* into;
  if (read_getting(arguments, &it, &timeout_ns, &into) != 0) return NULL;
  gantry_code code = end_run(end, get_many_step, &it, timeout_ns, kQuick);
  if (code == GANTRY_TIMED_OUT) code = end_run(end, withdraw_many_step, &it, kPatienceNs, kLong);
  if (code == GANTRY_OK)
    return add_messages(&it, end->held, into) == 0 ? Py_NewRef(Py_True) : NULL;
  if (code == GANTRY_TIMED_OUT) Py_RETURN_FALSE;
  if (code == -1) leave_line(end);
  return raise_code(code);
}

// ---- put_many(items, timeout)

struct Putting {
  gantry_part* items;
  size_t count, put;
};

/// Small ones, without letting other threads run.
static int put_flags(const struct Putting* it) {
  size_t bytes = 0;
  for (size_t i = 0; i < it->count && bytes <= kQuickBytes; ++i) bytes += it->items[i].bytes;
  return bytes <= kQuickBytes ? kQuick : 0;
}

static gantry_code put_many_step(void* handle, void* arguments, int64_t timeout_ns) {
  struct Putting* const it = arguments;
  size_t put = 0;
  const gantry_code code = gantry_queue_put_many(handle, it->items + it->put, it->count - it->put,
                                                 timeout_ns, &put);
  it->put += put;
  return code;
}

static gantry_part* parts_of_list(PyObject* list, size_t count) {
  gantry_part* const items = PyMem_Calloc(count + 1, sizeof *items);
  if (items == NULL) return (gantry_part*)PyErr_NoMemory();
  for (size_t i = 0; i < count; ++i) {
    char* data;
    Py_ssize_t bytes;
    if (PyBytes_AsStringAndSize(PyTuple_GetItem(list, (Py_ssize_t)i), &data, &bytes) != 0) {
      PyMem_Free(items);
      return NULL;
    }
    items[i].size = sizeof *items;
    items[i].data = data;
    items[i].bytes = (size_t)bytes;
  }
  return items;
}

/// How many were put, of a tuple of bytes: all, or what was put before the time was over. After
/// another error its exception has that number, as `put`. So has that of a signal's handler, which
/// would otherwise run when nobody has the number yet.
PyObject* queue_put_many(PyObject* self, PyObject* arguments) {
  PyObject *list, *seconds;
  if (!PyArg_ParseTuple(arguments, "O!O", &PyTuple_Type, &list, &seconds)) return NULL;
  const int64_t timeout_ns = timeout_of(seconds);
  if (timeout_ns == -2) return NULL;
  struct Putting it = {.count = (size_t)PyTuple_Size(list)};
  it.items = parts_of_list(list, it.count);
  if (it.items == NULL) return NULL;
  const gantry_code code = end_run((End*)self, put_many_step, &it, timeout_ns, put_flags(&it));
  PyMem_Free(it.items);
  if (code != GANTRY_OK && code != GANTRY_TIMED_OUT)
    raise_code(code);
  else if (PyErr_CheckSignals() == 0)
    return PyLong_FromSize_t(it.put);
  return say_put(it.put);
}

// ---- ask(question, timeout)

struct Asking {
  unsigned question;
  gantry_queue_report report;
};

static gantry_code ask_step(void* handle, void* arguments, int64_t timeout_ns) {
  struct Asking* const it = arguments;
  return gantry_queue_ask(handle, it->question, timeout_ns, &it->report);
}

/// After an exception: the next place is another's, and so is one that was granted meanwhile.
static void leave_places(End* end) {
  PyObject *type, *value, *trace;
  struct Asking place = {.question = GANTRY_QUEUE_PLACE};
  PyErr_Fetch(&type, &value, &trace);
  gantry_code code = end_run(end, ask_step, &place, 0, kLong);
  place.question = GANTRY_QUEUE_PLACE_BACK;
  if (code == GANTRY_OK) code = end_run(end, ask_step, &place, 0, kLong);
  if (code == -1) PyErr_Clear();
  PyErr_Restore(type, value, trace);
}

/// Of a report: how many items wait, and how many are in hand; else None.
PyObject* queue_ask(PyObject* self, PyObject* arguments) {
  struct Asking it = {.report = {.size = sizeof it.report}};
  PyObject* seconds;
  if (!PyArg_ParseTuple(arguments, "IO", &it.question, &seconds)) return NULL;
  const int64_t timeout_ns = timeout_of(seconds);
  if (timeout_ns == -2) return NULL;
  const gantry_code code = end_run((End*)self, ask_step, &it, timeout_ns, kLong);
  if (code == -1 && it.question == GANTRY_QUEUE_PLACE) leave_places((End*)self);
  if (code != GANTRY_OK) return raise_code(code);
  if (it.question != GANTRY_QUEUE_REPORT) Py_RETURN_NONE;
  return Py_BuildValue("(KK)", it.report.waiting_items, it.report.in_hand);
}
