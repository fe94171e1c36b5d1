// A span of the user's own, in the trace of the thread that ends it.

#include <gantry/trace.h>

#include "core.h"

typedef struct Span {
  PyObject_HEAD PyObject* name;
  const char* text;  // of the name
  uint64_t began;    // 0: nobody records
  int is_open;
} Span;

/// Span(name)
static PyObject* span_make(PyTypeObject* type, PyObject* arguments, PyObject* words) {
  static char* names[] = {"name", NULL};
  PyObject* name;
  const char* text;
  if (!PyArg_ParseTupleAndKeywords(arguments, words, "O", names, &name) ||
      read_text(name, "name", &text) != 0)
    return NULL;
  const gantry_code code = gantry_span_end(0, text);  // says whether a span can be called so
  if (code != GANTRY_OK) return raise_code(code);
  Span* const span = (Span*)PyType_GenericAlloc(type, 0);
  if (span == NULL) return NULL;
  span->name = Py_NewRef(name);
  span->text = text;
  return (PyObject*)span;
}

static void span_dealloc(PyObject* self) {
  Py_XDECREF(((Span*)self)->name);
  dealloc_object(self);
}

static PyObject* span_enter(PyObject* self, PyObject* unused) {
  (void)unused;
  Span* const span = (Span*)self;
  if (span->is_open)
    return raise_own(GANTRY_INVALID_ARGUMENT, "this span: it goes on already",
                     "make one for each block");
  span->is_open = 1;
  span->began = gantry_span_begin();
  return Py_NewRef(self);
}

static PyObject* span_exit(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  (void)arguments;
  (void)count;
  Span* const span = (Span*)self;
  if (span->is_open && span->began != 0) gantry_span_end(span->began, span->text);
  span->is_open = 0;
  Py_RETURN_NONE;
}

static PyMethodDef span_methods[] = {{"__enter__", span_enter, METH_NOARGS, NULL},
                                     {"__exit__", FASTCALL(span_exit), METH_FASTCALL, NULL},
                                     {0}};
static PyMemberDef span_members[] = {{"name", T_OBJECT_EX, offsetof(Span, name), READONLY, NULL},
                                     {0}};
static PyType_Slot span_slots[] = {{Py_tp_new, span_make},
                                   {Py_tp_dealloc, span_dealloc},
                                   {Py_tp_methods, span_methods},
                                   {Py_tp_members, span_members},
                                   {0, NULL}};
PyType_Spec span_spec = {"gantry._core.Span", sizeof(Span), 0,
                         Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, span_slots};
