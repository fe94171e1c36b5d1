#pragma once  // bindings/python/core/core.h: what the files of the extension _core share.
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000  // before Python.h: nothing but what every 3.11 and later has

#include <Python.h>
#include <gantry/queue.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <structmember.h>  // after Python.h, which it needs

// The GIL is held wherever nothing else is said.

// ---- errors.c
/// Raise what the thread's last failed call left behind, or an error of our own; return NULL.
PyObject* raise_code(gantry_code code);
PyObject* raise_own(gantry_code code, const char* message, const char* hint);
PyObject* set_error_factory(PyObject* module, PyObject* factory);

// ---- arguments.c: what Python gives. 0, or -1 and an exception that names it
/// Of anything with __index__.
int read_number(PyObject* object, const char* name, uint32_t* number);
int read_number64(PyObject* object, const char* name, uint64_t* number);
int read_text(PyObject* object, const char* name, const char** text);
enum OptionKind { kNumber, kNumber64, kSigned64, kCount, kMode, kPool };  // kCount: not 0
struct Option {
  const char* name;  // NULL: behind the last one
  enum OptionKind kind;
  size_t offset;  // of its field in the struct of options
};
int read_options(PyObject* given, const struct Option* known, void* options);

// ---- end.c: a Producer or Consumer, and how it waits
/// Received messages that somebody still holds; shared by an end and them, which may outlive it.
typedef struct Held {
  size_t owners, messages;
} Held;

typedef struct End {
  PyObject_HEAD void* handle;  // NULL: not open. Used with `lock` held.
  Held* held;
  PyThread_type_lock lock;
  int interrupt[2];     // A pipe: while [0] is readable, this end's waits end.
  int closing;          // Whoever waits gives up: the end is being closed.
  unsigned generation;  // Of forks: an end of another one is dead.
  void** doomed;        // Calls to be freed by whoever holds the lock.
  size_t doomed_count;
  char title[96];              // Its kind and name, for errors. Empty: nobody has opened it.
  struct InFlight* in_flight;  // What the library reads, of a Producer; freed behind the handle.
} End;

/// Parts of a send_async() whose ticket has not ended, as far as is known. Guarded by the GIL.
typedef struct InFlight {
  struct InFlight* next;  // a younger one
  uint64_t ticket;
  PyObject* parts;
} InFlight;
void in_flight_free(InFlight* first);

/// What a wait does. `handle` is the end's. Called without the GIL unless it is quick.
typedef gantry_code (*Step)(void* handle, void* arguments, int64_t timeout_ns);
enum { kQuick = 1, kLong = 2, kOnce = 4, kOpening = 8 };
enum { kQuickBytes = 16384 };  // copied without letting other threads run

/// Runs `step` until it says anything but timed out, `timeout_ns` has passed, a signal's handler
/// has raised (then -1), or the end is closed (-1).
///  - kQuick: it is tried first with the GIL and without waiting.
///  - kLong: it is not tried for a short while first.
///  - kOnce: it cannot be repeated, so that any signal ends it.
///  - kOpening: it makes the handle.
gantry_code end_run(End* end, Step step, void* arguments, int64_t timeout_ns, int flags);
/// Runs `step` with the GIL and a timeout of 0, if the end is open and nobody uses it. Never
/// raises.
void end_glance(End* end, Step step, void* arguments);
/// What an end is opened by: what Python gave, and where its kind's options begin.
struct Opening {
  gantry_runtime* runtime;
  const char *kind, *name;
  void* options;
  int* interrupt_descriptor;  // among the options
  void* made;
};
/// open(runtime, kind, name, timeout, options)
PyObject* end_open(End* end, PyObject* arguments, struct Opening* it, const struct Option* known,
                   Step step);
PyObject* end_new(PyTypeObject* type, PyObject* arguments, PyObject* words);
void end_dealloc(PyObject* self);
PyObject* end_close_now(PyObject* self, PyObject* unused);  // frees the handle
PyObject* end_leave(PyObject* self, PyObject* unused);
PyObject* end_is_open(PyObject* self, void* unused);
/// Frees a call of the end, now or as soon as nobody uses the end.
void end_doom(End* end, void* call);
int end_prepare_module(void);
/// Of seconds or None, which is for ever: -1. -2 and an exception if it is neither.
int64_t timeout_of(PyObject* seconds);
int64_t seconds_of(PyObject* seconds, const char* option);  // whose name the exception says
PyObject* check_timeout(PyObject* module, PyObject* seconds);
void end_set_title(End* end, const char* kind, const char* name);

// ---- memory.c: memory with an owner, as a buffer
typedef struct Memory {
  PyObject_HEAD void* data;
  size_t bytes;
  void* handle;     // gantry_block or gantry_view, or NULL
  PyObject* owner;  // what keeps `data` alive: a Message, or a capsule of DLPack's
  int is_block, readonly, has_tensor;
  gantry_tensor tensor;
  const char* format;  // NULL: the buffer protocol has none for its type
  Py_ssize_t itemsize;
  Py_ssize_t shape[GANTRY_MAX_DIMENSIONS], strides[GANTRY_MAX_DIMENSIONS];  // in bytes
} Memory;
enum { GANTRY_COMPLEX = 5, GANTRY_BOOL = 6 };  // DLPack's

/// Gives up a reference (or NULL). Others' code may run for it; an exception on its way stays.
void drop_quietly(PyObject* object);
Memory* memory_new(void* data, size_t bytes, const gantry_tensor* tensor);
/// How the buffer is to be read. 0: plain bytes; 1: `tensor` is set; -1 and an exception.
int tensor_of_buffer(const Py_buffer* buffer, gantry_tensor* tensor);
/// Whether its elements lie without gaps, in C's or in Fortran's order, and how many bytes.
int tensor_is_dense(const gantry_tensor* tensor, size_t* bytes);

// ---- dlpack.c
PyObject* memory_dlpack(PyObject* self, PyObject* versioned);
/// A Memory over the tensor of an object that has __dlpack__.
Memory* memory_of_dlpack(PyObject* object);

// ---- message.c
typedef struct Message {
  PyObject_HEAD gantry_message* handle;
  gantry_message_info info;
  size_t memories;  // that lie in it
  int is_sent_on;   // Parts have it: nobody may look at it until they have let go of it.
  Held* held;       // may be NULL
  End* looked_by;   // NULL: it was received
} Message;
PyObject* message_new(gantry_message* handle, Held* held);
PyObject* message_of_look(gantry_message* handle, End* end);
PyObject* load_items(PyObject* module, PyObject* arguments);
void held_release(Held* held);

// ---- arrow.c: tables, by the structs of the Arrow C data interface
/// A new reference to `values`, or a tuple in which each table is replaced by its segments.
PyObject* arrow_expand(PyObject* values);
PyObject* message_table(PyObject* self, PyObject* number);
PyObject* table_from_address(PyObject* module, PyObject* arguments);

// ---- item.c: small items of a queue, without pickle
PyObject* item_encode(PyObject* module, PyObject* object);  // bytes, or None: pickle has to do it
PyObject* item_encode_array(PyObject* module, PyObject* array);  // of NumPy's; the same
/// The object and the bytes that it took; None: it is a pickle. Whoever put it may write to it.
PyObject* item_decode(const void* bytes, size_t count);
/// The object alone, of what does not begin with kPickle; `used`: its bytes, of at least one.
PyObject* item_decode_value(const void* bytes, size_t count, Py_ssize_t* used);
enum { kPickle = 0x80 };  // the first byte of each pickle, and of no other item

// ---- queue.c: what the ends of a queue have
/// Gives the exception the number of what was put or sent, as `put`. Returns NULL.
PyObject* say_put(size_t count);
PyObject* queue_get_many(PyObject* self, PyObject* arguments);
PyObject* queue_put_many(PyObject* self, PyObject* arguments);
PyObject* queue_get(PyObject* self, PyObject* seconds);
PyObject* queue_ask(PyObject* self, PyObject* arguments);

// ---- parts.c: what is sent
typedef struct Parts {
  PyObject_HEAD size_t count, bytes;  // bytes to be copied
  int forwards;                       // has a message
  gantry_part* parts;
  struct Kept* kept;
} Parts;
Parts* parts_of(PyObject* values);
/// Refuses arrays and scalars whose memory says less than they do: subclasses of arrays (a mask, a
/// matrix, names of fields), dates, records. 0, or -1 and an exception.
int check_numpy(PyObject* object);
/// Fills `buffer`; -1 and an exception of ours if the object does not show its memory.
int get_buffer(PyObject* object, Py_buffer* buffer);

// ---- numpy_memory.c
PyObject* numpy_handler(PyObject* module, PyObject* pool);
PyObject* numpy_set_handler(PyObject* module, PyObject* arguments);

// ---- types
typedef struct Pool {
  PyObject_HEAD gantry_pool* handle;
} Pool;
PyObject* pool_new(gantry_pool* handle);

typedef struct Runtime {
  PyObject_HEAD gantry_runtime* handle;
  unsigned generation;
} Runtime;
extern unsigned fork_generation;               // grows in each child
gantry_runtime* runtime_of(PyObject* object);  // NULL and an exception if it is dead

extern PyTypeObject *memory_type, *message_type, *parts_type, *pool_type, *runtime_type, *call_type,
    *producer_type, *consumer_type, *queue_type, *group_type, *collective_type, *table_type,
    *span_type, *image_type;
extern PyType_Spec memory_spec, message_spec, parts_spec, pool_spec, runtime_spec, call_spec,
    producer_spec, consumer_spec, queue_spec, group_spec, collective_spec, table_spec, span_spec,
    image_spec;

#define FASTCALL(function) ((PyCFunction)(void (*)(void))(function))
void dealloc_object(PyObject* self);  // of a heap type, its fields being gone
/// Frees what may join threads or give much memory back, without the GIL. Nobody may reach it.
void free_apart(void* handle);
