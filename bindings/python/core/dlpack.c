// DLPack both ways: 1.0 with its flag for read-only memory, and what was before.

#include "core.h"

typedef struct {
  void* data;
  int32_t device_type, device_id;
  int32_t dimensions;
  uint8_t type_code, type_bits;
  uint16_t type_lanes;
  int64_t *shape, *strides;  // strides NULL: in C's order
  uint64_t byte_offset;
} DLTensor;
typedef struct DLManaged {
  DLTensor tensor;
  void* context;
  void (*deleter)(struct DLManaged*);
} DLManaged;
typedef struct DLVersioned {
  uint32_t major, minor;
  void* context;
  void (*deleter)(struct DLVersioned*);
  uint64_t flags;
  DLTensor tensor;
} DLVersioned;
static const char kOld[] = "dltensor", kNew[] = "dltensor_versioned";
enum { kCpu = 1, kCudaHost = 3, kReadOnly = 1 };

// ---- out

static void drop(PyObject* memory) {
  if (!Py_IsInitialized()) return;  // its process ends
  const PyGILState_STATE state = PyGILState_Ensure();
  Py_DECREF(memory);
  PyGILState_Release(state);
}
static void delete_old(DLManaged* managed) {
  drop(managed->context);
  free(managed);
}
static void delete_new(DLVersioned* managed) {
  drop(managed->context);
  free(managed);
}

/// A capsule that nobody has taken gives back what it holds.
static void capsule_gone(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, kOld)) {
    DLManaged* const managed = PyCapsule_GetPointer(capsule, kOld);
    if (managed->deleter) managed->deleter(managed);
  } else if (PyCapsule_IsValid(capsule, kNew)) {
    DLVersioned* const managed = PyCapsule_GetPointer(capsule, kNew);
    if (managed->deleter) managed->deleter(managed);
  }
}

static DLTensor describe(Memory* memory) {
  gantry_tensor* const tensor = &memory->tensor;
  return (DLTensor){memory->data,
                    kCpu,
                    0,
                    (int32_t)tensor->dimensions,
                    tensor->type_code,
                    tensor->type_bits,
                    tensor->type_lanes,
                    tensor->shape,
                    tensor->strides,
                    0};
}

PyObject* memory_dlpack(PyObject* self, PyObject* versioned) {
  Memory* const memory = (Memory*)self;
  const int is_new = PyObject_IsTrue(versioned);
  if (is_new < 0) return NULL;
  void* const managed = calloc(1, sizeof(DLVersioned));
  if (managed == NULL) return PyErr_NoMemory();
  if (is_new)
    *(DLVersioned*)managed =
        (DLVersioned){1, 0, self, delete_new, memory->readonly ? kReadOnly : 0, describe(memory)};
  else
    *(DLManaged*)managed = (DLManaged){describe(memory), self, delete_old};
  PyObject* const capsule = PyCapsule_New(managed, is_new ? kNew : kOld, capsule_gone);
  if (capsule == NULL)
    free(managed);
  else
    Py_INCREF(self);
  return capsule;
}

// ---- in

static const char* hint_for(const char* text) {
  static const char* const kHints[][2] = {{"gradient", "tensor.detach()"},
                                          {"layout", "tensor.to_dense()"},
                                          {"conjugate", "tensor.resolve_conj()"}};
  for (size_t i = 0; i < sizeof kHints / sizeof *kHints; ++i)
    if (strstr(text, kHints[i][0]) != NULL) return kHints[i][1];
  return "tensor.view(torch.uint8) for its bytes";
}

/// Makes an error of ours of the exception of an object that gives no capsule.
static PyObject* say_why_not(void) {
  PyObject *type, *value, *trace;
  if (!PyErr_ExceptionMatches(PyExc_Exception)) return NULL;
  PyErr_Fetch(&type, &value, &trace);
  PyObject* const text = PyUnicode_FromFormat("this tensor: %S", value == NULL ? type : value);
  if (text != NULL)
    raise_own(GANTRY_INVALID_ARGUMENT, PyUnicode_AsUTF8AndSize(text, NULL),
              hint_for(PyUnicode_AsUTF8AndSize(text, NULL)));
  Py_XDECREF(text);
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(trace);
  return NULL;
}

static PyObject* ask_for_capsule(PyObject* object) {
  PyObject* const device = PyObject_CallMethod(object, "__dlpack_device__", NULL);
  if (device == NULL) return NULL;
  int type = 0, number = 0;
  const int parsed = PyArg_ParseTuple(device, "ii", &type, &number);
  Py_DECREF(device);
  if (!parsed) return NULL;
  if (type != kCpu && type != kCudaHost)
    return raise_own(GANTRY_INVALID_ARGUMENT, "a tensor in a device's memory", "tensor.cpu()");
  PyObject* const capsule = PyObject_CallMethod(object, "__dlpack__", NULL);
  return capsule != NULL ? capsule : say_why_not();
}

static Memory* memory_of_tensor(PyObject* capsule, const DLTensor* from) {
  gantry_tensor tensor = {from->type_code, from->type_bits, from->type_lanes, 0, {0}, {0}};
  if (from->dimensions < 0 || from->dimensions > GANTRY_MAX_DIMENSIONS)
    return (Memory*)raise_own(GANTRY_INVALID_ARGUMENT, "a tensor of more than 8 dimensions", "");
  tensor.dimensions = (uint32_t)from->dimensions;
  int64_t step = 1;
  for (uint32_t i = tensor.dimensions; i-- > 0; step *= from->shape[i]) {
    tensor.shape[i] = from->shape[i];
    tensor.strides[i] = from->strides == NULL ? step : from->strides[i];
  }
  size_t bytes = 0;
  if (!tensor_is_dense(&tensor, &bytes))
    return (Memory*)raise_own(GANTRY_INVALID_ARGUMENT, "tensor: it is not contiguous, so its memory cannot be sent as it is",
                              "send tensor.contiguous()");
  Memory* const memory = memory_new((char*)from->data + from->byte_offset, bytes, &tensor);
  if (memory != NULL) memory->owner = Py_NewRef(capsule);
  return memory;
}

Memory* memory_of_dlpack(PyObject* object) {
  PyObject* const capsule = ask_for_capsule(object);
  if (capsule == NULL) return NULL;
  DLManaged* const managed = PyCapsule_GetPointer(capsule, kOld);
  Memory* const memory = managed == NULL ? NULL : memory_of_tensor(capsule, &managed->tensor);
  drop_quietly(capsule);  // the producer's destructor deletes it, as nobody has renamed it
  return memory;
}
