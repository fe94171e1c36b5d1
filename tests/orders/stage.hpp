#pragma once  // orders/stage.hpp: the page that all processes of a scenario map: who runs, who
              // waits.

#include <pthread.h>

#include <cstddef>
#include <cstdint>

// One thread of all processes runs at a time: the one that has the token. It decides at each choice
// point who is next, so that the scheduler needs no thread and no lock of its own.
//   I1  `Stage` is read and written by the thread with the token alone, but for tokens and `bell`.
//   I2  A thread without the token sleeps in take_token(), runs down after thread_ended(), or has
//   not
//       reached its first instruction.
//   I3  A decision depends on `Stage` and on the plan alone, neither on time nor on addresses: a
//   seed
//       replays.
// This file and the harness's uninstrumented sources use no template of the standard library: the
// linker might take theirs for the library's instrumented ones.

namespace gantry::orders {

inline constexpr unsigned kMostThreads = 250;
inline constexpr unsigned kMostProcesses = 48;
inline constexpr unsigned kMostDecisions = 1u << 15;
inline constexpr std::uint64_t kNever = ~std::uint64_t{0};
inline constexpr std::uint64_t kChoiceNs = 100;  ///< Virtual time that a choice point takes.

enum class State : std::uint8_t { none, ready, blocked, over };

/// What a thread waits for.
enum class Wait : std::uint8_t { nothing, io, sleep, futex, mutex, condition, join, process };
inline constexpr const char* kWaitNames[] = {"nothing", "descriptors", "time",     "futex",
                                             "mutex",   "condition",   "a thread", "a process"};

/// `ordered`: an atomic operation with seq_cst, which a handshake needs. `wait`, `resource`: calls
/// that may be refused.
enum class Kind : std::uint8_t { atomic, ordered, step, call, wait, resource, block, start };

/// What a decision does beside the choice of the next thread.
enum class Fault : std::uint8_t { none, kill, stop, refuse, jump };
inline constexpr const char* kFaultNames[] = {"", "is killed", "is stopped", "is refused",
                                              "finds that the clock jumped"};

struct Thread {
  std::uint32_t token;  // a futex: 1: it may run
  State state;
  Wait wait;
  bool is_woken;  // what it blocked for was said to have come
  bool is_late;   // its deadline came first
  std::uint8_t process;
  std::uint32_t steps;  // its choice points so far
  const char* what;     // the call that it blocks in; text of the program, the same everywhere
  std::uint64_t on;     // address or descriptor
  std::uint64_t deadline_ns;
  std::uint64_t seen;      // Stage::io_events when it last looked
  std::uint64_t priority;  // of the strategy; the greatest runs
  std::uint64_t place;     // the instruction of its newest choice point
};

struct Process {
  std::int32_t pid;
  bool is_alive;
  bool is_doomed;                   // the referee is to kill it
  bool is_exiting;                  // by itself
  bool may_die;                     // it has a life left
  std::uint8_t role, life, parent;  // parent: of a copy that fork() made; else itself
  std::uint64_t stopped_until;      // in choices
};

/// A place where another thread came next than the one that ran, or a fault. `thread` at its choice
/// `step`.
struct Decision {
  std::uint32_t step;
  std::uint8_t thread;
  std::uint8_t next;
  Fault fault;
  Kind kind;
  bool is_usual;     // as without a scheduler: a thread runs until it blocks, then the one after it
  std::uint32_t at;  // Stage::choices
  std::uint64_t place;  // relative to the program's beginning
  const char* what;     // the call or step, if it has a name
};

enum class Strategy : std::uint8_t { random, pct, one_moved, plan };
inline constexpr const char* kStrategyNames[] = {"random", "pct", "one-moved", "plan"};

/// Files about the machine that the library reads again and again.
inline constexpr const char* kCopied[] = {"/proc/meminfo", "/proc/cpuinfo", "/proc/self/cgroup"};

struct Settings {
  std::uint64_t seed;
  Strategy strategy;
  std::uint32_t one_in;        // random: a switch once in so many choices
  std::uint32_t depth;         // pct: change points; one_moved: the choice at which it happens
  std::uint32_t length;        // pct: about how many choices a run has
  std::uint32_t refusals;      // of waits, for a signal: one in so many calls; 0: none
  std::uint32_t starves;       // of descriptors or memory: one in so many; 0: none
  std::uint32_t blows;         // kills, stops and jumps of the clock, each at most so many
  bool is_one_process;         // roles are threads, and threads are fibers of one kernel thread
  std::uint64_t first_number;  // of each channel's messages
  std::uint64_t begins_ns;     // the clock
  bool loses_rings;  // one wake-up of eight between processes is lost: a defect, to be found
  std::uint64_t most_choices;
  std::uint64_t fair_from;  // from this choice on the strategy is random
};

inline constexpr unsigned kMostBlows = 4;
/// At which choices something strikes the thread that makes it, in no order; 0: never.
struct Blows {
  std::uint32_t kill[kMostBlows], stop[kMostBlows], jump[kMostBlows];
};

struct Stage {
  std::uint32_t bell;  // a futex: rung for the referee
  std::uint32_t wants_referee;
  std::uint32_t current, threads, processes;
  bool is_one_process;  // roles are threads, and threads are fibers of one kernel thread
  bool has_failed;
  char failure[1600], waits[6000];  // what is wrong, and who waits for what
  Settings settings;
  std::uint64_t random;
  std::uint64_t now_ns;
  std::uint64_t choices, switches, io_events, faults, kills, jumps;
  std::uint64_t trace;  // a hash of all choices, to compare replays
  std::uint64_t last_progress;
  std::uint32_t change_points[16];
  Blows blows;
  bool must_recheck;    // pct: somebody became ready
  std::uint32_t alone;  // choices since another thread ran
  std::uint32_t decisions, planned;
  std::uint32_t
      plan_next[kMostThreads];  // of each thread, in `plan`, which is sorted by thread, step
  Thread thread[kMostThreads];
  Process process[kMostProcesses];
  Decision decision[kMostDecisions];  // as they were made
  Decision plan[kMostDecisions];      // to be made, by thread and step
  // For all runs.
  char copies[64];       // a folder with a copy of each of kCopied
  std::uint64_t* beats;  // counted whenever the clock jumps
};

extern Stage* stage;                     // null: nothing is scheduled, and calls are what they are
extern constinit thread_local int self;  // this thread's index; -1: it is not scheduled
[[nodiscard]] inline bool is_scheduled() noexcept {
  return self >= 0;
}
[[nodiscard]] inline Thread& me() noexcept {
  return stage->thread[self];
}

/// A choice point: maybe others run before it returns. `place`: an instruction.
Fault choose(Kind kind, const void* place, const char* what = nullptr) noexcept;
/// Gives the token on until wake() or, if `wait` is io, until something happened to a descriptor;
/// or until the clock says so. The caller looks again. False: the deadline came first.
bool block(Wait wait, std::uint64_t on, std::uint64_t deadline_ns, const char* what) noexcept;
/// Up to `most` threads of this process that wait like that can go on. Says how many.
unsigned wake(Wait wait, std::uint64_t on, unsigned most) noexcept;
void note_io() noexcept;  ///< Descriptors may be ready that were not.

/// A slot for a thread of `process` that begins ready.
int add_thread(unsigned process) noexcept;
int add_process(unsigned role, unsigned life) noexcept;
void take_token() noexcept;    ///< Returns when this thread is to run.
void thread_ended() noexcept;  ///< Of the calling thread, which gives the token on.
void call_referee() noexcept;  ///< The token goes to the referee.
/// Fresh, for one run; `stage` must be mapped.
void begin_run(const Settings& settings, bool is_one_process) noexcept;
/// The referee hands the token to some thread, if there is one.
void let_run() noexcept;
enum class Called { token, signal, hung };
/// Until the referee has the token again, a child of it died, or nobody did anything for so long.
Called await_call(unsigned real_ms) noexcept;
[[noreturn]] void fail(const char* format, ...) noexcept;  ///< Ends the run.
void note_failure(const char* format, ...) noexcept;
std::uint64_t draw() noexcept;  ///< The next random number of this run.
std::uint64_t place_of(const void* address) noexcept;

/// A thread's first and a process's last act. The latter tells the referee, who sees the death.
[[noreturn]] void end_process(int code) noexcept;

/// A thread of `process` that runs `run(argument)` from its first choice on. As pthread_create().
int start_thread(unsigned process, pthread_t* thread, const pthread_attr_t* attributes,
                 void* (*run)(void*), void* argument) noexcept;
// Where all is one process, a kernel thread only lends its stack and its thread_locals.
void park_thread(int index, void (*body)()) noexcept;  ///< Returns when it may end.
void await_parked(int index) noexcept;
void unpark(int index) noexcept;

long raw_call(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0,
              long f = 0) noexcept;  ///< Past every wrapper. Negative: an error.

}  // namespace gantry::orders
