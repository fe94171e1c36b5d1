#include "core.h"

static PyObject* error_factory = NULL;  // (code, message, hint) -> an exception

PyObject* set_error_factory(PyObject* module, PyObject* factory) {
  (void)module;
  PyObject* const before = error_factory;
  error_factory = Py_NewRef(factory);
  Py_XDECREF(before);
  Py_RETURN_NONE;
}

PyObject* raise_own(gantry_code code, const char* message, const char* hint) {
  if (error_factory == NULL) {
    PyErr_SetString(PyExc_RuntimeError, message);
    return NULL;
  }
  PyObject* const words = PyUnicode_DecodeUTF8(message, (Py_ssize_t)strlen(message), "replace");
  PyObject* const hints = PyUnicode_DecodeUTF8(hint, (Py_ssize_t)strlen(hint), "replace");
  PyObject* const number = PyLong_FromLong(code);
  PyObject* error = NULL;
  if (words != NULL && hints != NULL && number != NULL)
    error = PyObject_CallFunctionObjArgs(error_factory, number, words, hints, NULL);
  if (error != NULL) PyErr_SetObject((PyObject*)Py_TYPE(error), error);
  Py_XDECREF(error);
  Py_XDECREF(words);
  Py_XDECREF(hints);
  Py_XDECREF(number);
  return NULL;
}

PyObject* raise_code(gantry_code code) {
  if (code == -1) return NULL;  // there is an exception already
  const gantry_error* const last = gantry_last_error();
  return raise_own(code, last->message, last->hint);
}
