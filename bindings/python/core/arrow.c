// Tables: what has __arrow_c_array__ as parts of a message, and a message's as such an object.

#include "arrow.h"

typedef struct Table {
  PyObject_HEAD ArrowTree tree;
  PyObject* owner;  // of its buffers: the Memory of a message, or capsules
} Table;

static PyObject* raise_refusal(const ArrowRefusal* refusal) {
  return raise_own(refusal->code, refusal->why, refusal->hint);
}

static Table* table_new(PyObject* owner) {
  Table* const table = (Table*)PyType_GenericAlloc(table_type, 0);
  if (table != NULL) table->owner = Py_NewRef(owner);
  return table;
}

static void table_dealloc(PyObject* self) {
  Table* const table = (Table*)self;
  arrow_free(&table->tree);
  drop_quietly(table->owner);
  dealloc_object(self);
}

// ---- out

/// Of the two capsules that an object has given.
static Table* table_of_capsules(PyObject* capsules) {
  PyObject *first, *second;
  if (!PyTuple_Check(capsules)) {
    PyErr_SetString(PyExc_TypeError, "__arrow_c_array__() gives two capsules in a tuple");
    return NULL;
  }
  if (!PyArg_ParseTuple(capsules, "OO;__arrow_c_array__() gives two capsules", &first, &second))
    return NULL;
  const ArrowSchema* const schema = PyCapsule_GetPointer(first, "arrow_schema");
  const ArrowArray* const array =
      schema == NULL ? NULL : PyCapsule_GetPointer(second, "arrow_array");
  Table* const table = array == NULL ? NULL : table_new(capsules);
  if (table == NULL) return NULL;
  ArrowRefusal refusal;
  if (arrow_read(schema, array, &table->tree, &refusal) == 0) return table;
  Py_DECREF(table);
  return (Table*)raise_refusal(&refusal);
}

/// The segments of a table, at most `most`: a tuple of bytes and Memory.
static PyObject* segments_of(Table* table, uint32_t most) {
  const ArrowTree* const tree = &table->tree;
  TablePlace* const places = PyMem_Calloc((size_t)tree->buffer_count + 1, sizeof *places);
  if (places == NULL) return PyErr_NoMemory();
  const uint64_t bytes = arrow_place(tree, most - 1, places);
  PyObject* const list = PyList_New(0);
  PyObject* item = list == NULL ? NULL : PyBytes_FromStringAndSize(NULL, (Py_ssize_t)bytes);
  if (item != NULL) arrow_write(tree, places, PyBytes_AsString(item), bytes);
  int failed = item == NULL || PyList_Append(list, item) != 0;
  Py_XDECREF(item);
  for (uint32_t i = 0; !failed && i < tree->buffer_count; ++i) {
    if (places[i].segment == 0 || places[i].segment == (uint32_t)kArrowNone) continue;
    Memory* const memory =
        memory_new((void*)(uintptr_t)tree->buffers[i].data, places[i].bytes, NULL);
    if (memory != NULL) {
      memory->readonly = 1;
      memory->owner = Py_NewRef(table->owner);
    }
    failed = memory == NULL || PyList_Append(list, (PyObject*)memory) != 0;
    Py_XDECREF((PyObject*)memory);
  }
  PyMem_Free(places);
  PyObject* const parts = failed ? NULL : PyList_AsTuple(list);
  Py_XDECREF(list);
  return parts;
}

static PyObject* expand_table(PyObject* object, size_t most) {
  PyObject* const capsules = PyObject_CallMethod(object, "__arrow_c_array__", NULL);
  Table* const table = capsules == NULL ? NULL : table_of_capsules(capsules);
  drop_quietly(capsules);
  if (table == NULL) return NULL;
  PyObject* const parts = segments_of(table, (uint32_t)most);
  Py_DECREF(table);
  return parts;
}

/// -1 and an exception: it has batches, and is not one.
static int is_table(PyObject* object) {
  if (PyObject_CheckBuffer(object) || Py_IS_TYPE(object, message_type)) return 0;
  if (PyObject_HasAttrString(object, "__arrow_c_array__")) return 1;
  if (PyObject_HasAttrString(object, "__dlpack__") ||
      !PyObject_HasAttrString(object, "__arrow_c_stream__"))
    return 0;
  raise_own(GANTRY_INVALID_ARGUMENT, "this table: it may consist of several batches",
            "for batch in table.to_batches(): producer.send(batch)");
  return -1;
}

static int append_expanded(PyObject* list, PyObject* value, size_t most) {
  const int table = is_table(value);
  if (table < 0) return -1;
  PyObject* const parts = table ? expand_table(value, most) : PyTuple_Pack(1, value);
  if (parts == NULL) return -1;
  const Py_ssize_t end = PyList_Size(list);
  const int done = PyList_SetSlice(list, end, end, parts);
  Py_DECREF(parts);
  return done;
}

PyObject* arrow_expand(PyObject* values) {
  if (!PyTuple_Check(values)) {
    const int table = is_table(values);
    if (table < 0) return NULL;
    return table ? expand_table(values, GANTRY_MAX_PARTS) : Py_NewRef(values);
  }
  const size_t count = (size_t)PyTuple_Size(values);
  size_t tables = 0;
  for (size_t i = 0; i < count; ++i) {
    const int table = is_table(PyTuple_GetItem(values, (Py_ssize_t)i));
    if (table < 0) return NULL;
    tables += (size_t)table;
  }
  if (tables == 0 || count > GANTRY_MAX_PARTS) return Py_NewRef(values);
  const size_t most = (GANTRY_MAX_PARTS - (count - tables)) / tables;
  PyObject* const list = PyList_New(0);
  int failed = list == NULL;
  for (size_t i = 0; !failed && i < count; ++i)
    failed = append_expanded(list, PyTuple_GetItem(values, (Py_ssize_t)i), most) != 0;
  PyObject* const all = failed ? NULL : PyList_AsTuple(list);
  Py_XDECREF(list);
  return all;
}

PyObject* table_from_address(PyObject* module, PyObject* arguments) {
  (void)module;
  unsigned long long schema, array;
  if (!PyArg_ParseTuple(arguments, "KK", &schema, &array)) return NULL;
  ArrowSchema* const from = (ArrowSchema*)(uintptr_t)schema;
  ArrowArray* const data = (ArrowArray*)(uintptr_t)array;
  if (from == NULL || data == NULL || from->release == NULL || data->release == NULL) {
    if (from != NULL && from->release != NULL) from->release(from);
    if (data != NULL && data->release != NULL) data->release(data);
    return raise_own(GANTRY_INVALID_ARGUMENT, "from_address: one of these was released already",
                     "it takes both over: call it once");
  }
  PyObject* const capsules = arrow_take(from, data);
  Table* const table = capsules == NULL ? NULL : table_of_capsules(capsules);
  drop_quietly(capsules);
  return (PyObject*)table;
}

// ---- in

/// table(index): the one that begins at that segment.
PyObject* message_table(PyObject* self, PyObject* number) {
  Message* const message = (Message*)self;
  const size_t begin = PyLong_AsSize_t(number);
  if (PyErr_Occurred()) return NULL;
  PyObject* const memory = PyObject_CallMethod(self, "segment", "nO", (Py_ssize_t)begin, Py_True);
  Table* const table = memory == NULL ? NULL : table_new(memory);
  Py_XDECREF(memory);
  if (table == NULL) return NULL;
  ArrowBuffer segments[GANTRY_MAX_PARTS];
  uint32_t count = 0;
  for (size_t i = begin; i < message->info.segments && count < GANTRY_MAX_PARTS; ++i) {
    gantry_segment segment = {.size = sizeof segment};
    if (gantry_message_segment(message->handle, i, &segment) != GANTRY_OK) break;
    segments[count++] = (ArrowBuffer){segment.data, segment.bytes};
  }
  ArrowRefusal refusal;
  PyThreadState* const state = PyEval_SaveThread();  // offsets are copied, and looked at
  const int loaded = arrow_load(segments, count, &table->tree, &refusal);
  PyEval_RestoreThread(state);
  if (loaded == 0) return (PyObject*)table;
  Py_DECREF(table);
  return raise_refusal(&refusal);
}

static PyObject* table_schema(PyObject* self, PyObject* unused) {
  (void)unused;
  return arrow_export_schema(&((Table*)self)->tree, self);
}

static PyObject* table_array(PyObject* self, PyObject* unused) {
  (void)unused;
  return arrow_export_array(&((Table*)self)->tree, self);
}

static const ArrowNode* node_at(Table* table, PyObject* number) {
  const unsigned long index = PyLong_AsUnsignedLong(number);
  if (PyErr_Occurred()) return NULL;
  if (index < table->tree.node_count) return &table->tree.nodes[index];
  PyErr_SetString(PyExc_IndexError, "no such node");
  return NULL;
}

/// node(index): format, name, length, null count, offset, children, the next sibling's index
static PyObject* table_node(PyObject* self, PyObject* number) {
  Table* const table = (Table*)self;
  const ArrowNode* const node = node_at(table, number);
  if (node == NULL) return NULL;
  const TableNode* const said = &node->said;
  const char* const name = said->name == (uint32_t)kArrowNone ? "" : table->tree.text + said->name;
  PyObject* const text = PyUnicode_DecodeUTF8(name, (Py_ssize_t)strlen(name), "replace");
  if (text == NULL) return NULL;
  return Py_BuildValue("(sNLLLII)", table->tree.text + said->format, text, (long long)said->length,
                       (long long)said->null_count, (long long)said->offset, said->children,
                       node->end);
}

/// buffer(node, number): None if it is NULL
static PyObject* table_buffer(PyObject* self, PyObject* arguments) {
  PyObject* number;
  int index;
  if (!PyArg_ParseTuple(arguments, "Oi", &number, &index)) return NULL;
  const ArrowNode* const node = node_at((Table*)self, number);
  if (node == NULL) return NULL;
  if (index < 0 || index >= node->type.buffers) {
    PyErr_SetString(PyExc_IndexError, "no such buffer");
    return NULL;
  }
  const ArrowBuffer* const buffer = &((Table*)self)->tree.buffers[node->buffer + (uint32_t)index];
  if (buffer->data == NULL) Py_RETURN_NONE;
  Memory* const memory = memory_new((void*)(uintptr_t)buffer->data, buffer->bytes, NULL);
  if (memory == NULL) return NULL;
  memory->readonly = 1;
  memory->owner = Py_NewRef(self);
  return (PyObject*)memory;
}

static PyMemberDef table_members[] = {
    {"segments", T_UINT, (Py_ssize_t)(offsetof(Table, tree) + offsetof(ArrowTree, segments)),
     READONLY, NULL},
    {0}};
static PyMethodDef table_methods[] = {{"schema", table_schema, METH_NOARGS, NULL},
                                      {"array", table_array, METH_NOARGS, NULL},
                                      {"node", table_node, METH_O, NULL},
                                      {"buffer", table_buffer, METH_VARARGS, NULL},
                                      {0}};
static PyType_Slot table_slots[] = {{Py_tp_dealloc, table_dealloc},
                                    {Py_tp_methods, table_methods},
                                    {Py_tp_members, table_members},
                                    {0, NULL}};
PyType_Spec table_spec = {"gantry._core.Table", sizeof(Table), 0,
                          Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, table_slots};
