// The extension gantry._core: a thin translation of gantry.h. What users see is Python above it.

#include "core.h"

PyTypeObject *memory_type, *message_type, *parts_type, *pool_type, *runtime_type, *call_type,
    *producer_type, *consumer_type, *queue_type, *group_type, *collective_type, *table_type,
    *span_type, *image_type;

void dealloc_object(PyObject* self) {
  PyTypeObject* const type = Py_TYPE(self);
  freefunc const release = (freefunc)PyType_GetSlot(type, Py_tp_free);
  release(self);
  Py_DECREF(type);
}

void free_apart(void* handle) {
  if (handle == NULL) return;
  PyThreadState* const state = PyEval_SaveThread();
  gantry_free(handle);
  PyEval_RestoreThread(state);
}

// ---- Runtime(directory, engine)

static PyObject* runtime_make(PyTypeObject* type, PyObject* arguments, PyObject* words) {
  (void)words;
  gantry_runtime_options options = {.size = sizeof options};
  if (!PyArg_ParseTuple(arguments, "zz", &options.directory, &options.engine)) return NULL;
  gantry_runtime* handle = NULL;
  PyThreadState* const state = PyEval_SaveThread();
  const gantry_code code = gantry_runtime_create(&options, &handle);
  PyEval_RestoreThread(state);
  if (code != GANTRY_OK) return raise_code(code);
  Runtime* const runtime = (Runtime*)PyType_GenericAlloc(type, 0);
  if (runtime == NULL) {
    gantry_free(handle);
    return NULL;
  }
  runtime->handle = handle;
  runtime->generation = fork_generation;
  return (PyObject*)runtime;
}

static void runtime_dealloc(PyObject* self) {
  free_apart(((Runtime*)self)->handle);
  dealloc_object(self);
}

gantry_runtime* runtime_of(PyObject* object) {
  if (!Py_IS_TYPE(object, runtime_type)) {
    PyErr_SetString(PyExc_TypeError, "a Runtime is needed");
    return NULL;
  }
  Runtime* const runtime = (Runtime*)object;
  if (runtime->generation == fork_generation) return runtime->handle;
  raise_own(GANTRY_UNSUPPORTED, "this runtime: it was made before fork()", "make one in the child");
  return NULL;
}

static PyObject* runtime_status_json(PyObject* self, PyObject* unused) {
  (void)unused;
  gantry_runtime* const runtime = runtime_of(self);
  if (runtime == NULL) return NULL;
  size_t needed = 16384;
  for (;;) {
    const size_t capacity = needed + 4096;
    char* const buffer = PyMem_Malloc(capacity);
    if (buffer == NULL) return PyErr_NoMemory();
    PyThreadState* const state = PyEval_SaveThread();
    const gantry_code code = gantry_status_json(runtime, buffer, capacity, &needed);
    PyEval_RestoreThread(state);
    PyObject* const text = code == GANTRY_OK ? PyUnicode_FromString(buffer) : NULL;
    PyMem_Free(buffer);
    if (code == GANTRY_OK) return text;
    if (code != GANTRY_TOO_LARGE) return raise_code(code);
  }
}

static PyMethodDef runtime_methods[] = {{"status_json", runtime_status_json, METH_NOARGS, NULL},
                                        {0}};
static PyType_Slot runtime_slots[] = {{Py_tp_new, runtime_make},
                                      {Py_tp_dealloc, runtime_dealloc},
                                      {Py_tp_methods, runtime_methods},
                                      {0, NULL}};
PyType_Spec runtime_spec = {"gantry._core.Runtime", sizeof(Runtime), 0, Py_TPFLAGS_DEFAULT,
                            runtime_slots};

// ---- the module

/// create_pool(name, budget_bytes, slab_bytes)
static PyObject* create_pool(PyObject* module, PyObject* arguments) {
  (void)module;
  gantry_pool_options options = {.size = sizeof options};
  PyObject *budget, *slab;
  if (!PyArg_ParseTuple(arguments, "sOO", &options.name, &budget, &slab) ||
      read_number64(budget, "budget_bytes", &options.budget_bytes) != 0 ||
      read_number64(slab, "slab_bytes", &options.slab_bytes) != 0)
    return NULL;
  gantry_pool* pool = NULL;
  const gantry_code code = gantry_pool_create(&options, &pool);
  return code != GANTRY_OK ? raise_code(code) : pool_new(pool);
}

static PyObject* version(PyObject* module, PyObject* unused) {
  (void)module;
  (void)unused;
  return PyUnicode_FromString(gantry_version());
}

static PyMethodDef functions[] = {{"set_error_factory", set_error_factory, METH_O, NULL},
                                  {"create_pool", create_pool, METH_VARARGS, NULL},
                                  {"check_timeout", check_timeout, METH_O, NULL},
                                  {"numpy_handler", numpy_handler, METH_O, NULL},
                                  {"set_numpy_handler", numpy_set_handler, METH_O, NULL},
                                  {"table_from_address", table_from_address, METH_VARARGS, NULL},
                                  {"encode_item", item_encode, METH_O, NULL},
                                  {"encode_array", item_encode_array, METH_O, NULL},
                                  {"load_items", load_items, METH_VARARGS, NULL},
                                  {"version", version, METH_NOARGS, NULL},
                                  {0}};
static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_core", NULL, -1, functions, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__core(void) {
  static const struct {
    PyTypeObject** type;
    PyType_Spec* spec;
    const char* name;
  } kTypes[] = {{&memory_type, &memory_spec, "Memory"},
                {&message_type, &message_spec, "Message"},
                {&parts_type, &parts_spec, "Parts"},
                {&pool_type, &pool_spec, "Pool"},
                {&runtime_type, &runtime_spec, "Runtime"},
                {&call_type, &call_spec, "Call"},
                {&producer_type, &producer_spec, "Producer"},
                {&consumer_type, &consumer_spec, "Consumer"},
                {&queue_type, &queue_spec, "Queue"},
                {&group_type, &group_spec, "Group"},
                {&collective_type, &collective_spec, "Collective"},
                {&table_type, &table_spec, "Table"},
                {&span_type, &span_spec, "Span"},
                {&image_type, &image_spec, "Image"}};
  PyObject* const module = PyModule_Create(&definition);
  if (module == NULL || end_prepare_module() != 0) return NULL;
  for (size_t i = 0; i < sizeof kTypes / sizeof *kTypes; ++i) {
    *kTypes[i].type = (PyTypeObject*)PyType_FromSpec(kTypes[i].spec);
    if (*kTypes[i].type == NULL ||
        PyModule_AddObjectRef(module, kTypes[i].name, (PyObject*)*kTypes[i].type) != 0)
      return NULL;
  }
  return module;
}
