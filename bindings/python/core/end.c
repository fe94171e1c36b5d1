// How ends wait: in steps without the GIL, until a signal comes or somebody closes the end.
//
// Each end has a pipe as its interrupt descriptor. A wait of the main thread that does not end at
// once makes the pipe's other side the interpreter's wake-up descriptor, looks for signals that
// came before, and sleeps. So no signal is lost, whichever thread its C handler ran on. On waking
// it puts back the descriptor that was there before (asyncio's), and tells it what it would have
// been told. Other threads do not run handlers; what ends their waits is close().

#define _GNU_SOURCE  // pipe2
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "core.h"

enum { kFirstWaitNs = 60000 };  // as long as the library polls: most waits end within

unsigned fork_generation = 0;
static PyObject* set_wakeup_fd = NULL;

static void note_fork(void) {
  ++fork_generation;
}

int end_prepare_module(void) {
  if (set_wakeup_fd != NULL) return 0;
  PyObject* const signals = PyImport_ImportModule("_signal");
  if (signals == NULL) return -1;
  set_wakeup_fd = PyObject_GetAttrString(signals, "set_wakeup_fd");
  Py_DECREF(signals);
  pthread_atfork(NULL, NULL, note_fork);
  return set_wakeup_fd == NULL ? -1 : 0;
}

static int64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t timeout_of(PyObject* seconds) { return seconds_of(seconds, "timeout"); }

PyObject* check_timeout(PyObject* module, PyObject* seconds) {
  (void)module;
  return timeout_of(seconds) == -2 ? NULL : Py_NewRef(Py_None);
}

int64_t seconds_of(PyObject* seconds, const char* option) {
  if (seconds == Py_None) return -1;
  const double value = PyFloat_AsDouble(seconds);
  if (value == -1.0 && PyErr_Occurred()) {
    if (PyErr_ExceptionMatches(PyExc_TypeError))
      PyErr_Format(PyExc_TypeError, "%s: seconds or None are needed, not %R", option, seconds);
    return -2;
  }
  if (value >= 0 && value < 9e9) return (int64_t)(value * 1e9);
  if (value >= 9e9) return -1;
  char message[80];
  PyOS_snprintf(message, sizeof message, "%s: it is negative or not a number", option);
  raise_own(GANTRY_INVALID_ARGUMENT, message, "seconds, or None to wait for ever");
  return -2;
}

// ---- the lock

static void free_doomed(End* end) {
  while (end->doomed_count > 0) gantry_free(end->doomed[--end->doomed_count]);
}

static void unlock(End* end) {
  free_doomed(end);
  PyThread_release_lock(end->lock);
}

/// Raises what is wrong with this end, which it names once somebody tried to open it.
static gantry_code refuse_use(const End* end, gantry_code code, const char* why, const char* hint) {
  char message[sizeof end->title + 64];
  PyOS_snprintf(message, sizeof message, "%s: %s", *end->title ? end->title : "this end", why);
  raise_own(code, message, hint);
  return -1;
}

void end_set_title(End* end, const char* kind, const char* name) {
  PyOS_snprintf(end->title, sizeof end->title, "%s '%s'", kind, name);
}

static gantry_code check_usable(const End* end, int flags) {
  if (end->generation != fork_generation)
    return refuse_use(end, GANTRY_UNSUPPORTED, "it was opened before fork()",
                      "open it in the child, or give the child an end of gantry.pipe()");
  if (!end->closing && (end->handle != NULL || (flags & kOpening))) return GANTRY_OK;
  return refuse_use(end, GANTRY_INVALID_ARGUMENT, "this end is closed", "open another one");
}

/// How long a call may take. Its deadline is computed when it is needed for the first time: a call
/// that finds what it wants does not read the clock.
struct Time {
  int64_t timeout_ns;  // -1: for ever
  int64_t deadline;    // kNotAsked, or -1: none
};
enum { kNotAsked = -2 };

static int64_t deadline_of(struct Time* time) {
  if (time->deadline == kNotAsked)
    time->deadline = time->timeout_ns < 0 ? -1 : now_ns() + time->timeout_ns;
  return time->deadline;
}

static int64_t left_of(struct Time* time) {
  const int64_t deadline = deadline_of(time);
  if (deadline < 0) return -1;
  const int64_t left = deadline - now_ns();
  return left > 0 ? left : 0;
}

/// Waits, if another thread is using the end, until the deadline.
static gantry_code lock_end(End* end, struct Time* time, int flags) {
  if (end->generation != fork_generation) return check_usable(end, flags);
  while (!PyThread_acquire_lock(end->lock, NOWAIT_LOCK)) {
    if (left_of(time) == 0)
      return refuse_use(end, GANTRY_TIMED_OUT, "another thread uses this end",
                        "give each thread its own");
    if (PyErr_CheckSignals()) return -1;
    PyThreadState* const state = PyEval_SaveThread();
    const PyLockStatus got = PyThread_acquire_lock_timed(end->lock, 20000, 0);
    PyEval_RestoreThread(state);
    if (got == PY_LOCK_ACQUIRED) break;
  }
  const gantry_code usable = check_usable(end, flags);
  if (usable != GANTRY_OK) unlock(end);
  return usable;
}

static gantry_code attempt(End* end, Step step, void* arguments, int64_t timeout_ns,
                           struct Time* time, int flags) {
  gantry_code code = lock_end(end, time, flags);
  if (code != GANTRY_OK) return code;
  void* const handle = end->handle;
  if (timeout_ns == 0 && (flags & kQuick)) {
    code = step(handle, arguments, 0);
  } else {
    PyThreadState* const state = PyEval_SaveThread();
    code = step(handle, arguments, timeout_ns);
    PyEval_RestoreThread(state);
  }
  unlock(end);
  return code;
}

// ---- signals

/// The descriptor before; -2 on a thread that does not handle signals.
static long swap_wakeup_fd(int descriptor) {
  PyObject* const before = PyObject_CallFunction(set_wakeup_fd, "i", descriptor);
  if (before == NULL) {
    PyErr_Clear();
    return -2;
  }
  const long number = PyLong_AsLong(before);
  Py_DECREF(before);
  return number;
}

/// Empties the pipe; what signals wrote goes to `successor`, if there is one.
static void drain(const End* end, long successor) {
  char bytes[64];
  ssize_t count;
  while ((count = read(end->interrupt[0], bytes, sizeof bytes)) > 0)
    if (successor >= 0 && write((int)successor, bytes, (size_t)count) < 0 && errno != EAGAIN)
      return;
}

static gantry_code sleep_through(End* end, Step step, void* arguments, struct Time* time,
                                 int flags) {
  const long before = swap_wakeup_fd(end->interrupt[1]);
  gantry_code code = PyErr_CheckSignals() ? -1 : GANTRY_OK;
  if (code == GANTRY_OK)
    code = attempt(end, step, arguments, left_of(time), time, flags & ~kQuick);
  if (before == -2) return code;
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  swap_wakeup_fd((int)before);
  if (before != end->interrupt[1]) drain(end, before);
  PyErr_Restore(type, value, trace);
  return code;
}

gantry_code end_run(End* end, Step step, void* arguments, int64_t timeout_ns, int flags) {
  struct Time time = {timeout_ns, kNotAsked};
  if (!(flags & (kOnce | kLong))) {
    if ((flags & kQuick) || timeout_ns == 0) {
      const gantry_code code = attempt(end, step, arguments, 0, &time, flags);
      if (code != GANTRY_TIMED_OUT || timeout_ns == 0) return code;
    }
    if (timeout_ns < 0 || timeout_ns > kFirstWaitNs) {
      const gantry_code code = attempt(end, step, arguments, kFirstWaitNs, &time, flags);
      if (code != GANTRY_TIMED_OUT && code != GANTRY_INTERRUPTED) return code;
    }
  }
  for (;;) {
    const gantry_code code = sleep_through(end, step, arguments, &time, flags);
    if (code != GANTRY_INTERRUPTED) return code;
    if (PyErr_CheckSignals()) return -1;
    if (end->closing) return check_usable(end, flags);
    if (flags & kOnce) return code;
  }
}

void end_glance(End* end, Step step, void* arguments) {
  if (end->generation != fork_generation || !PyThread_acquire_lock(end->lock, NOWAIT_LOCK)) return;
  if (end->handle != NULL && !end->closing) step(end->handle, arguments, 0);
  unlock(end);
}

// ---- life

PyObject* end_new(PyTypeObject* type, PyObject* arguments, PyObject* words) {
  (void)arguments;
  (void)words;
  End* const end = (End*)PyType_GenericAlloc(type, 0);
  if (end == NULL) return NULL;
  end->interrupt[0] = end->interrupt[1] = -1;
  end->generation = fork_generation;
  end->lock = PyThread_allocate_lock();
  end->held = PyMem_Calloc(1, sizeof *end->held);
  if (end->held != NULL) end->held->owners = 1;
  if (end->lock != NULL && end->held != NULL && pipe2(end->interrupt, O_CLOEXEC | O_NONBLOCK) == 0)
    return (PyObject*)end;
  PyErr_SetFromErrno(PyExc_OSError);
  Py_DECREF(end);
  return NULL;
}

PyObject* end_open(End* end, PyObject* arguments, struct Opening* it, const struct Option* known,
                   Step step) {
  PyObject *runtime, *name, *seconds, *options;
  if (!PyArg_ParseTuple(arguments, "OsOOO!", &runtime, &it->kind, &name, &seconds, &PyDict_Type,
                        &options) ||
      read_text(name, "name", &it->name) != 0 || read_options(options, known, it->options) != 0)
    return NULL;
  it->runtime = runtime_of(runtime);
  const int64_t timeout_ns = timeout_of(seconds);
  if (it->runtime == NULL || timeout_ns == -2) return NULL;
  end_set_title(end, it->kind, it->name);
  *it->interrupt_descriptor = end->interrupt[0];
  const gantry_code code = end_run(end, step, it, timeout_ns, kLong | kOpening);
  if (code != GANTRY_OK) return raise_code(code);
  end->handle = it->made;
  Py_RETURN_NONE;
}

static void free_handle(End* end) {
  free_doomed(end);
  void* const handle = end->handle;
  end->handle = NULL;
  free_apart(handle);
  for (int i = 0; i < 2; ++i) {
    if (end->interrupt[i] >= 0) close(end->interrupt[i]);
    end->interrupt[i] = -1;
  }
}

void in_flight_free(InFlight* first) {
  while (first != NULL) {
    InFlight* const next = first->next;
    Py_DECREF(first->parts);
    PyMem_Free(first);
    first = next;
  }
}

static void free_in_flight(End* end) {
  InFlight* const first = end->in_flight;
  end->in_flight = NULL;
  in_flight_free(first);
}

/// Ends the waits of other threads, if there are any, and takes the lock.
static void end_waits(End* end) {
  end->closing = 1;
  while (!PyThread_acquire_lock(end->lock, NOWAIT_LOCK)) {
    const ssize_t written = write(end->interrupt[1], "", 1);
    (void)written;  // full is as good
    PyThreadState* const state = PyEval_SaveThread();
    const PyLockStatus got = PyThread_acquire_lock_timed(end->lock, 5000, 0);
    PyEval_RestoreThread(state);
    if (got == PY_LOCK_ACQUIRED) break;
  }
}

/// From here on it is not waited for; what it has stays open.
PyObject* end_leave(PyObject* self, PyObject* unused) {
  (void)unused;
  End* const end = (End*)self;
  if (end->closing || end->generation != fork_generation) Py_RETURN_NONE;
  end_waits(end);
  PyThread_release_lock(end->lock);
  Py_RETURN_NONE;
}

PyObject* end_close_now(PyObject* self, PyObject* unused) {
  (void)unused;
  End* const end = (End*)self;
  if (end->generation != fork_generation || (end->closing && end->handle == NULL)) Py_RETURN_NONE;
  end_waits(end);
  free_handle(end);
  PyThread_release_lock(end->lock);
  free_in_flight(end);  // what runs then may use the end
  Py_RETURN_NONE;
}

void end_dealloc(PyObject* self) {
  End* const end = (End*)self;
  free_handle(end);
  free_in_flight(end);
  PyMem_Free(end->doomed);
  held_release(end->held);
  if (end->lock != NULL && end->generation == fork_generation) PyThread_free_lock(end->lock);
  dealloc_object(self);
}

void end_doom(End* end, void* call) {
  if (PyThread_acquire_lock(end->lock, NOWAIT_LOCK)) {
    gantry_free(call);
    unlock(end);
    return;
  }
  void** const more = PyMem_Realloc(end->doomed, (end->doomed_count + 1) * sizeof *more);
  if (more == NULL) return;  // the call ends at its deadline
  end->doomed = more;
  end->doomed[end->doomed_count++] = call;
}

PyObject* end_is_open(PyObject* self, void* unused) {
  (void)unused;
  const End* const end = (const End*)self;
  return PyBool_FromLong(end->handle != NULL && !end->closing &&
                         end->generation == fork_generation);
}
