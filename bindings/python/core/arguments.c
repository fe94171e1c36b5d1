// What Python gives as numbers, texts and options, read strictly: nothing is cut off or ignored.

#include "core.h"

static int refuse(const char* name, const char* why, const char* hint) {
  char message[160];
  PyOS_snprintf(message, sizeof message, "%s: %s", name, why);
  raise_own(GANTRY_INVALID_ARGUMENT, message, hint);
  return -1;
}

static int refuse_type(const char* name, const char* needed, PyObject* object) {
  PyErr_Clear();
  PyObject* const type = PyType_GetName(Py_TYPE(object));
  if (type != NULL) PyErr_Format(PyExc_TypeError, "%s: %s is needed, not %U", name, needed, type);
  Py_XDECREF(type);
  return -1;
}

/// An int, of whatever has __index__; NULL: it raised.
static PyObject* index_of(PyObject* object, const char* name) {
  PyObject* const index = PyNumber_Index(object);
  if (index == NULL && !PyIndex_Check(object)) refuse_type(name, "a whole number", object);
  return index;
}

int read_number64(PyObject* object, const char* name, uint64_t* number) {
  PyObject* const index = index_of(object, name);
  if (index == NULL) return -1;
  const unsigned long long value = PyLong_AsUnsignedLongLong(index);
  Py_DECREF(index);
  if (value == (unsigned long long)-1 && PyErr_Occurred()) {
    PyErr_Clear();  // an OverflowError without a name
    return refuse(name, "it is negative, or beyond 64 bits", "from 0 to 2**64 - 1");
  }
  *number = value;
  return 0;
}

int read_number(PyObject* object, const char* name, uint32_t* number) {
  PyObject* const index = index_of(object, name);
  if (index == NULL) return -1;
  int is_beyond = 0;
  const long long value = PyLong_AsLongLongAndOverflow(index, &is_beyond);
  Py_DECREF(index);
  if (is_beyond || value < 0 || value > UINT32_MAX)
    return refuse(name, "it is negative, or beyond 32 bits", "from 0 to 2**32 - 1");
  *number = (uint32_t)value;
  return 0;
}

static int read_signed(PyObject* object, const char* name, int64_t* number) {
  PyObject* const index = index_of(object, name);
  if (index == NULL) return -1;
  int is_beyond = 0;
  *number = PyLong_AsLongLongAndOverflow(index, &is_beyond);
  Py_DECREF(index);
  return is_beyond ? refuse(name, "it is beyond 64 bits", "from -2**63 to 2**63 - 1") : 0;
}

int read_text(PyObject* object, const char* name, const char** text) {
  if (!PyUnicode_Check(object)) return refuse_type(name, "a str", object);
  Py_ssize_t length = 0;
  *text = PyUnicode_AsUTF8AndSize(object, &length);
  if (*text == NULL) return -1;
  if (strlen(*text) == (size_t)length) return 0;
  return refuse(name, "there is a NUL in it", "");
}

// ---- options

static int read_count(PyObject* value, const char* name, uint32_t* number) {
  if (read_number(value, name, number) != 0) return -1;
  return *number > 0 ? 0 : refuse(name, "it is 0", "at least 1; leave it out for the default");
}

static int read_mode(PyObject* value, const char* name, uint32_t* mode) {
  static const char* const kModes[] = {"automatic", "whole", "pipelined", "streamed", "immutable"};
  if (!PyUnicode_Check(value)) return read_number(value, name, mode);
  for (uint32_t i = 0; i < sizeof kModes / sizeof *kModes; ++i) {
    *mode = i;
    if (PyUnicode_CompareWithASCIIString(value, kModes[i]) == 0) return 0;
  }
  char why[80];
  PyOS_snprintf(why, sizeof why, "there is no '%.50s'", PyUnicode_AsUTF8AndSize(value, NULL));
  return refuse(name, why, "one of automatic, whole, pipelined, streamed, immutable");
}

static int read_pool(PyObject* value, const char* name, gantry_pool** pool) {
  if (!Py_IS_TYPE(value, pool_type)) return refuse_type(name, "a Pool", value);
  *pool = ((Pool*)value)->handle;
  return 0;
}

static int read_option(PyObject* value, const struct Option* option, void* field) {
  switch (option->kind) {
    case kNumber:
      return read_number(value, option->name, field);
    case kNumber64:
      return read_number64(value, option->name, field);
    case kSigned64:
      return read_signed(value, option->name, field);
    case kCount:
      return read_count(value, option->name, field);
    case kMode:
      return read_mode(value, option->name, field);
    default:
      return read_pool(value, option->name, field);
  }
}

static int refuse_option(PyObject* name, const struct Option* known) {
  char all[256] = "";
  for (; known->name != NULL; ++known) {
    const size_t used = strlen(all);
    PyOS_snprintf(all + used, sizeof all - used, "%s%s", used > 0 ? ", " : "", known->name);
  }
  PyErr_Format(PyExc_TypeError, "no option is called %R; there are %s", name, all);
  return -1;
}

int read_options(PyObject* given, const struct Option* known, void* options) {
  PyObject *name, *value;
  for (Py_ssize_t at = 0; PyDict_Next(given, &at, &name, &value);) {
    const struct Option* option = known;
    while (option->name != NULL && PyUnicode_CompareWithASCIIString(name, option->name) != 0)
      ++option;
    if (option->name == NULL) return refuse_option(name, known);
    if (read_option(value, option, (char*)options + option->offset) != 0) return -1;
  }
  return 0;
}
