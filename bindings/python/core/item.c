// Small items of a queue as bytes, and back: plain values and tuples of them, without pickle.

#include "item_code.h"

#include "core.h"

// ---- writing. 1: written; 0: pickle has to do it; -1 and an exception

static int write_text(ItemWriter* writer, PyObject* text, ItemValue* value) {
  Py_ssize_t length;
  const char* const bytes = PyUnicode_AsUTF8AndSize(text, &length);
  if (bytes == NULL) {  // it has surrogates, or there is no memory
    PyErr_Clear();
    return 0;
  }
  if (length > kItemMost) return 0;
  value->kind = 's';
  value->bytes = (const unsigned char*)bytes;
  value->length = (uint32_t)length;
  return item_write(writer, value) == 0;
}

static int write_bytes(ItemWriter* writer, PyObject* bytes, ItemValue* value) {
  char* data;
  Py_ssize_t length;
  if (PyBytes_AsStringAndSize(bytes, &data, &length) != 0) return -1;
  if (length > kItemMost) return 0;
  value->kind = 'b';
  value->bytes = (const unsigned char*)data;
  value->length = (uint32_t)length;
  return item_write(writer, value) == 0;
}

static int write_number(ItemWriter* writer, PyObject* number, ItemValue* value) {
  int overflow;
  value->kind = 'i';
  value->number = PyLong_AsLongLongAndOverflow(number, &overflow);
  if (overflow != 0) return 0;
  return item_write(writer, value) == 0;
}

static int write_value(ItemWriter* writer, PyObject* object, int depth);

static int write_tuple(ItemWriter* writer, PyObject* tuple, ItemValue* value, int depth) {
  const Py_ssize_t count = PyTuple_Size(tuple);
  if (count > kItemMostValues || depth == kItemMostDepth) return 0;
  value->kind = 't';
  value->values = (uint8_t)count;
  int done = item_write(writer, value) == 0;
  for (Py_ssize_t i = 0; done == 1 && i < count; ++i)
    done = write_value(writer, PyTuple_GetItem(tuple, i), depth + 1);
  return done;
}

static int write_value(ItemWriter* writer, PyObject* object, int depth) {
  ItemValue value = {0};
  if (PyBytes_CheckExact(object)) return write_bytes(writer, object, &value);
  if (PyUnicode_CheckExact(object)) return write_text(writer, object, &value);
  if (PyLong_CheckExact(object)) return write_number(writer, object, &value);
  if (PyTuple_CheckExact(object)) return write_tuple(writer, object, &value, depth);
  if (PyFloat_CheckExact(object)) {
    value.kind = 'f';
    value.real = PyFloat_AsDouble(object);
  } else if (object == Py_None) {
    value.kind = 'N';
  } else if (PyBool_Check(object)) {
    value.kind = object == Py_True ? 'T' : 'F';
  } else {
    return 0;
  }
  return item_write(writer, &value) == 0;
}

PyObject* item_encode(PyObject* module, PyObject* object) {
  (void)module;
  ItemWriter writer;
  writer.size = 0;
  const int done = write_value(&writer, object, 0);
  if (done < 0) return NULL;
  if (done == 0) Py_RETURN_NONE;
  return PyBytes_FromStringAndSize((const char*)writer.bytes, (Py_ssize_t)writer.size);
}

// ---- arrays

// Types of elements that a buffer of NumPy's names by one character, and their sizes.
static size_t size_of_element(char element) {
  switch (element) {
    case '?':
    case 'b':
    case 'B':
      return 1;
    case 'h':
    case 'H':
    case 'e':
      return 2;
    case 'i':
    case 'I':
    case 'f':
      return 4;
    case 'l':
    case 'L':
      return sizeof(long);
    case 'q':
    case 'Q':
    case 'd':
      return 8;
    default:
      return 0;
  }
}

/// 0: pickle has to do it.
static int write_array(ItemWriter* writer, const Py_buffer* view) {
  unsigned char bytes[kItemMost];
  ItemValue value = {0};
  if (view->format == NULL || strlen(view->format) != 1 || view->ndim < 1 ||
      view->ndim > kItemMostDepth || view->len <= 0 ||
      size_of_element(*view->format) != (size_t)view->itemsize)
    return 0;
  const size_t shape = (size_t)view->ndim * sizeof(int64_t);
  if ((size_t)view->len > sizeof bytes - shape) return 0;
  for (int i = 0; i < view->ndim; ++i) {
    const int64_t extent = view->shape[i];
    memcpy(bytes + (size_t)i * sizeof extent, &extent, sizeof extent);
  }
  memcpy(bytes + shape, view->buf, (size_t)view->len);
  value.kind = view->readonly ? 'A' : 'a';
  value.element = *view->format;
  value.values = (uint8_t)view->ndim;
  value.length = (uint32_t)(shape + (size_t)view->len);
  value.bytes = bytes;
  return item_write(writer, &value) == 0;
}

PyObject* item_encode_array(PyObject* module, PyObject* array) {
  (void)module;
  Py_buffer view;
  if (PyObject_GetBuffer(array, &view, PyBUF_FORMAT | PyBUF_C_CONTIGUOUS) != 0) {
    PyErr_Clear();  // of a type that has no character, or of another order
    Py_RETURN_NONE;
  }
  ItemWriter writer;
  writer.size = 0;
  const int done = write_array(&writer, &view);
  PyBuffer_Release(&view);
  if (done == 0) Py_RETURN_NONE;
  return PyBytes_FromStringAndSize((const char*)writer.bytes, (Py_ssize_t)writer.size);
}

/// numpy.dtype(element), made once: a borrowed reference.
static PyObject* type_of_element(PyObject* numpy, char element) {
  static PyObject* known[128];
  PyObject** const type = &known[(unsigned char)element];
  if (*type == NULL) *type = PyObject_CallMethod(numpy, "dtype", "C", element);
  return *type;
}

/// A tuple; NULL: the extents are not those of `count` bytes, or an exception.
static PyObject* shape_of(const ItemValue* value, size_t size, size_t count) {
  PyObject* const shape = PyTuple_New(value->values);
  size_t elements = 1;
  for (Py_ssize_t i = 0; shape != NULL && i < value->values; ++i) {
    int64_t extent;
    memcpy(&extent, value->bytes + (size_t)i * sizeof extent, sizeof extent);
    const int fits = extent > 0 && (size_t)extent <= kItemMost / elements;
    PyObject* const number = fits ? PyLong_FromLongLong(extent) : NULL;
    if (number == NULL || PyTuple_SetItem(shape, i, number) != 0) {
      Py_DECREF(shape);
      return NULL;
    }
    elements *= (size_t)extent;
  }
  if (shape == NULL || elements * size == count) return shape;
  Py_DECREF(shape);
  return NULL;
}

static PyObject* refuse(void);

static PyObject* read_array(const ItemValue* value) {
  static PyObject *numpy, *make;
  const size_t size = size_of_element(value->element);
  const size_t extents = (size_t)value->values * sizeof(int64_t);
  if (size == 0 || value->values == 0 || value->values > kItemMostDepth || value->length <= extents)
    return refuse();
  if (numpy == NULL) numpy = PyImport_ImportModule("numpy");
  if (numpy != NULL && make == NULL) make = PyObject_GetAttrString(numpy, "ndarray");
  if (make == NULL) return NULL;
  PyObject* const type = type_of_element(numpy, value->element);
  if (type == NULL) return NULL;
  const Py_ssize_t count = (Py_ssize_t)(value->length - extents);
  PyObject* const shape = shape_of(value, size, (size_t)count);
  if (shape == NULL) return PyErr_Occurred() ? NULL : refuse();
  const char* const first = (const char*)value->bytes + extents;
  PyObject* const memory = value->kind == 'a' ? PyByteArray_FromStringAndSize(first, count)
                                              : PyBytes_FromStringAndSize(first, count);
  PyObject* const array =
      memory == NULL ? NULL : PyObject_CallFunctionObjArgs(make, shape, type, memory, NULL);
  Py_XDECREF(memory);
  Py_DECREF(shape);
  return array;
}

// ---- reading

static PyObject* refuse(void) {
  return raise_own(GANTRY_PEER_MISBEHAVED, "queue: an item whose bytes are neither plain values"
                   " nor a pickle", "all that put into it use gantry.Queue of this version");
}

static PyObject* read_value(ItemReader* reader, int depth);

static PyObject* read_tuple(ItemReader* reader, size_t count, int depth) {
  if (depth == kItemMostDepth) return refuse();
  if (count > reader->left) return refuse();  // each has a byte at least
  PyObject* const tuple = PyTuple_New((Py_ssize_t)count);
  for (size_t i = 0; tuple != NULL && i < count; ++i) {
    PyObject* const value = read_value(reader, depth + 1);
    if (value == NULL) {
      Py_DECREF(tuple);
      return NULL;
    }
    PyTuple_SetItem(tuple, (Py_ssize_t)i, value);
  }
  return tuple;
}

static PyObject* read_value(ItemReader* reader, int depth) {
  ItemValue value;
  if (item_next(reader, &value) != 0) return refuse();
  switch (value.kind) {
    case 'T':
      return Py_NewRef(Py_True);
    case 'F':
      return Py_NewRef(Py_False);
    case 'i':
      return PyLong_FromLongLong(value.number);
    case 'f':
      return PyFloat_FromDouble(value.real);
    case 'b':
      return PyBytes_FromStringAndSize((const char*)value.bytes, (Py_ssize_t)value.length);
    case 's':
      return PyUnicode_DecodeUTF8((const char*)value.bytes, (Py_ssize_t)value.length, NULL);
    case 't':
      return read_tuple(reader, value.values, depth);
    case 'a':
    case 'A':
      return read_array(&value);
    default:
      return Py_NewRef(Py_None);
  }
}

PyObject* item_decode_value(const void* bytes, size_t count, Py_ssize_t* used) {
  // A copy: whoever put it may write to it meanwhile. What stands behind is not the item's.
  unsigned char copy[kItemMost];
  const size_t copied = count < sizeof copy ? count : sizeof copy;
  memcpy(copy, bytes, copied);
  ItemReader reader = {copy, copied};
  PyObject* const value = read_value(&reader, 0);
  *used = (Py_ssize_t)(reader.at - copy);
  return value;
}

PyObject* item_decode(const void* bytes, size_t count) {
  const unsigned char* const first = bytes;
  if (count == 0) return refuse();
  if (*first == kPickle) Py_RETURN_NONE;
  Py_ssize_t used = 0;
  PyObject* const value = item_decode_value(bytes, count, &used);
  if (value == NULL) return NULL;
  return Py_BuildValue("(Nn)", value, used);
}
