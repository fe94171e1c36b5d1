// An image that a process keeps.

#include <gantry/image.h>

#include <time.h>

#include "core.h"

typedef struct Image {
  PyObject_HEAD gantry_image* handle;
} Image;

/// Between two looks for a signal's handler. An end that is being opened takes 200 ms at least.
static const int64_t kSliceNs = 200000000;

static int64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/// Image(runtime, name, timeout): in slices, since each attaches anew.
static PyObject* image_make(PyTypeObject* type, PyObject* arguments, PyObject* words) {
  static char* names[] = {"runtime", "name", "timeout", NULL};
  PyObject *given, *said, *seconds;
  const char* name;
  if (!PyArg_ParseTupleAndKeywords(arguments, words, "OOO", names, &given, &said, &seconds) ||
      read_text(said, "name", &name) != 0)
    return NULL;
  gantry_runtime* const runtime = runtime_of(given);
  if (runtime == NULL) return NULL;
  int64_t left = timeout_of(seconds);
  if (left == -2) return NULL;
  const int64_t begun = now_ns(), whole = left;
  gantry_image* handle = NULL;
  gantry_code code;
  do {
    const int64_t slice = left >= 0 && left < kSliceNs ? left : kSliceNs;
    PyThreadState* const state = PyEval_SaveThread();
    code = gantry_image_attach(runtime, name, slice, &handle);
    PyEval_RestoreThread(state);
    if (whole >= 0) {
      const int64_t gone = now_ns() - begun;
      left = gone < whole ? whole - gone : 0;
    }
    if (code == GANTRY_TIMED_OUT && PyErr_CheckSignals() != 0) return NULL;
  } while (code == GANTRY_TIMED_OUT && left != 0);
  if (code != GANTRY_OK) return raise_code(code);
  Image* const image = (Image*)PyType_GenericAlloc(type, 0);
  if (image == NULL)
    gantry_free(handle);
  else
    image->handle = handle;
  return (PyObject*)image;
}

static void image_dealloc(PyObject* self) {
  free_apart(((Image*)self)->handle);
  dealloc_object(self);
}

static PyObject* image_names(PyObject* self, PyObject* unused) {
  (void)unused;
  const Image* const image = (Image*)self;
  size_t count = 0;
  gantry_code code = gantry_image_tensors(image->handle, &count);
  if (code != GANTRY_OK) return raise_code(code);
  PyObject* const all = PyTuple_New((Py_ssize_t)count);
  for (size_t i = 0; all != NULL && i < count; ++i) {
    const char* name = NULL;
    code = gantry_image_name(image->handle, i, &name);
    // Names are bytes; what is no UTF-8 comes back by "surrogateescape", as names of files do.
    PyObject* const text = code == GANTRY_OK ? PyUnicode_DecodeFSDefault(name) : raise_code(code);
    if (text == NULL || PyTuple_SetItem(all, (Py_ssize_t)i, text) != 0) {
      Py_DECREF(all);
      return NULL;
    }
  }
  return all;
}

static PyObject* image_tensor(PyObject* self, PyObject* name) {
  PyObject* bytes = NULL;
  if (!PyUnicode_FSConverter(name, &bytes)) return NULL;
  gantry_message* message = NULL;
  const gantry_code code =
      gantry_image_tensor(((Image*)self)->handle, PyBytes_AsString(bytes), &message);
  Py_DECREF(bytes);
  return code != GANTRY_OK ? raise_code(code) : message_new(message, NULL);
}

static PyMethodDef image_methods[] = {{"names", image_names, METH_NOARGS, NULL},
                                      {"tensor", image_tensor, METH_O, NULL},
                                      {0}};
static PyType_Slot image_slots[] = {{Py_tp_new, image_make},
                                    {Py_tp_dealloc, image_dealloc},
                                    {Py_tp_methods, image_methods},
                                    {0, NULL}};
PyType_Spec image_spec = {"gantry._core.Image", sizeof(Image), 0, Py_TPFLAGS_DEFAULT, image_slots};
