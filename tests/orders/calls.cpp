// The calls that block, wake, or tell the time, as the library finds them at link time: they are
// choice points, and none of them waits in the kernel. Not instrumented; see stage.hpp.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "orders/stage.hpp"

extern "C" void __call_tls_dtors();  // the C library's: of the calling thread's thread_locals

namespace gantry::orders {
namespace {

// Timers of this process: an eventfd each, which is written when the clock passes.
struct Timer {
  int descriptor;
  std::uint64_t at_ns;
};
constexpr unsigned kMostTimers = 128;
Timer timers[kMostTimers];
unsigned timer_count = 0;

std::uint64_t next_timer() {
  std::uint64_t first = kNever;
  for (unsigned i = 0; i < timer_count; ++i)
    if (timers[i].at_ns < first) first = timers[i].at_ns;
  return first;
}
void fire_timers() {
  const std::uint64_t one = 1;
  for (unsigned i = 0; i < timer_count; ++i) {
    if (timers[i].at_ns > stage->now_ns) continue;
    timers[i].at_ns = kNever;
    raw_call(SYS_write, timers[i].descriptor, reinterpret_cast<long>(&one), sizeof one);
  }
}

long as_libc(long result) {
  if (result >= 0 || result < -4095) return result;
  errno = static_cast<int>(-result);
  return -1;
}
long word(const void* pointer) {
  return reinterpret_cast<long>(pointer);
}
template <class Number>
  requires requires(Number number) { static_cast<long>(number); }
long word(Number number) {
  return static_cast<long>(number);
}
template <class... Words>
long real(long number, Words... words) {
  return as_libc(raw_call(number, word(words)...));
}
// The C library's function of that name, behind ours.
#define REAL(name)                                                                            \
  ([]() {                                                                                     \
    static decltype(&(name)) found = nullptr;                                                 \
    if (found == nullptr) found = reinterpret_cast<decltype(found)>(dlsym(RTLD_NEXT, #name)); \
    return found;                                                                             \
  }())

std::uint64_t ns_of(const timespec* time) {
  return static_cast<std::uint64_t>(time->tv_sec) * 1'000'000'000u +
         static_cast<std::uint64_t>(time->tv_nsec);
}
// The virtual clocks differ by a constant.
constexpr std::uint64_t kRealtimeNs = 1'700'000'000'000'000'000;
std::uint64_t deadline_of(clockid_t clock, const timespec* at) {
  return ns_of(at) - (clock == CLOCK_REALTIME ? kRealtimeNs : 0);
}

bool is_nonblocking(int descriptor, int flags) {
  return (flags & MSG_DONTWAIT) != 0 ||
         (raw_call(SYS_fcntl, descriptor, F_GETFL) & O_NONBLOCK) != 0;
}
bool is_ready(int descriptor, short direction) {
  pollfd entry{descriptor, direction, 0};
  return raw_call(SYS_poll, word(&entry), 1, 0) != 0;
}

// A call on one descriptor. Returns false when a signal is made up that interrupts it: only where
// it would sleep.
bool before_call(int descriptor, short direction, int flags, const void* place, const char* what) {
  choose(Kind::call, place, what);
  const bool waits = !is_nonblocking(descriptor, flags);
  while (waits && !is_ready(descriptor, direction)) {
    const std::uint64_t seen = stage->io_events;
    if (choose(Kind::wait, place, what) == Fault::refuse) return false;
    if (seen == stage->io_events)
      block(Wait::io, static_cast<std::uint64_t>(descriptor), kNever, what);
  }
  return true;
}

int interrupted() {
  errno = EINTR;
  return -1;
}

// `look()`: how many descriptors are ready now.
template <class Look>
int await_any(int timeout_ms, int first, const void* place, const char* what, Look look) {
  choose(Kind::call, place, what);
  const std::uint64_t deadline_ns =
      timeout_ms < 0 ? kNever : stage->now_ns + static_cast<std::uint64_t>(timeout_ms) * 1'000'000u;
  for (;;) {
    fire_timers();
    const long ready = look();
    if (ready != 0 || stage->now_ns >= deadline_ns) return static_cast<int>(as_libc(ready));
    const std::uint64_t seen = stage->io_events;
    if (choose(Kind::wait, place, what) == Fault::refuse) return interrupted();
    if (seen != stage->io_events) continue;
    const std::uint64_t timer_ns = next_timer();
    block(Wait::io, static_cast<std::uint64_t>(first),
          timer_ns < deadline_ns ? timer_ns : deadline_ns, what);
  }
}

// ---- threads ---------------------------------------------------------------------------------

struct Start {
  void* (*run)(void*);
  void* argument;
  int index;
};
pthread_key_t end_key;
pthread_t handles[kMostThreads];
thread_local Start mine;

// Its destructor runs behind those of thread_local objects.
void at_thread_end(void*) {
  if (is_scheduled()) thread_ended();
}
void begin_fiber() {
  mine.run(mine.argument);
  __call_tls_dtors();
  thread_ended();
}
void* run_thread(void* start) {
  mine = *static_cast<Start*>(start);
  free(start);
  self = mine.index;
  if (stage->is_one_process) {
    park_thread(self, &begin_fiber);
    self = -1;
    return nullptr;
  }
  pthread_setspecific(end_key, &end_key);
  take_token();
  return mine.run(mine.argument);
}

void lock_mutex(pthread_mutex_t* mutex) {
  while (REAL(pthread_mutex_trylock)(mutex) != 0)
    block(Wait::mutex, reinterpret_cast<std::uint64_t>(mutex), kNever, "pthread_mutex_lock");
}

int await_condition(pthread_cond_t* condition, pthread_mutex_t* mutex, std::uint64_t deadline_ns,
                    const void* place) {
  if (choose(Kind::wait, place, "pthread_cond_wait") == Fault::refuse) return 0;
  pthread_mutex_unlock(mutex);
  const bool has_come = block(Wait::condition, reinterpret_cast<std::uint64_t>(condition),
                              deadline_ns, "pthread_cond_wait");
  lock_mutex(mutex);
  return has_come ? 0 : ETIMEDOUT;
}

bool wakes(long operation) {
  const long what = operation & ~(FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME);
  return what == FUTEX_WAKE || what == FUTEX_WAKE_BITSET;
}

long do_futex(std::uint32_t* at, int operation, std::uint32_t value, const timespec* time) {
  const int what = operation & ~(FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME);
  const auto on = reinterpret_cast<std::uint64_t>(at);
  if (wakes(operation)) return wake(Wait::futex, on, value);
  if (what != FUTEX_WAIT && what != FUTEX_WAIT_BITSET)
    fail("futex operation %d is not known here", operation);
  std::uint64_t deadline_ns = kNever;
  if (time != nullptr) deadline_ns = what == FUTEX_WAIT ? stage->now_ns + ns_of(time) : ns_of(time);
  if (__atomic_load_n(at, __ATOMIC_SEQ_CST) != value) return -EAGAIN;
  return block(Wait::futex, on, deadline_ns, "futex") ? 0 : -ETIMEDOUT;
}

}  // namespace

long raw_call(long number, long a, long b, long c, long d, long e, long f) noexcept {
  long result;  // NOLINT: written by the kernel
  register long r10 asm("r10") = d;
  register long r8 asm("r8") = e;
  register long r9 asm("r9") = f;
  asm volatile("syscall"
               : "=a"(result)
               : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
               : "rcx", "r11", "memory");
  return result;
}

// Where all is one process its other threads are not ended with it: they close what is left.
static void outlive_threads() {
  for (unsigned i = 0, looks = 0; i < stage->threads; ++i) {
    const Thread& other = stage->thread[i];
    for (;
         other.process == me().process && static_cast<int>(i) != self && other.state != State::over;
         ++looks) {
      if (looks == 3000) fail("a thread of process %u does not end", other.process);
      block(Wait::sleep, 0, stage->now_ns + 1'000'000, "the end");
    }
  }
}

void end_process(int code) noexcept {
  if (stage->is_one_process) {
    __call_tls_dtors();
    outlive_threads();
  }
  stage->process[me().process].is_exiting = true;
  call_referee();
  raw_call(SYS_exit_group, code);
  for (;;) raw_call(SYS_pause);
}

int start_thread(unsigned process, pthread_t* thread, const pthread_attr_t* attributes,
                 void* (*run)(void*), void* argument) noexcept {
  static bool has_key = false;
  if (!has_key) has_key = pthread_key_create(&end_key, &at_thread_end) == 0;
  auto* const start = static_cast<Start*>(malloc(sizeof(Start)));
  const int index = add_thread(process);
  *start = {run, argument, index};
  const int error = REAL(pthread_create)(thread, attributes, &run_thread, start);
  if (error != 0) {
    stage->thread[index].state = State::over;
    free(start);
    return error;
  }
  handles[index] = *thread;
  if (stage->is_one_process) await_parked(index);
  return 0;
}

}  // namespace gantry::orders

using namespace gantry::orders;  // NOLINT: what follows has names of the C library

#define PLACE __builtin_return_address(0)

// The first of all handlers that a fork() runs in the child, which has no slot yet.
__attribute__((constructor(101))) static void watch_forks() {
  pthread_atfork(nullptr, nullptr, [] { self = -1; });
}

extern "C" {

// ---- descriptors ---------------------------------------------------------------------------

int poll(pollfd* entries, nfds_t count, int timeout_ms) {
  if (!is_scheduled()) return static_cast<int>(real(SYS_poll, entries, count, timeout_ms));
  return await_any(timeout_ms, count == 0 ? 0 : entries[0].fd, PLACE, "poll",
                   [&] { return raw_call(SYS_poll, word(entries), word(count), 0); });
}
int __poll_chk(pollfd* entries, nfds_t count, int timeout_ms, size_t) {
  return poll(entries, count, timeout_ms);
}
int epoll_wait(int epoll, epoll_event* events, int most, int timeout_ms) {
  if (!is_scheduled())
    return static_cast<int>(real(SYS_epoll_pwait, epoll, events, most, timeout_ms, 0, 8));
  return await_any(timeout_ms, epoll, PLACE, "epoll_wait",
                   [&] { return raw_call(SYS_epoll_pwait, epoll, word(events), most, 0, 0, 8); });
}

// May wait until a descriptor is ready; `sends`: others may then find theirs ready.
#define ORDERS_IO(type, name, parameters, descriptor, direction, flags, sends, number, ...)        \
  type name parameters {                                                                           \
    const bool decides = is_scheduled();                                                           \
    if (decides && !before_call(descriptor, direction, flags, PLACE, #name)) return interrupted(); \
    const long done = real(number, __VA_ARGS__);                                                   \
    if (decides && (sends)) note_io();                                                             \
    return static_cast<type>(done);                                                                \
  }
ORDERS_IO(ssize_t, recv, (int socket, void* into, size_t bytes, int flags), socket, POLLIN, flags,
          false, SYS_recvfrom, socket, into, bytes, flags, 0, 0)
ORDERS_IO(ssize_t, recvmsg, (int socket, msghdr* header, int flags), socket, POLLIN, flags, false,
          SYS_recvmsg, socket, header, flags)
ORDERS_IO(ssize_t, read, (int descriptor, void* into, size_t bytes), descriptor, POLLIN, 0, false,
          SYS_read, descriptor, into, bytes)
ORDERS_IO(int, accept4, (int socket, sockaddr* address, socklen_t* size, int flags), socket, POLLIN,
          0, false, SYS_accept4, socket, address, size, flags)
ORDERS_IO(ssize_t, send, (int socket, const void* from, size_t bytes, int flags), socket, POLLOUT,
          flags, true, SYS_sendto, socket, from, bytes, flags, 0, 0)
ORDERS_IO(ssize_t, sendmsg, (int socket, const msghdr* header, int flags), socket, POLLOUT, flags,
          true, SYS_sendmsg, socket, header, flags)
ORDERS_IO(ssize_t, write, (int descriptor, const void* from, size_t bytes), descriptor, POLLOUT, 0,
          true, SYS_write, descriptor, from, bytes)

// Does not wait; others may find theirs ready.
#define ORDERS_NOTED(name, parameters, number, ...)                          \
  int name parameters {                                                      \
    if (!is_scheduled()) return static_cast<int>(real(number, __VA_ARGS__)); \
    choose(Kind::call, PLACE, #name);                                        \
    const long done = real(number, __VA_ARGS__);                             \
    note_io();                                                               \
    return static_cast<int>(done);                                           \
  }
ORDERS_NOTED(connect, (int socket, const sockaddr* address, socklen_t size), SYS_connect, socket,
             address, size)
ORDERS_NOTED(shutdown, (int socket, int how) noexcept, SYS_shutdown, socket, how)
ORDERS_NOTED(bind, (int socket, const sockaddr* address, socklen_t size) noexcept, SYS_bind, socket,
             address, size)
ORDERS_NOTED(renameat, (int from, const char* old_name, int to, const char* new_name) noexcept,
             SYS_renameat, from, old_name, to, new_name)
ORDERS_NOTED(unlinkat, (int folder, const char* name, int flags) noexcept, SYS_unlinkat, folder,
             name, flags)
int close(int descriptor) {
  if (is_scheduled()) choose(Kind::call, PLACE, "close");
  for (unsigned i = 0; i < timer_count; ++i)
    if (timers[i].descriptor == descriptor) timers[i] = timers[--timer_count];
  const long done = real(SYS_close, descriptor);
  if (is_scheduled()) note_io();
  return static_cast<int>(done);
}
int flock(int descriptor, int operation) noexcept {
  if (is_scheduled()) {
    choose(Kind::call, PLACE, "flock");
    if (operation == LOCK_UN) note_io();
    while ((operation & LOCK_NB) == 0) {
      const long done = raw_call(SYS_flock, descriptor, operation | LOCK_NB);
      if (done != -EWOULDBLOCK) return static_cast<int>(as_libc(done));
      block(Wait::io, static_cast<std::uint64_t>(descriptor), kNever, "flock");
    }
  }
  return static_cast<int>(real(SYS_flock, descriptor, operation));
}
int timerfd_create(int clock, int flags) noexcept {
  if (!is_scheduled()) return static_cast<int>(real(SYS_timerfd_create, clock, flags));
  const long made = real(SYS_eventfd2, 0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (made < 0) return -1;
  if (timer_count == kMostTimers) fail("more timers than the harness has room for");
  timers[timer_count++] = {static_cast<int>(made), kNever};
  return static_cast<int>(made);
}
int timerfd_settime(int timer, int flags, const itimerspec* at, itimerspec* before) noexcept {
  if (!is_scheduled()) return static_cast<int>(real(SYS_timerfd_settime, timer, flags, at, before));
  for (unsigned i = 0; i < timer_count; ++i) {
    if (timers[i].descriptor != timer) continue;
    std::uint64_t left = 0;
    raw_call(SYS_read, timer, word(&left), sizeof left);
    const std::uint64_t ns = ns_of(&at->it_value);
    timers[i].at_ns = ns == 0 ? kNever : (flags & TFD_TIMER_ABSTIME) != 0 ? ns : stage->now_ns + ns;
  }
  note_io();
  return 0;
}

// ---- what there may be too little of ---------------------------------------------------------

#define ORDERS_RESOURCE(name, parameters, number, ...)                             \
  int name parameters noexcept {                                                   \
    if (is_scheduled() && choose(Kind::resource, PLACE, #name) == Fault::refuse) { \
      errno = EMFILE;                                                              \
      return -1;                                                                   \
    }                                                                              \
    return static_cast<int>(real(number, __VA_ARGS__));                            \
  }
ORDERS_RESOURCE(socket, (int domain, int type, int protocol), SYS_socket, domain, type, protocol)
ORDERS_RESOURCE(socketpair, (int domain, int type, int protocol, int* ends), SYS_socketpair, domain,
                type, protocol, ends)
ORDERS_RESOURCE(eventfd, (unsigned value, int flags), SYS_eventfd2, value, flags)
ORDERS_RESOURCE(epoll_create1, (int flags), SYS_epoll_create1, flags)
ORDERS_RESOURCE(memfd_create, (const char* name, unsigned flags), SYS_memfd_create, name, flags)
void* mmap(void* at, size_t bytes, int protection, int flags, int descriptor,
           off_t offset) noexcept {
  if (is_scheduled() && descriptor >= 0 && choose(Kind::resource, PLACE, "mmap") == Fault::refuse) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  return reinterpret_cast<void*>(  // NOLINT: -1 is MAP_FAILED
      real(SYS_mmap, at, bytes, protection, flags, descriptor, offset));
}

// ---- time ----------------------------------------------------------------------------------

int clock_gettime(clockid_t clock, timespec* now) noexcept {
  if (!is_scheduled()) return static_cast<int>(real(SYS_clock_gettime, clock, now));
  const std::uint64_t ns =
      (stage->now_ns += kChoiceNs) + (clock == CLOCK_REALTIME ? kRealtimeNs : 0);
  now->tv_sec = static_cast<time_t>(ns / 1'000'000'000u);
  now->tv_nsec = static_cast<long>(ns % 1'000'000'000u);
  return 0;
}
int clock_nanosleep(clockid_t clock, int flags, const timespec* time, timespec* left) {
  if (!is_scheduled())
    return static_cast<int>(-raw_call(SYS_clock_nanosleep, clock, flags, word(time), word(left)));
  choose(Kind::call, PLACE, "nanosleep");
  block(Wait::sleep, 0,
        (flags & TIMER_ABSTIME) != 0 ? deadline_of(clock, time) : stage->now_ns + ns_of(time),
        "nanosleep");
  return 0;
}
int nanosleep(const timespec* time, timespec* left) {
  return static_cast<int>(as_libc(-clock_nanosleep(CLOCK_MONOTONIC, 0, time, left)));
}
int sched_yield() noexcept {
  if (!is_scheduled()) return static_cast<int>(real(SYS_sched_yield));
  stage->alone += 500;
  choose(Kind::call, PLACE, "sched_yield");
  return 0;
}
// The library asks the kernel whether the time-stamp counter is a clock; here it is not. What it
// asks about the machine has one answer, which the kernel need not write again.
FILE* fopen64(const char* path, const char* mode) {
  char copy[sizeof stage->copies + 64];
  const char* const name = strrchr(path, '/');
  if (name != nullptr && strcmp(name, "/current_clocksource") == 0) path = "/dev/null";
  for (const char* const known : kCopied)
    if (is_scheduled() && strcmp(path, known) == 0) {
      snprintf(copy, sizeof copy, "%s%s", stage->copies, name);
      path = copy;
    }
  return REAL(fopen64)(path, mode);
}
FILE* fopen(const char* path, const char* mode) {
  return fopen64(path, mode);
}

// ---- threads -------------------------------------------------------------------------------

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*),
                   void* argument) noexcept {
  if (!is_scheduled()) return REAL(pthread_create)(thread, attributes, run, argument);
  const int error = start_thread(me().process, thread, attributes, run, argument);
  if (error == 0) choose(Kind::call, PLACE, "pthread_create");
  return error;
}
int pthread_join(pthread_t thread, void** result) {
  if (is_scheduled()) {
    choose(Kind::call, PLACE, "pthread_join");
    for (unsigned i = 0; i < stage->threads; ++i) {
      if (stage->thread[i].process != me().process || handles[i] != thread) continue;
      while (stage->thread[i].state != State::over) block(Wait::join, i, kNever, "pthread_join");
      handles[i] = 0;
      if (stage->is_one_process) unpark(static_cast<int>(i));
    }
  }
  return REAL(pthread_join)(thread, result);
}
int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  if (!is_scheduled()) return REAL(pthread_mutex_lock)(mutex);
  choose(Kind::call, PLACE, "pthread_mutex_lock");
  lock_mutex(mutex);
  return 0;
}
int pthread_mutex_trylock(pthread_mutex_t* mutex) noexcept {
  if (is_scheduled()) choose(Kind::call, PLACE, "pthread_mutex_trylock");
  return REAL(pthread_mutex_trylock)(mutex);
}
int pthread_mutex_unlock(pthread_mutex_t* mutex) noexcept {
  const int error = REAL(pthread_mutex_unlock)(mutex);
  if (is_scheduled()) wake(Wait::mutex, reinterpret_cast<std::uint64_t>(mutex), kMostThreads);
  return error;
}
int pthread_cond_wait(pthread_cond_t* condition, pthread_mutex_t* mutex) {
  if (!is_scheduled()) return REAL(pthread_cond_wait)(condition, mutex);
  return await_condition(condition, mutex, kNever, PLACE);
}
int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                           const timespec* until) {
  if (!is_scheduled()) return REAL(pthread_cond_clockwait)(condition, mutex, clock, until);
  return await_condition(condition, mutex, deadline_of(clock, until), PLACE);
}
int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                           const timespec* until) {
  return pthread_cond_clockwait(condition, mutex, CLOCK_REALTIME, until);
}
#define ORDERS_SIGNAL(name, most)                                            \
  int name(pthread_cond_t* condition) noexcept {                             \
    if (!is_scheduled()) return REAL(name)(condition);                       \
    choose(Kind::call, PLACE, #name);                                        \
    wake(Wait::condition, reinterpret_cast<std::uint64_t>(condition), most); \
    return 0;                                                                \
  }
ORDERS_SIGNAL(pthread_cond_signal, 1)
ORDERS_SIGNAL(pthread_cond_broadcast, kMostThreads)

// ---- processes -----------------------------------------------------------------------------

pid_t fork() noexcept {
  if (!is_scheduled()) return REAL(fork)();
  choose(Kind::call, PLACE, "fork");
  const Process& parent = stage->process[me().process];
  const int process = add_process(parent.role, parent.life);
  stage->process[process].parent = me().process;
  const int thread = add_thread(static_cast<unsigned>(process));
  stage->thread[thread].state = State::none;  // until it is there
  const pid_t pid = REAL(fork)();
  if (pid == 0) {
    self = thread;
    take_token();
    return 0;
  }
  stage->process[process].pid = pid;
  stage->thread[thread].state = pid > 0 ? State::ready : State::over;
  stage->must_recheck = true;
  return pid;
}
void _exit(int code) {
  if (is_scheduled()) end_process(code);
  raw_call(SYS_exit_group, code);
  __builtin_unreachable();
}
pid_t waitpid(pid_t pid, int* status, int options) {
  if (is_scheduled()) {
    choose(Kind::call, PLACE, "waitpid");
    for (unsigned i = 0; i < stage->processes; ++i)
      while (stage->process[i].pid == pid && stage->process[i].is_alive)
        block(Wait::process, static_cast<std::uint64_t>(pid), kNever, "waitpid");
  }
  return static_cast<pid_t>(real(SYS_wait4, pid, status, options, 0));
}

// ---- all others ----------------------------------------------------------------------------

long syscall(long number, ...) noexcept {
  va_list words;
  va_start(words, number);
  long w[6];
  for (long& one : w) one = va_arg(words, long);
  va_end(words);
  if (is_scheduled() && number == SYS_futex) {
    if (choose(Kind::wait, PLACE, "futex") == Fault::refuse && !wakes(w[1])) return interrupted();
    return as_libc(do_futex(reinterpret_cast<std::uint32_t*>(w[0]), static_cast<int>(w[1]),
                            static_cast<std::uint32_t>(w[2]),
                            reinterpret_cast<const timespec*>(w[3])));
  }
  const bool sends = is_scheduled() && number == SYS_sendto;
  if (sends) choose(Kind::call, PLACE, "sendto");
  if (sends && stage->settings.loses_rings && w[2] == 1 && draw() % 8 == 0) return 1;
  const long done = real(number, w[0], w[1], w[2], w[3], w[4], w[5]);
  if (sends) note_io();
  return done;
}

}  // extern "C"
