// Tables in: structs of the Arrow C data interface, for whoever wants them. Their owner lives until
// each of them has been released, moved or not, in whatever thread and with or without the GIL.

#include <stdatomic.h>

#include "arrow.h"

static const char kSchema[] = "arrow_schema", kArray[] = "arrow_array";

/// What the structs of one export share. Their children, pointers and buffers lie behind it.
typedef struct Exported {
  atomic_size_t structs;  // that have not been released
  PyObject* owner;
} Exported;

static void drop(Exported* exported) {
  // Others have used what the owner holds before they released theirs.
  if (atomic_fetch_sub_explicit(&exported->structs, 1, memory_order_acq_rel) != 1) return;
  if (Py_IsInitialized()) {  // else its process ends
    const PyGILState_STATE state = PyGILState_Ensure();
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    Py_DECREF(exported->owner);
    PyErr_Restore(type, value, trace);
    PyGILState_Release(state);
  }
  free(exported);
}

#define DEFINE_RELEASE(Struct, name)                                                   \
  static void name(Struct* it) {                                                       \
    for (int64_t i = 0; i < it->n_children; ++i)                                       \
      if (it->children[i]->release != NULL) it->children[i]->release(it->children[i]); \
    if (it->dictionary != NULL && it->dictionary->release != NULL)                     \
      it->dictionary->release(it->dictionary);                                         \
    it->release = NULL;                                                                \
    drop(it->private_data);                                                            \
  }
DEFINE_RELEASE(ArrowSchema, release_schema)
DEFINE_RELEASE(ArrowArray, release_array)

static Exported* exported_new(const ArrowTree* tree, PyObject* owner, size_t size) {
  Exported* const exported =
      calloc(1, sizeof *exported + tree->node_count * (size + sizeof(void*)) +
                    tree->buffer_count * sizeof(void*));
  if (exported == NULL) return NULL;
  atomic_init(&exported->structs, tree->node_count);
  exported->owner = Py_NewRef(owner);
  return exported;
}

/// Of each node its struct: the first is the caller's, the others lie in `rest`. Sets what both
/// kinds have in common; `pointers` are to be those to children.
#define DEFINE_LINK(Struct, name, release_it)                                             \
  static void name(const ArrowTree* tree, Struct* first, Struct* rest, Struct** pointers, \
                   Exported* exported) {                                                  \
    for (uint32_t i = 0; i < tree->node_count; ++i) {                                     \
      const ArrowNode* const node = &tree->nodes[i];                                      \
      Struct* const it = i == 0 ? first : &rest[i];                                       \
      it->n_children = node->said.children;                                               \
      it->children = node->said.children == 0 ? NULL : pointers;                          \
      it->release = release_it;                                                           \
      it->private_data = exported;                                                        \
      uint32_t child = i + 1;                                                             \
      for (uint32_t n = 0; n < node->said.children; ++n, child = tree->nodes[child].end)  \
        *pointers++ = &rest[child];                                                       \
      if (node->said.has_dictionary) it->dictionary = &rest[child];                       \
    }                                                                                     \
  }
DEFINE_LINK(ArrowSchema, link_schemas, release_schema)
DEFINE_LINK(ArrowArray, link_arrays, release_array)

static const char* text_at(const ArrowTree* tree, uint32_t place) {
  return place == (uint32_t)kArrowNone ? NULL : tree->text + place;
}

static int export_schema(const ArrowTree* tree, PyObject* owner, ArrowSchema* first) {
  Exported* const exported = exported_new(tree, owner, sizeof *first);
  if (exported == NULL) return -1;
  ArrowSchema* const rest = (ArrowSchema*)(exported + 1);
  link_schemas(tree, first, rest, (ArrowSchema**)(rest + tree->node_count), exported);
  for (uint32_t i = 0; i < tree->node_count; ++i) {
    const TableNode* const said = &tree->nodes[i].said;
    ArrowSchema* const it = i == 0 ? first : &rest[i];
    it->format = text_at(tree, said->format);
    it->name = text_at(tree, said->name);
    it->metadata = text_at(tree, said->metadata);
    it->flags = said->flags;
  }
  return 0;
}

static int export_array(const ArrowTree* tree, PyObject* owner, ArrowArray* first) {
  static const uint64_t nothing[8];  // of buffers that are empty; only bitmaps are NULL
  Exported* const exported = exported_new(tree, owner, sizeof *first);
  if (exported == NULL) return -1;
  ArrowArray* const rest = (ArrowArray*)(exported + 1);
  ArrowArray** const pointers = (ArrowArray**)(rest + tree->node_count);
  const void** const buffers = (const void**)(pointers + tree->node_count);
  link_arrays(tree, first, rest, pointers, exported);
  for (uint32_t i = 0; i < tree->node_count; ++i) {
    const ArrowNode* const node = &tree->nodes[i];
    ArrowArray* const it = i == 0 ? first : &rest[i];
    it->length = node->said.length;
    it->null_count = node->said.null_count;
    it->offset = node->said.offset;
    it->n_buffers = node->type.buffers;
    it->buffers = node->type.buffers == 0 ? NULL : buffers + node->buffer;
    for (int n = 0; n < node->type.buffers; ++n) {
      const void* const data = tree->buffers[node->buffer + (uint32_t)n].data;
      it->buffers[n] = data == NULL && n > 0 ? nothing : data;
    }
  }
  return 0;
}

// ---- capsules

#define DEFINE_GONE(Struct, name, capsule_name)                     \
  static void name(PyObject* capsule) {                             \
    PyObject *type, *value, *trace;                                 \
    PyErr_Fetch(&type, &value, &trace);                             \
    Struct* const it = PyCapsule_GetPointer(capsule, capsule_name); \
    if (it != NULL && it->release != NULL) it->release(it);         \
    free(it);                                                       \
    PyErr_Restore(type, value, trace);                              \
  }
DEFINE_GONE(ArrowSchema, schema_gone, kSchema)
DEFINE_GONE(ArrowArray, array_gone, kArray)

#define DEFINE_EXPORT(Struct, name, export_it, gone, capsule_name)      \
  PyObject* name(const ArrowTree* tree, PyObject* owner) {              \
    Struct* const first = calloc(1, sizeof *first);                     \
    if (first == NULL || export_it(tree, owner, first) != 0) {          \
      free(first);                                                      \
      return PyErr_NoMemory();                                          \
    }                                                                   \
    PyObject* const capsule = PyCapsule_New(first, capsule_name, gone); \
    if (capsule == NULL) {                                              \
      first->release(first);                                            \
      free(first);                                                      \
    }                                                                   \
    return capsule;                                                     \
  }
DEFINE_EXPORT(ArrowSchema, arrow_export_schema, export_schema, schema_gone, kSchema)
DEFINE_EXPORT(ArrowArray, arrow_export_array, export_array, array_gone, kArray)

#define DEFINE_TAKE(Struct, name, gone, capsule_name)                \
  static PyObject* name(Struct* from) {                              \
    Struct* const it = malloc(sizeof *it);                           \
    if (it == NULL) return PyErr_NoMemory();                         \
    *it = *from;                                                     \
    PyObject* const capsule = PyCapsule_New(it, capsule_name, gone); \
    if (capsule == NULL)                                             \
      free(it);                                                      \
    else                                                             \
      from->release = NULL; /* it was moved */                       \
    return capsule;                                                  \
  }
DEFINE_TAKE(ArrowSchema, take_schema, schema_gone, kSchema)
DEFINE_TAKE(ArrowArray, take_array, array_gone, kArray)

PyObject* arrow_take(ArrowSchema* schema, ArrowArray* array) {
  PyObject* const first = take_schema(schema);
  PyObject* const second = first == NULL ? NULL : take_array(array);
  if (second == NULL) {
    Py_XDECREF(first);
    return NULL;
  }
  return Py_BuildValue("(NN)", first, second);
}
