// Memory: bytes with an owner, as a buffer. Segments of messages, blocks of pools, private views.

#include "core.h"

static const struct Format {
  const char* name;
  uint8_t code, bits;
} kFormats[] = {{"B", GANTRY_UINT, 8},      {"b", GANTRY_INT, 8},       {"H", GANTRY_UINT, 16},
                {"h", GANTRY_INT, 16},      {"I", GANTRY_UINT, 32},     {"i", GANTRY_INT, 32},
                {"Q", GANTRY_UINT, 64},     {"q", GANTRY_INT, 64},      {"e", GANTRY_FLOAT, 16},
                {"f", GANTRY_FLOAT, 32},    {"d", GANTRY_FLOAT, 64},    {"?", GANTRY_BOOL, 8},
                {"Zf", GANTRY_COMPLEX, 64}, {"Zd", GANTRY_COMPLEX, 128}};

static const char* format_of(const gantry_tensor* tensor) {
  for (size_t i = 0; i < sizeof kFormats / sizeof *kFormats; ++i)
    if (kFormats[i].code == tensor->type_code && kFormats[i].bits == tensor->type_bits &&
        tensor->type_lanes == 1)
      return kFormats[i].name;
  return NULL;
}

/// DLPack's code of a format of the module struct, or of complex numbers; -1: there is none.
static int code_of_format(const char* format) {
  if (*format == '@' || *format == '=' || *format == '<') ++format;  // all little-endian here
  if (format[0] == 'Z' && (format[1] == 'f' || format[1] == 'd') && format[2] == '\0')
    return GANTRY_COMPLEX;
  if (format[0] == '\0' || format[1] != '\0') return -1;
  if (strchr("bhilqn", format[0])) return GANTRY_INT;
  if (strchr("BHILQNc", format[0])) return GANTRY_UINT;  // c_char: bytes
  if (strchr("efd", format[0])) return GANTRY_FLOAT;
  return format[0] == '?' ? GANTRY_BOOL : -1;
}

/// Without a shape: one dimension. Without strides, as ctypes has it: no gaps, in C's order.
static void read_shape(const Py_buffer* buffer, gantry_tensor* tensor) {
  const int has_shape = buffer->ndim == 0 || buffer->shape != NULL;
  tensor->dimensions = has_shape ? (uint32_t)buffer->ndim : 1;
  int64_t dense = 1;
  for (uint32_t i = tensor->dimensions; i-- > 0;) {
    tensor->shape[i] = has_shape ? buffer->shape[i] : buffer->len / buffer->itemsize;
    tensor->strides[i] =
        has_shape && buffer->strides != NULL ? buffer->strides[i] / buffer->itemsize : dense;
    dense *= tensor->shape[i];
  }
}

int tensor_of_buffer(const Py_buffer* buffer, gantry_tensor* tensor) {
  const char* const format = buffer->format == NULL ? "B" : buffer->format;
  const int is_bytes = strcmp(format, "B") == 0 || strcmp(format, "c") == 0 ||
                       strcmp(format, "<c") == 0;  // as ctypes writes c_char
  if (buffer->ndim == 1 && buffer->itemsize == 1 && is_bytes) return 0;
  const int code = buffer->itemsize > 0 && buffer->itemsize <= 16 ? code_of_format(format) : -1;
  if (code < 0) {
    char message[200];
    PyOS_snprintf(message, sizeof message, "elements of the format '%.100s': no tensor has them",
                  format);
    raise_own(GANTRY_INVALID_ARGUMENT, message,
              format[0] == '>'
                  ? "array.astype(array.dtype.newbyteorder('='))"
                  : "send numbers, array.view('uint8'), or the object by pickles=True");
    return -1;
  }
  if (buffer->ndim > GANTRY_MAX_DIMENSIONS) {
    raise_own(GANTRY_INVALID_ARGUMENT, "an array of more than 8 dimensions",
              "array.reshape() it, and send its shape along");
    return -1;
  }
  tensor->type_code = (uint8_t)code;
  tensor->type_bits = (uint8_t)(buffer->itemsize * 8);
  tensor->type_lanes = 1;
  read_shape(buffer, tensor);
  return 1;
}

static int is_dense(const gantry_tensor* tensor, int fortran) {
  int64_t expected = 1;
  for (uint32_t n = 0; n < tensor->dimensions; ++n) {
    const uint32_t i = fortran ? n : tensor->dimensions - 1 - n;
    if (tensor->shape[i] != 1 && tensor->strides[i] != expected) return 0;
    expected *= tensor->shape[i];
  }
  return 1;
}

int tensor_is_dense(const gantry_tensor* tensor, size_t* bytes) {
  *bytes = (size_t)tensor->type_bits * tensor->type_lanes / 8;
  for (uint32_t i = 0; i < tensor->dimensions; ++i) *bytes *= (size_t)tensor->shape[i];
  return *bytes == 0 || is_dense(tensor, 0) || is_dense(tensor, 1);
}

static void describe(Memory* memory, const gantry_tensor* tensor) {
  memory->has_tensor = tensor != NULL;
  if (tensor != NULL) {
    memory->tensor = *tensor;
  } else {
    memory->tensor = (gantry_tensor){GANTRY_UINT, 8, 1, 1, {(int64_t)memory->bytes}, {1}};
  }
  memory->format = format_of(&memory->tensor);
  memory->itemsize = memory->tensor.type_bits / 8 * memory->tensor.type_lanes;
  for (uint32_t i = 0; i < memory->tensor.dimensions; ++i) {
    memory->shape[i] = (Py_ssize_t)memory->tensor.shape[i];
    memory->strides[i] = (Py_ssize_t)memory->tensor.strides[i] * memory->itemsize;
  }
}

Memory* memory_new(void* data, size_t bytes, const gantry_tensor* tensor) {
  static char nothing[1];
  Memory* const memory = (Memory*)PyType_GenericAlloc(memory_type, 0);
  if (memory == NULL) return NULL;
  memory->data = data == NULL ? nothing : data;
  memory->bytes = bytes;
  describe(memory, tensor);
  return memory;
}

void drop_quietly(PyObject* object) {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  Py_XDECREF(object);
  PyErr_Restore(type, value, trace);
}

static void memory_dealloc(PyObject* self) {
  Memory* const memory = (Memory*)self;
  gantry_free(memory->handle);
  if (memory->owner != NULL) {
    if (Py_IS_TYPE(memory->owner, message_type)) --((Message*)memory->owner)->memories;
    drop_quietly(memory->owner);
  }
  dealloc_object(self);
}

static int refuse_buffer(Py_buffer* buffer, const char* why) {
  buffer->obj = NULL;
  PyErr_SetString(PyExc_BufferError, why);
  return -1;
}

static int memory_getbuffer(PyObject* self, Py_buffer* buffer, int flags) {
  Memory* const memory = (Memory*)self;
  if (memory->readonly && (flags & PyBUF_WRITABLE))
    return refuse_buffer(buffer, "a message is read-only; message.private() can be written");
  if (memory->format == NULL && (flags & PyBUF_FORMAT))
    return refuse_buffer(buffer,
                         "NumPy has no such type (as bf16, fp8); torch() makes a tensor of it");
  const int c_order = is_dense(&memory->tensor, 0);
  const int wants_c = (flags & PyBUF_C_CONTIGUOUS) == PyBUF_C_CONTIGUOUS ||
                      (flags & PyBUF_STRIDES) != PyBUF_STRIDES;
  if (wants_c && !c_order) return refuse_buffer(buffer, "this tensor is not in C's order");
  if ((flags & (PyBUF_F_CONTIGUOUS & ~PyBUF_STRIDES)) && !is_dense(&memory->tensor, 1))
    return refuse_buffer(buffer, "this tensor is not in Fortran's order");
  if ((flags & (PyBUF_ANY_CONTIGUOUS & ~PyBUF_STRIDES)) && !c_order &&
      !is_dense(&memory->tensor, 1))
    return refuse_buffer(buffer, "this tensor has gaps");
  buffer->obj = Py_NewRef(self);
  buffer->buf = memory->data;
  buffer->itemsize = memory->itemsize == 0 ? 1 : memory->itemsize;
  buffer->len = buffer->itemsize;
  for (uint32_t i = 0; i < memory->tensor.dimensions; ++i) buffer->len *= memory->shape[i];
  buffer->readonly = memory->readonly;
  buffer->ndim = (int)memory->tensor.dimensions;
  buffer->format = (flags & PyBUF_FORMAT) ? (char*)(uintptr_t)memory->format : NULL;
  buffer->shape = (flags & PyBUF_ND) ? memory->shape : NULL;
  buffer->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? memory->strides : NULL;
  buffer->suboffsets = NULL;
  buffer->internal = NULL;
  return 0;
}

/// The type's code, bits and lanes, and the shape; None for plain bytes.
static PyObject* memory_tensor(PyObject* self, void* unused) {
  (void)unused;
  const Memory* const memory = (const Memory*)self;
  if (!memory->has_tensor) Py_RETURN_NONE;
  PyObject* const shape = PyTuple_New((Py_ssize_t)memory->tensor.dimensions);
  for (uint32_t i = 0; shape != NULL && i < memory->tensor.dimensions; ++i)
    PyTuple_SetItem(shape, (Py_ssize_t)i, PyLong_FromLongLong(memory->tensor.shape[i]));
  return shape == NULL ? NULL
                       : Py_BuildValue("(iiiN)", memory->tensor.type_code, memory->tensor.type_bits,
                                       memory->tensor.type_lanes, shape);
}

/// A block that says from now on that it holds what `array` does, which lies at its beginning.
static PyObject* memory_describe(PyObject* self, PyObject* array) {
  Py_buffer buffer;
  if (check_numpy(array) != 0 || get_buffer(array, &buffer) != 0) return NULL;
  gantry_tensor tensor;
  const int has_tensor = tensor_of_buffer(&buffer, &tensor);
  PyBuffer_Release(&buffer);
  if (has_tensor < 0) return NULL;
  size_t bytes;
  if (has_tensor && !tensor_is_dense(&tensor, &bytes))
    return raise_own(GANTRY_INVALID_ARGUMENT,
                     "this array: there are gaps between its elements, or they overlap",
                     "numpy.ascontiguousarray(array), and send() it");
  describe((Memory*)self, has_tensor ? &tensor : NULL);
  Py_RETURN_NONE;
}

static PyGetSetDef memory_getset[] = {{"tensor", memory_tensor, NULL, NULL, NULL}, {0}};
static PyMethodDef memory_methods[] = {
    {"dlpack", memory_dlpack, METH_O, NULL}, {"describe", memory_describe, METH_O, NULL}, {0}};
static PyType_Slot memory_slots[] = {{Py_tp_dealloc, memory_dealloc},
                                     {Py_bf_getbuffer, memory_getbuffer},
                                     {Py_tp_getset, memory_getset},
                                     {Py_tp_methods, memory_methods},
                                     {0, NULL}};
PyType_Spec memory_spec = {"gantry._core.Memory", sizeof(Memory), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, memory_slots};

// ---- pools

PyObject* pool_new(gantry_pool* handle) {
  Pool* const pool = (Pool*)PyType_GenericAlloc(pool_type, 0);
  if (pool == NULL)
    gantry_free(handle);
  else
    pool->handle = handle;
  return (PyObject*)pool;
}

static void pool_dealloc(PyObject* self) {
  free_apart(((Pool*)self)->handle);
  dealloc_object(self);
}

static PyObject* block_memory(gantry_block* block, void* data, size_t bytes) {
  Memory* const memory = memory_new(data, bytes, NULL);
  if (memory == NULL) {
    gantry_free(block);
    return NULL;
  }
  memory->handle = block;
  memory->is_block = 1;
  return (PyObject*)memory;
}

static PyObject* pool_allocate(PyObject* self, PyObject* size) {
  uint64_t bytes;
  if (read_number64(size, "size", &bytes) != 0) return NULL;
  gantry_block* block = NULL;
  void* data = NULL;
  PyThreadState* const state = PyEval_SaveThread();  // memory from the system takes its time
  const gantry_code code = gantry_pool_allocate(((Pool*)self)->handle, bytes, &block, &data);
  PyEval_RestoreThread(state);
  return code != GANTRY_OK ? raise_code(code) : block_memory(block, data, bytes);
}

/// The block that begins where the array does; None if there is none.
static PyObject* pool_find(PyObject* self, PyObject* array) {
  Py_buffer buffer;
  if (get_buffer(array, &buffer) != 0) return NULL;
  gantry_block* block = NULL;
  void* data = NULL;
  size_t bytes = 0;
  const gantry_code code =
      gantry_pool_find(((Pool*)self)->handle, buffer.buf, &block, &data, &bytes);
  const int is_it = code == GANTRY_OK && data == buffer.buf;
  PyBuffer_Release(&buffer);
  if (is_it) return block_memory(block, data, bytes);
  gantry_free(block);
  Py_RETURN_NONE;
}

static PyMethodDef pool_methods[] = {
    {"allocate", pool_allocate, METH_O, NULL}, {"find", pool_find, METH_O, NULL}, {0}};
static PyType_Slot pool_slots[] = {
    {Py_tp_dealloc, pool_dealloc}, {Py_tp_methods, pool_methods}, {0, NULL}};
PyType_Spec pool_spec = {"gantry._core.Pool", sizeof(Pool), 0,
                         Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, pool_slots};
