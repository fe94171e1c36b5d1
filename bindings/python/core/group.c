// This process as one of some ranks, and what the ranks do together.

#include <gantry/group.h>

#include "core.h"

// ---- Group

struct Joining {
  gantry_runtime* runtime;
  const gantry_group_options* options;
  gantry_group* made;
};

static gantry_code join_step(void* handle, void* arguments, int64_t timeout_ns) {
  (void)handle;
  struct Joining* const it = arguments;
  return gantry_group_join(it->runtime, it->options, timeout_ns, &it->made);
}

/// The addresses in a tuple, which keeps their texts; 0: there are none, -1: it raised.
static int read_addresses(PyObject* tuple, uint32_t ranks, const char*** addresses) {
  if (tuple == Py_None) return 0;
  const Py_ssize_t count = PyTuple_Check(tuple) ? PyTuple_Size(tuple) : -1;
  if (count < 0 || (size_t)count != ranks) {
    raise_own(GANTRY_INVALID_ARGUMENT, "addresses: one is needed for each rank", "");
    return -1;
  }
  *addresses = PyMem_Calloc((size_t)count + 1, sizeof **addresses);
  if (*addresses == NULL) PyErr_NoMemory();
  for (Py_ssize_t i = 0; *addresses != NULL && i < count; ++i) {
    (*addresses)[i] = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(tuple, i), NULL);
    if ((*addresses)[i] == NULL) return -1;
  }
  return *addresses == NULL ? -1 : 1;
}

/// join(runtime, name, rank, ranks, addresses, token, stall, timeout). No name: as the launcher
/// says.
static PyObject* group_join(PyObject* self, PyObject* arguments) {
  End* const end = (End*)self;
  gantry_group_options options = {.size = sizeof options};
  PyObject *runtime, *rank, *ranks, *addresses, *stall, *seconds;
  if (!PyArg_ParseTuple(arguments, "OzOOOzOO", &runtime, &options.name, &rank, &ranks, &addresses,
                        &options.token, &stall, &seconds) ||
      read_number(rank, "rank", &options.rank) != 0 ||
      read_number(ranks, "ranks", &options.ranks) != 0)
    return NULL;
  options.stall_ns = seconds_of(stall, "stall");
  if (options.stall_ns == -2) return NULL;
  const int64_t timeout_ns = timeout_of(seconds);
  struct Joining it = {runtime_of(runtime), &options, NULL};
  if (it.runtime == NULL || timeout_ns == -2) return NULL;
  if (options.name != NULL && *options.name) end_set_title(end, "group", options.name);
  options.interrupt_descriptor = end->interrupt[0];
  const char** texts = NULL;
  PyObject* joined = NULL;
  if (read_addresses(addresses, options.ranks, &texts) >= 0) {
    options.addresses = texts;
    if (options.name == NULL) it.options = NULL;
    // Not tried again: others would have heard that this rank gave up.
    const gantry_code code = end_run(end, join_step, &it, timeout_ns, kLong | kOnce | kOpening);
    end->handle = it.made;
    joined = code == GANTRY_OK ? Py_NewRef(Py_None) : raise_code(code);
  }
  PyMem_Free(texts);
  return joined;
}

struct Place {
  uint32_t rank, ranks;
};

static gantry_code place_step(void* handle, void* arguments, int64_t timeout_ns) {
  (void)timeout_ns;
  struct Place* const place = arguments;
  return gantry_group_place(handle, &place->rank, &place->ranks);
}

/// place(): (rank, ranks)
static PyObject* group_place(PyObject* self, PyObject* unused) {
  (void)unused;
  struct Place place = {0, 0};
  const gantry_code code = end_run((End*)self, place_step, &place, 0, kQuick);
  return code != GANTRY_OK ? raise_code(code) : Py_BuildValue("II", place.rank, place.ranks);
}

// ---- Collective

typedef struct Collective {
  PyObject_HEAD gantry_collective* handle;
  PyObject* group;
  Py_buffer data, result;  // the memory is kept while it may be used; `obj` NULL: none
} Collective;

/// Why `array` is none that is written in place.
static void raise_no_array(PyObject* array, const char* which) {
  const char* why = "it is no array, and has no memory that could be shared";
  const char* hint = "numpy.array(x) makes one; the result is in that";
  Py_buffer buffer;
  if (PyObject_CheckBuffer(array)) {
    why = "its memory cannot be had";
    if (PyObject_GetBuffer(array, &buffer, PyBUF_FULL_RO) == 0) {
      why =
          buffer.readonly ? "it is read-only" : "it has gaps between its elements, as a slice has";
      hint = buffer.readonly ? "array.copy() can be written; the result is in that"
                             : "numpy.ascontiguousarray(x) has none; the result is in that";
      PyBuffer_Release(&buffer);
    }
  }
  PyErr_Clear();
  char message[100];
  PyOS_snprintf(message, sizeof message, "%s: %s", which, why);
  raise_own(GANTRY_INVALID_ARGUMENT, message, hint);
}

static int read_array(PyObject* array, const char* which, Py_buffer* buffer, gantry_tensor* tensor,
                      int64_t* elements) {
  if (PyObject_GetBuffer(array, buffer, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE | PyBUF_FORMAT) != 0) {
    PyErr_Clear();
    raise_no_array(array, which);
    return -1;
  }
  const int known = tensor_of_buffer(buffer, tensor);
  if (known == 0)  // plain bytes, which nobody can add
    *tensor = (gantry_tensor){.type_code = GANTRY_UINT, .type_bits = 8, .type_lanes = 1};
  *elements = buffer->itemsize > 0 ? buffer->len / buffer->itemsize : 0;
  return known < 0 ? -1 : 0;
}

/// A call that cannot be made, or was not: the others would wait for it. Keeps the exception.
static PyObject* leave_raising(PyObject* self) {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  Py_XDECREF(end_close_now(self, NULL));
  PyErr_Restore(type, value, trace);
  return NULL;
}

struct Preparing {
  const gantry_collective_call* call;
  gantry_collective* made;
};

static gantry_code prepare_step(void* handle, void* arguments, int64_t timeout_ns) {
  struct Preparing* const it = arguments;
  return gantry_collective_prepare(handle, it->call, timeout_ns, &it->made);
}

/// prepare(kind, array, result, counts, root, program, variant, timeout): a Collective
static PyObject* group_prepare(PyObject* self, PyObject* arguments) {
  gantry_collective_call call = {.size = sizeof call};
  PyObject *array, *result, *counts, *root, *seconds;
  if (!PyArg_ParseTuple(arguments, "IOOOOzzO", &call.kind, &array, &result, &counts, &root,
                        &call.program, &call.variant, &seconds) ||
      read_number(root, "root", &call.root) != 0)
    return leave_raising(self);
  const int64_t timeout_ns = timeout_of(seconds);
  if (timeout_ns == -2) return leave_raising(self);
  Collective* const made = (Collective*)PyType_GenericAlloc(collective_type, 0);
  if (made == NULL) return leave_raising(self);
  made->group = Py_NewRef(self);
  gantry_tensor tensor = {0}, of_result = {0};
  Py_buffer of_counts = {.obj = NULL};
  gantry_code code = -1;
  if (read_array(array, "array", &made->data, &tensor, &call.elements) == 0 &&
      (result == Py_None ||
       read_array(result, "result", &made->result, &of_result, &call.result_elements) == 0) &&
      (counts == Py_None || PyObject_GetBuffer(counts, &of_counts, PyBUF_C_CONTIGUOUS) == 0)) {
    call.data = made->data.buf;
    call.type_code = tensor.type_code;
    call.type_bits = tensor.type_bits;
    call.result = made->result.buf;
    call.counts = of_counts.buf;
    if (result != Py_None &&
        (of_result.type_code != tensor.type_code || of_result.type_bits != tensor.type_bits)) {
      raise_own(GANTRY_INVALID_ARGUMENT, "result: its elements are of another type", "");
    } else {
      struct Preparing it = {&call, NULL};
      code = end_run((End*)self, prepare_step, &it, timeout_ns, kLong | kOnce);
      made->handle = it.made;
    }
  }
  PyBuffer_Release(&of_counts);
  if (code == GANTRY_OK) return (PyObject*)made;
  if (code != -1) raise_code(code);  // the group is broken, and keeps why
  Py_DECREF(made);
  return code != -1 ? NULL : leave_raising(self);
}

static gantry_code run_step(void* handle, void* arguments, int64_t timeout_ns) {
  (void)handle;
  return gantry_collective_run(arguments, timeout_ns);
}

/// run(timeout)
static PyObject* collective_run(PyObject* self, PyObject* seconds) {
  Collective* const it = (Collective*)self;
  const int64_t timeout_ns = timeout_of(seconds);
  if (timeout_ns == -2) return leave_raising(it->group);
  // A run that ends early ends the group.
  const gantry_code code =
      end_run((End*)it->group, run_step, it->handle, timeout_ns, kLong | kOnce);
  if (code == -1) return leave_raising(it->group);
  if (code != GANTRY_OK) return raise_code(code);
  Py_RETURN_NONE;
}

static PyObject* collective_choice(PyObject* self, void* unused) {
  (void)unused;
  return PyUnicode_FromString(gantry_collective_choice(((Collective*)self)->handle));
}

static void collective_dealloc(PyObject* self) {
  Collective* const it = (Collective*)self;
  free_apart(it->handle);
  PyBuffer_Release(&it->data);
  PyBuffer_Release(&it->result);
  Py_XDECREF(it->group);
  dealloc_object(self);
}

// ---- types

static PyMethodDef group_methods[] = {{"join", group_join, METH_VARARGS, NULL},
                                      {"place", group_place, METH_NOARGS, NULL},
                                      {"prepare", group_prepare, METH_VARARGS, NULL},
                                      {"close", end_close_now, METH_NOARGS, NULL},
                                      {0}};
static PyGetSetDef group_getset[] = {{"is_open", end_is_open, NULL, NULL, NULL}, {0}};
static PyType_Slot group_slots[] = {{Py_tp_new, end_new},
                                    {Py_tp_dealloc, end_dealloc},
                                    {Py_tp_methods, group_methods},
                                    {Py_tp_getset, group_getset},
                                    {0, NULL}};
PyType_Spec group_spec = {"gantry._core.Group", sizeof(End), 0, Py_TPFLAGS_DEFAULT, group_slots};

static PyMethodDef collective_methods[] = {{"run", collective_run, METH_O, NULL}, {0}};
static PyGetSetDef collective_getset[] = {{"choice", collective_choice, NULL, NULL, NULL}, {0}};
static PyType_Slot collective_slots[] = {{Py_tp_dealloc, collective_dealloc},
                                         {Py_tp_methods, collective_methods},
                                         {Py_tp_getset, collective_getset},
                                         {0, NULL}};
PyType_Spec collective_spec = {"gantry._core.Collective", sizeof(Collective), 0,
                               Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                               collective_slots};
