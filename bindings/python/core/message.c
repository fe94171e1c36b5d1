// A received message. Its memory goes back to its sender with the last Memory that lies in it.

#include "core.h"
#include "item_code.h"

void held_release(Held* held) {
  if (held != NULL && --held->owners == 0) PyMem_Free(held);
}

PyObject* message_new(gantry_message* handle, Held* held) {
  Message* const message = (Message*)PyType_GenericAlloc(message_type, 0);
  if (message == NULL) {
    gantry_free(handle);
    return NULL;
  }
  message->handle = handle;
  message->held = held;
  if (held != NULL) {
    ++held->owners;
    ++held->messages;
  }
  message->info.size = sizeof message->info;
  const gantry_code code = gantry_message_get_info(handle, &message->info);
  if (code == GANTRY_OK) return (PyObject*)message;
  Py_DECREF(message);
  return raise_code(code);
}

PyObject* message_of_look(gantry_message* handle, End* end) {
  Message* const message = (Message*)message_new(handle, NULL);
  if (message != NULL) message->looked_by = (End*)Py_NewRef((PyObject*)end);
  return (PyObject*)message;
}

/// A look ends while nobody else uses its end.
static void free_handle(Message* message) {
  void* const handle = message->handle;
  End* const end = message->looked_by;
  message->handle = NULL;
  message->looked_by = NULL;
  if (end != NULL)
    end_doom(end, handle);
  else
    gantry_free(handle);
  Py_XDECREF((PyObject*)end);
}

/// end_look(): False if somebody keeps memory of the message. Then the look ends with that.
static PyObject* message_end_look(PyObject* self, PyObject* unused) {
  (void)unused;
  if (((Message*)self)->memories > 0) Py_RETURN_FALSE;
  free_handle((Message*)self);
  Py_RETURN_TRUE;
}

static void message_dealloc(PyObject* self) {
  Message* const message = (Message*)self;
  free_handle(message);
  if (message->held != NULL) --message->held->messages;
  held_release(message->held);
  dealloc_object(self);
}

/// Before anything is asked of it, and before another thread may run: then it cannot be sent on.
/// adopt() comes behind it.
static int begin_look(Message* message) {
  if (message->handle == NULL) {
    raise_own(GANTRY_INVALID_ARGUMENT, "this message: the look at it is over",
              "copy what you keep, by bytes(message) or array.copy()");
    return -1;
  }
  if (message->is_sent_on) {
    raise_own(GANTRY_BUSY, "this message: it is being sent on",
              "look at it before, and let go of what you see");
    return -1;
  }
  ++message->memories;
  return 0;
}

/// NULL: there is none, and an exception.
static PyObject* adopt(Message* message, Memory* memory) {
  if (memory == NULL)
    --message->memories;
  else
    memory->owner = Py_NewRef((PyObject*)message);
  return (PyObject*)memory;
}

/// Whether a peer's description stays within its bytes, also as a copy, which elements that overlap
/// could make larger than any memory. The library has looked at the bytes alone; so do we.
static int fits(const gantry_tensor* tensor, size_t bytes) {
  const uint64_t bits = (uint64_t)tensor->type_bits * tensor->type_lanes;
  if (tensor->dimensions > GANTRY_MAX_DIMENSIONS || bits == 0) return 0;
  const uint64_t most = (uint64_t)PY_SSIZE_T_MAX / bits;  // so that no product of Python's wraps
  unsigned __int128 last = 0, elements = 1;
  int empty = 0;
  for (uint32_t i = 0; i < tensor->dimensions; ++i) {
    const int64_t length = tensor->shape[i], stride = tensor->strides[i];
    if (length < 0 || stride < 0 || (uint64_t)stride > most) return 0;
    empty |= length == 0;
    if (length == 0) continue;
    elements *= (uint64_t)length;
    last += (unsigned __int128)(length - 1) * (uint64_t)stride;
    if (elements > most) return 0;
  }
  if (empty) return 1;
  if (last >= most) return 0;
  const uint64_t reach = (uint64_t)(last + 1 > elements ? last + 1 : elements);
  return (reach * bits + 7) / 8 <= bytes;
}

/// The tensor of a segment, or NULL: it has none. -1 and an exception if it does not fit.
static int tensor_in(gantry_segment* segment, const gantry_tensor** tensor) {
  *tensor = segment->has_tensor ? &segment->tensor : NULL;
  if (*tensor == NULL || fits(*tensor, segment->bytes)) return 0;
  raise_own(GANTRY_PEER_MISBEHAVED, "this message: its tensor is larger than its bytes",
            "message.data has the bytes");
  return -1;
}

static int read_index(PyObject* number, size_t* index) {
  uint64_t value;
  if (read_number64(number, "segment", &value) != 0) return -1;
  *index = value;
  return 0;
}

static Memory* look_at(Message* message, size_t index, int raw) {
  gantry_segment segment = {.size = sizeof segment};
  const gantry_code code = gantry_message_segment(message->handle, index, &segment);
  if (code != GANTRY_OK) return (Memory*)raise_code(code);
  const gantry_tensor* tensor = NULL;
  if (!raw && tensor_in(&segment, &tensor) != 0) return NULL;
  Memory* const memory = memory_new((void*)(uintptr_t)segment.data, segment.bytes, tensor);
  if (memory != NULL) memory->readonly = 1;
  return memory;
}

/// segment(index, raw): as what the sender said that it is, or as plain bytes.
static PyObject* message_segment(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  Message* const message = (Message*)self;
  size_t index;
  if (count != 2) return PyErr_Format(PyExc_TypeError, "segment(index, raw)");
  const int raw = PyObject_IsTrue(arguments[1]);
  if (read_index(arguments[0], &index) != 0 || begin_look(message) != 0) return NULL;
  return adopt(message, look_at(message, index, raw));
}

/// item(): the object of an item that is no pickle, and how many of its bytes that is; or None.
static PyObject* message_item(PyObject* self, PyObject* unused) {
  (void)unused;
  Message* const message = (Message*)self;
  if (message->info.segments != 1) Py_RETURN_NONE;  // a pickle and its buffers
  if (begin_look(message) != 0) return NULL;
  gantry_segment segment = {.size = sizeof segment};
  const gantry_code code = gantry_message_segment(message->handle, 0, &segment);
  PyObject* const found =
      code == GANTRY_OK ? item_decode(segment.data, segment.bytes) : raise_code(code);
  --message->memories;
  return found;
}

/// The object of a small item without buffers and with nothing behind it: 1; 0: it needs more care;
/// -1 and an exception.
static int load_item(Message* message, PyObject* loads, PyObject** object) {
  gantry_segment segment = {.size = sizeof segment};
  if (message->info.segments != 1 || message->info.bytes > kItemMost) return 0;
  if (begin_look(message) != 0) return -1;
  PyObject* found = NULL;
  const gantry_code code = gantry_message_segment(message->handle, 0, &segment);
  const unsigned char* const bytes = segment.data;
  const Py_ssize_t count = (Py_ssize_t)segment.bytes;
  int done = 0;
  if (code != GANTRY_OK) {
    raise_code(code);
    done = -1;
  } else if (count > 0 && *bytes != kPickle) {
    Py_ssize_t used = 0;
    found = item_decode_value(bytes, segment.bytes, &used);
    done = found == NULL ? -1 : used == count;
  } else if (count > 0 && bytes[count - 1] == '.') {
    found = PyObject_CallFunction(loads, "y#", (const char*)bytes, count);
    done = found == NULL ? -1 : 1;
  }
  --message->memories;
  if (done != 1) Py_CLEAR(found);
  *object = found;
  return done;
}

/// load_items(messages, most, loads): the objects of the first messages of a list, as far as they
/// need no more care. An exception is the first one's; it is for the next call if it is another's.
PyObject* load_items(PyObject* module, PyObject* arguments) {
  (void)module;
  PyObject *messages, *loads;
  Py_ssize_t most;
  if (!PyArg_ParseTuple(arguments, "O!nO", &PyList_Type, &messages, &most, &loads)) return NULL;
  PyObject* const objects = PyList_New(0);
  for (Py_ssize_t i = 0; objects != NULL && i < most && i < PyList_Size(messages); ++i) {
    PyObject* const message = PyList_GetItem(messages, i);
    PyObject* object = NULL;
    if (message == NULL || !Py_IS_TYPE(message, message_type)) break;
    Py_INCREF(message);  // loads() may run anything
    int done = load_item((Message*)message, loads, &object);
    Py_DECREF(message);
    if (done == 1) done = PyList_Append(objects, object) == 0 ? 1 : -1;
    Py_XDECREF(object);
    if (done == 0) break;
    if (done == -1 && i > 0 && PyErr_ExceptionMatches(PyExc_Exception)) {
      PyErr_Clear();
      break;
    }
    if (done == -1) {
      Py_DECREF(objects);
      return NULL;
    }
  }
  return objects;
}

static Memory* view_of(Message* message, size_t index) {
  gantry_segment segment = {.size = sizeof segment};
  gantry_view* view = NULL;
  void* data = NULL;
  gantry_code code = gantry_message_segment(message->handle, index, &segment);
  if (code != GANTRY_OK) return (Memory*)raise_code(code);
  const gantry_tensor* tensor = NULL;
  if (tensor_in(&segment, &tensor) != 0) return NULL;
  PyThreadState* const state = PyEval_SaveThread();  // it may copy up to 64 KiB
  code = gantry_message_view(message->handle, index, &view, &data);
  PyEval_RestoreThread(state);
  if (code != GANTRY_OK) return (Memory*)raise_code(code);
  Memory* const memory = memory_new(data, segment.bytes, tensor);
  if (memory == NULL)
    gantry_free(view);
  else
    memory->handle = view;
  return memory;
}

static PyObject* message_view(PyObject* self, PyObject* number) {
  Message* const message = (Message*)self;
  size_t index;
  if (read_index(number, &index) != 0 || begin_look(message) != 0) return NULL;
  return adopt(message, view_of(message, index));
}

// ---- answers to requests

/// A request has no interrupt descriptor of its own, so it is answered in slices; but a message
/// that travels on is gone behind the first one.
static int64_t slice_of(int64_t left, const Parts* parts) {
  const int64_t most = 50000000;
  return parts->forwards || (left >= 0 && left < most) ? left : most;
}

/// reply(values, timeout, type)
static PyObject* message_reply(PyObject* self, PyObject* arguments) {
  PyObject *values, *seconds, *type;
  gantry_send_options options = {.size = sizeof options};
  if (!PyArg_ParseTuple(arguments, "OOO", &values, &seconds, &type) ||
      read_number(type, "type", &options.type) != 0)
    return NULL;
  int64_t left = timeout_of(seconds);
  if (left == -2) return NULL;
  Parts* const parts = parts_of(values);
  if (parts == NULL) return NULL;
  gantry_code code;
  for (;;) {
    const int64_t slice = slice_of(left, parts);
    PyThreadState* const state = PyEval_SaveThread();
    code = gantry_reply(((Message*)self)->handle, parts->parts, parts->count, slice, &options);
    PyEval_RestoreThread(state);
    if (left > 0) left -= slice;
    if ((code != GANTRY_TIMED_OUT && code != GANTRY_INTERRUPTED) || left == 0 || parts->forwards)
      break;
    if (PyErr_CheckSignals()) {
      code = -1;
      break;
    }
  }
  Py_DECREF(parts);
  if (code != GANTRY_OK) return raise_code(code);
  Py_RETURN_NONE;
}

static PyObject* message_refuse(PyObject* self, PyObject* arguments) {
  PyObject* number;
  uint32_t code;
  const char *words, *hint;
  if (!PyArg_ParseTuple(arguments, "Oss", &number, &words, &hint) ||
      read_number(number, "code", &code) != 0)
    return NULL;
  const gantry_code done = gantry_refuse(((Message*)self)->handle, (gantry_code)code, words, hint);
  if (done != GANTRY_OK) return raise_code(done);
  Py_RETURN_NONE;
}

static PyObject* message_wants_reply(PyObject* self, PyObject* unused) {
  (void)unused;
  gantry_message_info info = {.size = sizeof info};
  const gantry_code code = gantry_message_get_info(((Message*)self)->handle, &info);
  return code != GANTRY_OK ? raise_code(code) : PyBool_FromLong(info.wants_reply);
}

/// Of an item: acknowledges it.
static PyObject* message_done(PyObject* self, PyObject* unused) {
  (void)unused;
  const gantry_code code = gantry_done(((Message*)self)->handle);
  if (code != GANTRY_OK) return raise_code(code);
  Py_RETURN_NONE;
}

static PyMethodDef message_methods[] = {{"segment", FASTCALL(message_segment), METH_FASTCALL, NULL},
                                        {"view", message_view, METH_O, NULL},
                                        {"table", message_table, METH_O, NULL},
                                        {"item", message_item, METH_NOARGS, NULL},
                                        {"done", message_done, METH_NOARGS, NULL},
                                        {"reply", message_reply, METH_VARARGS, NULL},
                                        {"refuse", message_refuse, METH_VARARGS, NULL},
                                        {"wants_reply", message_wants_reply, METH_NOARGS, NULL},
                                        {"end_look", message_end_look, METH_NOARGS, NULL},
                                        {0}};
#define FIELD(name, type)                                                                    \
  {#name, type, (Py_ssize_t)(offsetof(Message, info) + offsetof(gantry_message_info, name)), \
   READONLY, NULL}
static PyMemberDef message_members[] = {FIELD(sequence, T_ULONGLONG),
                                        FIELD(user, T_ULONGLONG),
                                        FIELD(correlation, T_ULONGLONG),
                                        FIELD(deadline_ns, T_ULONGLONG),
                                        FIELD(bytes, T_ULONGLONG),
                                        FIELD(sender, T_ULONGLONG),
                                        FIELD(type, T_UINT),
                                        FIELD(segments, T_UINT),
                                        FIELD(sender_uid, T_UINT),
                                        FIELD(sender_pid, T_INT),
                                        FIELD(tries, T_UINT),
                                        {0}};
static PyType_Slot message_slots[] = {{Py_tp_dealloc, message_dealloc},
                                      {Py_tp_methods, message_methods},
                                      {Py_tp_members, message_members},
                                      {0, NULL}};
PyType_Spec message_spec = {"gantry._core.Message", sizeof(Message), 0,
                            Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, message_slots};
