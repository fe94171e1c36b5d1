// What is sent: objects as parts of a message, and what keeps their memory meanwhile.

#include "core.h"

struct Kept {  // of one part
  Py_buffer buffer;
  PyObject* object;
  gantry_tensor tensor;
};

static void parts_dealloc(PyObject* self) {
  Parts* const parts = (Parts*)self;
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);  // of the send that ends: others' code may run here
  for (size_t i = 0; i < parts->count; ++i) {
    if (parts->parts[i].message != NULL) ((Message*)parts->kept[i].object)->is_sent_on = 0;
    if (parts->kept[i].buffer.obj != NULL) PyBuffer_Release(&parts->kept[i].buffer);
    Py_XDECREF(parts->kept[i].object);
  }
  PyErr_Restore(type, value, trace);
  PyMem_Free(parts->parts);
  dealloc_object(self);
}

/// From here on nobody can look at the message until the parts are gone: the send lets other
/// threads run, and what it has taken is the sender's again.
static int add_message(gantry_part* part, Message* message) {
  if (message->memories > 0) {
    raise_own(GANTRY_BUSY, "this message: there are arrays that lie in it",
              "let go of them first, or send one of them");
    return -1;
  }
  if (message->is_sent_on) {
    raise_own(GANTRY_BUSY, "this message: it is being sent on already",
              "it travels on once: send bytes(message) to others before");
    return -1;
  }
  if (message->looked_by != NULL || message->handle == NULL) {
    raise_own(GANTRY_INVALID_ARGUMENT, "this message: one that look() shows cannot be sent on",
              "receive() it, or send bytes(message)");
    return -1;
  }
  message->is_sent_on = 1;
  part->message = message->handle;
  return 0;
}

static int add_memory(gantry_part* part, struct Kept* kept, Memory* memory) {
  if (memory->has_tensor) {
    kept->tensor = memory->tensor;
    part->tensor = &kept->tensor;
  }
  if (!tensor_is_dense(&memory->tensor, &part->bytes)) {
    raise_own(GANTRY_INVALID_ARGUMENT, "this memory: it has gaps", "send its bytes");
    return -1;
  }
  if (memory->is_block && part->bytes > 0)
    part->block = memory->handle;
  else
    part->data = memory->data;
  return 0;
}

/// A type of NumPy's, once NumPy is there; a new reference, or NULL without an error.
static PyObject* numpy_type(const char* name) {
  PyObject* const module_name = PyUnicode_FromString("numpy");
  PyObject* const numpy = module_name == NULL ? NULL : PyImport_GetModule(module_name);
  PyObject* const type = numpy == NULL ? NULL : PyObject_GetAttrString(numpy, name);
  Py_XDECREF(numpy);
  Py_XDECREF(module_name);
  PyErr_Clear();
  return type;
}

static int is_instance(PyObject* object, PyObject* type) {
  const int is = type == NULL ? 0 : PyObject_IsInstance(object, type);
  PyErr_Clear();
  return is == 1;
}

static int refuse_as(PyObject* object, const char* why, const char* hint) {
  PyObject* const name = PyType_GetName(Py_TYPE(object));
  PyObject* const text = name == NULL ? NULL : PyUnicode_FromFormat("%U: %s", name, why);
  Py_XDECREF(name);
  if (text != NULL) raise_own(GANTRY_INVALID_ARGUMENT, PyUnicode_AsUTF8AndSize(text, NULL), hint);
  Py_XDECREF(text);
  return -1;
}

/// A date shows its memory as plain bytes.
static int is_date(PyObject* scalar) {
  PyObject* const dtype = PyObject_GetAttrString(scalar, "dtype");
  PyObject* const kind = dtype == NULL ? NULL : PyObject_GetAttrString(dtype, "kind");
  const char* const text = kind == NULL ? NULL : PyUnicode_AsUTF8AndSize(kind, NULL);
  const int is = text != NULL && (text[0] == 'M' || text[0] == 'm' || text[0] == 'V');
  Py_XDECREF(kind);
  Py_XDECREF(dtype);
  PyErr_Clear();
  return is;
}

int check_numpy(PyObject* object) {
  if (PyBytes_CheckExact(object) || PyMemoryView_Check(object) || PyByteArray_CheckExact(object))
    return 0;                                                                 // the shortest way
  static PyObject *array_type = NULL, *scalar_type = NULL, *map_type = NULL;  // NumPy stays loaded
  if (array_type == NULL) {
    array_type = numpy_type("ndarray");
    if (array_type == NULL) return 0;
    scalar_type = numpy_type("generic");
    map_type = numpy_type("memmap");
  }
  PyObject* const type = (PyObject*)Py_TYPE(object);
  if (type == array_type || type == map_type) return 0;
  if (is_instance(object, array_type))
    return refuse_as(object, "a subclass of numpy.ndarray, of which only the elements would arrive",
                     "numpy.asarray(array) for the elements, or pickles=True at both ends");
  if (is_instance(object, scalar_type) && is_date(object))
    return refuse_as(object, "a scalar that would arrive as bytes",
                     "numpy.int64(scalar.view('int64')) for a date, or pickles=True at both ends");
  return 0;
}

int get_buffer(PyObject* object, Py_buffer* buffer) {
  if (PyObject_GetBuffer(object, buffer, PyBUF_FULL_RO) == 0) return 0;
  buffer->obj = NULL;
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  raise_own(GANTRY_INVALID_ARGUMENT, "this object: it does not show its memory",
            "array.view('int64') for dates, or pickles=True for any object");
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(trace);
  return -1;
}

static int add_buffer(gantry_part* part, struct Kept* kept, PyObject* object) {
  if (get_buffer(object, &kept->buffer) != 0) return -1;
  const int has_tensor = tensor_of_buffer(&kept->buffer, &kept->tensor);
  if (has_tensor < 0) return -1;
  if (!PyBuffer_IsContiguous(&kept->buffer, 'A')) {
    raise_own(GANTRY_INVALID_ARGUMENT,
              "array: it is not contiguous, so its memory cannot be sent as it is",
              "send numpy.ascontiguousarray(array)");
    return -1;
  }
  part->bytes = (size_t)kept->buffer.len;
  part->data = part->bytes == 0 ? NULL : kept->buffer.buf;
  part->tensor = has_tensor ? &kept->tensor : NULL;
  return 0;
}

static int add(Parts* parts, size_t index, PyObject* object) {
  gantry_part* const part = &parts->parts[index];
  struct Kept* const kept = &parts->kept[index];
  part->size = sizeof *part;
  if (Py_IS_TYPE(object, message_type)) {
    kept->object = Py_NewRef(object);
    parts->forwards = 1;
    return add_message(part, (Message*)object);
  }
  if (PyObject_CheckBuffer(object) && !Py_IS_TYPE(object, memory_type)) {
    if (check_numpy(object) != 0) return -1;
    const int added = add_buffer(part, kept, object);
    parts->bytes += part->bytes;
    return added;
  }
  if (Py_IS_TYPE(object, memory_type))
    kept->object = Py_NewRef(object);
  else if (PyObject_HasAttrString(object, "__dlpack__"))
    kept->object = (PyObject*)memory_of_dlpack(object);
  else
    refuse_as(
        object, "neither bytes, an array nor a tensor",
        "numpy.array(x) for a list, text.encode() for text; pickles=True at both ends for any "
        "object");
  if (kept->object == NULL || add_memory(part, kept, (Memory*)kept->object) != 0) return -1;
  if (part->block == NULL) parts->bytes += part->bytes;
  return 0;
}

static Parts* parts_of_expanded(PyObject* values) {
  const size_t count = PyTuple_Check(values) ? (size_t)PyTuple_Size(values) : 1;
  if (count > GANTRY_MAX_PARTS)
    return (Parts*)raise_own(GANTRY_TOO_LARGE, "more than 64 parts", "send fewer at a time");
  Parts* const parts = (Parts*)PyType_GenericAlloc(parts_type, 0);
  if (parts == NULL) return NULL;
  parts->parts = PyMem_Calloc(count + 1, sizeof *parts->parts + sizeof *parts->kept);
  if (parts->parts == NULL) {
    Py_DECREF(parts);
    return (Parts*)PyErr_NoMemory();
  }
  parts->kept = (struct Kept*)(parts->parts + count + 1);
  parts->count = count;
  for (size_t i = 0; i < count; ++i) {
    PyObject* const value = PyTuple_Check(values) ? PyTuple_GetItem(values, (Py_ssize_t)i) : values;
    if (add(parts, i, value) == 0) continue;
    Py_DECREF(parts);
    return NULL;
  }
  return parts;
}

/// Of a tuple, each; else of the one object. A table is several.
Parts* parts_of(PyObject* values) {
  PyObject* const expanded = arrow_expand(values);
  Parts* const parts = expanded == NULL ? NULL : parts_of_expanded(expanded);
  Py_XDECREF(expanded);
  return parts;
}

static PyType_Slot parts_slots[] = {{Py_tp_dealloc, parts_dealloc}, {0, NULL}};
PyType_Spec parts_spec = {"gantry._core.Parts", sizeof(Parts), 0,
                          Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, parts_slots};
