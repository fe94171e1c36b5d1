// NumPy's arrays in a pool, by the hook of NEP 49. Nothing of NumPy's is needed to compile: the
// struct and the three places in its table of functions are frozen (since 1.22, and in 2.x).

#include <pthread.h>

#include "core.h"

enum { kSmall = 32768, kBuckets = 1024 };  // smaller arrays are NumPy's own
enum { kSetHandler = 304, kDefaultHandler = 306 };

typedef struct {
  char name[127];
  uint8_t version;
  void* context;
  void* (*malloc)(void* context, size_t bytes);
  void* (*calloc)(void* context, size_t count, size_t bytes);
  void* (*realloc)(void* context, void* data, size_t bytes);
  void (*free)(void* context, void* data, size_t bytes);
} Handler;

struct Born {  // an array's memory that is a block
  struct Born* next;
  void* data;
  size_t bytes;
  gantry_block* block;
};

typedef struct {
  Handler handler;
  const Handler* small;  // NumPy's own
  PyObject* pool;
  gantry_pool* handle;
  pthread_mutex_t lock;  // NumPy does not promise the GIL
  struct Born* born[kBuckets];
} Nursery;

static struct Born** bucket_of(Nursery* nursery, const void* data) {
  return &nursery->born[((uintptr_t)data >> 12) % kBuckets];
}

static struct Born* take(Nursery* nursery, const void* data) {
  pthread_mutex_lock(&nursery->lock);
  struct Born** at = bucket_of(nursery, data);
  while (*at != NULL && (*at)->data != data) at = &(*at)->next;
  struct Born* const found = *at;
  if (found != NULL) *at = found->next;
  pthread_mutex_unlock(&nursery->lock);
  return found;
}

static void put(Nursery* nursery, struct Born* born) {
  pthread_mutex_lock(&nursery->lock);
  struct Born** const at = bucket_of(nursery, born->data);
  born->next = *at;
  *at = born;
  pthread_mutex_unlock(&nursery->lock);
}

static void* born_malloc(void* context, size_t bytes) {
  Nursery* const nursery = context;
  if (bytes < kSmall) return nursery->small->malloc(nursery->small->context, bytes);
  struct Born* const born = malloc(sizeof *born);
  if (born == NULL) return NULL;
  *born = (struct Born){.bytes = bytes};
  if (gantry_pool_allocate(nursery->handle, bytes, &born->block, &born->data) != GANTRY_OK) {
    free(born);
    return NULL;
  }
  put(nursery, born);
  return born->data;
}

static void* born_calloc(void* context, size_t count, size_t bytes) {
  Nursery* const nursery = context;
  size_t all;
  if (__builtin_mul_overflow(count, bytes, &all)) return NULL;
  if (all < kSmall) return nursery->small->calloc(nursery->small->context, count, bytes);
  void* const data = born_malloc(context, all);
  return data == NULL ? NULL : memset(data, 0, all);  // a block may have been used before
}

static void born_free(void* context, void* data, size_t bytes) {
  Nursery* const nursery = context;
  struct Born* const born = data == NULL ? NULL : take(nursery, data);
  if (born == NULL) {
    nursery->small->free(nursery->small->context, data, bytes);
    return;
  }
  gantry_free(born->block);
  free(born);
}

static void* born_realloc(void* context, void* data, size_t bytes) {
  Nursery* const nursery = context;
  struct Born* const born = data == NULL ? NULL : take(nursery, data);
  if (born == NULL) return nursery->small->realloc(nursery->small->context, data, bytes);
  put(nursery, born);
  void* const moved = born_malloc(context, bytes);
  if (moved == NULL) return NULL;
  memcpy(moved, data, bytes < born->bytes ? bytes : born->bytes);
  born_free(context, data, born->bytes);
  return moved;
}

/// Every array holds the capsule of the handler that made it, so that this is the last one's end.
static void nursery_gone(PyObject* capsule) {
  Nursery* const nursery = PyCapsule_GetContext(capsule);
  pthread_mutex_destroy(&nursery->lock);
  Py_DECREF(nursery->pool);
  PyMem_Free(nursery);
}

static void** numpy_table(void) {
  static void** known = NULL;  // NumPy cannot be unloaded
  if (known != NULL) return known;
  PyObject* module = PyImport_ImportModule("numpy._core._multiarray_umath");
  if (module == NULL) {
    PyErr_Clear();
    module = PyImport_ImportModule("numpy.core._multiarray_umath");
  }
  if (module == NULL) return NULL;
  PyObject* const capsule = PyObject_GetAttrString(module, "_ARRAY_API");
  Py_DECREF(module);
  if (capsule == NULL) return NULL;
  known = PyCapsule_GetPointer(capsule, NULL);
  Py_DECREF(capsule);  // the module keeps it
  return known;
}

PyObject* numpy_handler(PyObject* module, PyObject* pool) {
  (void)module;
  void** const table = numpy_table();
  if (table == NULL) return NULL;
  if (!Py_IS_TYPE(pool, pool_type)) return PyErr_Format(PyExc_TypeError, "a Pool");
  const Handler* const small =
      PyCapsule_GetPointer(*(PyObject**)table[kDefaultHandler], "mem_handler");
  if (small == NULL) return NULL;
  Nursery* const nursery = PyMem_Calloc(1, sizeof *nursery);
  if (nursery == NULL) return PyErr_NoMemory();
  nursery->handler =
      (Handler){"gantry", 1, nursery, born_malloc, born_calloc, born_realloc, born_free};
  nursery->small = small;
  nursery->pool = Py_NewRef(pool);
  nursery->handle = ((Pool*)pool)->handle;
  pthread_mutex_init(&nursery->lock, NULL);
  PyObject* const capsule = PyCapsule_New(&nursery->handler, "mem_handler", nursery_gone);
  if (capsule != NULL && PyCapsule_SetContext(capsule, nursery) == 0) return capsule;
  Py_XDECREF(capsule);
  return NULL;
}

/// set_numpy_handler(handler): of this context; returns the one before.
PyObject* numpy_set_handler(PyObject* module, PyObject* handler) {
  (void)module;
  void** const table = numpy_table();
  if (table == NULL) return NULL;
  PyObject* (*set)(PyObject*) = NULL;
  memcpy(&set, &table[kSetHandler], sizeof set);
  return set(handler);
}
