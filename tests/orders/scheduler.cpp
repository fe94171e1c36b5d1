// Who runs next. Not instrumented; see stage.hpp.
#include <errno.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

#include <initializer_list>

#include "orders/fibers.hpp"
#include "orders/stage.hpp"

extern "C" const char __executable_start;

namespace gantry::orders {

Stage* stage = nullptr;
constinit thread_local int self = -1;

namespace {

constexpr int kNobody = -1;
constexpr std::uint32_t kMostAlonePlanned = 40'000;
constexpr std::uint32_t kMostAlone = 3000;  // then it spins, and others come first

void futex_sleep(std::uint32_t* word, std::uint32_t expected, const timespec* most) {
  raw_call(SYS_futex, reinterpret_cast<long>(word), FUTEX_WAIT, expected,
           reinterpret_cast<long>(most));
}
void futex_rouse(std::uint32_t* word) {
  raw_call(SYS_futex, reinterpret_cast<long>(word), FUTEX_WAKE, 1);
}

bool can_run(const Thread& thread) {
  if (thread.state != State::ready && thread.state != State::blocked) return false;
  const Process& process = stage->process[thread.process];
  if (!process.is_alive || process.stopped_until > stage->choices) return false;
  if (thread.state == State::ready || thread.is_woken) return true;
  return (thread.wait == Wait::io && thread.seen != stage->io_events) ||
         thread.deadline_ns <= stage->now_ns;
}

// The usual next: the one after `from`, in a circle.
int usual_next(int from) {
  const auto count = static_cast<int>(stage->threads);
  for (int i = 1; i <= count; ++i) {
    const int other = (from + i + count) % count;
    if (other != from && can_run(stage->thread[other])) return other;
  }
  return kNobody;
}

int random_next(int from, bool with_self) {
  unsigned char able[kMostThreads];
  unsigned count = 0;
  for (unsigned i = 0; i < stage->threads; ++i)
    if ((with_self || static_cast<int>(i) != from) && can_run(stage->thread[i]))
      able[count++] = static_cast<unsigned char>(i);
  return count == 0 ? kNobody : able[draw() % count];
}

int most_urgent(int from, bool with_self) {
  int best = kNobody;
  for (unsigned i = 0; i < stage->threads; ++i) {
    if ((!with_self && static_cast<int>(i) == from) || !can_run(stage->thread[i])) continue;
    if (best == kNobody || stage->thread[i].priority > stage->thread[best].priority)
      best = static_cast<int>(i);
  }
  return best;
}

// Nobody can run: the clock jumps to the next deadline, or whoever is stopped goes on.
bool jump_clock() {
  std::uint64_t first = kNever;
  for (unsigned i = 0; i < stage->threads; ++i) {
    const Thread& thread = stage->thread[i];
    if (thread.state == State::blocked && stage->process[thread.process].is_alive &&
        stage->process[thread.process].stopped_until <= stage->choices &&
        thread.deadline_ns < first)
      first = thread.deadline_ns;
  }
  bool was_stopped = false;
  for (unsigned i = 0; i < stage->processes; ++i)
    if (stage->process[i].stopped_until > stage->choices) {
      stage->process[i].stopped_until = 0;
      was_stopped = true;
    }
  if (was_stopped) return true;
  if (first == kNever) return false;
  stage->now_ns = first;
  ++stage->jumps;
  if (stage->beats != nullptr) ++*stage->beats;
  return true;
}

void note_deadlock() {
  bool is_over = true;
  for (unsigned i = 0; i < stage->threads; ++i) {
    const Thread& thread = stage->thread[i];
    if (thread.state == State::blocked && stage->process[thread.process].is_alive) is_over = false;
  }
  if (!is_over) note_failure("deadlock: nobody can run, and no deadline is left");
}

// The others may starve a thread for ever, which no machine does: so they end.
Strategy strategy_now() {
  const bool is_kept =
      stage->settings.strategy == Strategy::plan || stage->choices < stage->settings.fair_from;
  return is_kept ? stage->settings.strategy : Strategy::random;
}

const Decision* planned_for(int thread, std::uint32_t step) {
  std::uint32_t& at = stage->plan_next[thread];
  const auto is_before = [&](const Decision& one) {
    return one.thread < thread || (one.thread == thread && one.step < step);
  };
  while (at < stage->planned && is_before(stage->plan[at])) ++at;
  const bool is_it =
      at < stage->planned && stage->plan[at].thread == thread && stage->plan[at].step == step;
  return is_it ? &stage->plan[at++] : nullptr;
}

void write_down(int next, Fault fault, Kind kind, bool is_usual, const char* what) {
  if (stage->decisions == kMostDecisions) return;
  const bool has_thread = is_scheduled();
  Decision& one = stage->decision[stage->decisions++];
  one.step = has_thread ? me().steps : static_cast<std::uint32_t>(stage->choices);
  one.thread = static_cast<std::uint8_t>(has_thread ? self : kMostThreads - 1);
  one.next = static_cast<std::uint8_t>(next);
  one.fault = fault;
  one.kind = kind;
  one.is_usual = is_usual;
  one.at = static_cast<std::uint32_t>(stage->choices);
  one.place = has_thread ? me().place : 0;
  one.what = what;
}

// Of one process: the threads, and the referee as the last.
Context contexts[kMostThreads + 1];
std::uint32_t parked[kMostThreads][2];

// Gives the token to somebody, or to the referee if nobody is left. Where all is one process it
// returns with the token.
void hand_over(int next) {
  stage->alone = 0;
  if (next != kNobody) ++stage->switches;
  const auto to = next == kNobody ? kMostThreads : static_cast<std::uint32_t>(next);
  if (stage->is_one_process) {
    const std::uint32_t from = stage->current;
    stage->current = to;
    if (from != to) gantry_orders_jump(&contexts[from], &contexts[to]);
    return;
  }
  __atomic_store_n(&stage->current, to, __ATOMIC_SEQ_CST);
  if (next == kNobody) {
    __atomic_store_n(&stage->bell, 1u, __ATOMIC_SEQ_CST);
    return futex_rouse(&stage->bell);
  }
  Thread& thread = stage->thread[next];
  __atomic_store_n(&thread.token, 1u, __ATOMIC_SEQ_CST);
  futex_rouse(&thread.token);
}

// Who comes after this thread, which blocks or ends; the clock jumps if nobody can run before.
int next_of_all(Kind kind, const char* what) {
  const int from = is_scheduled() ? self : static_cast<int>(kMostThreads) - 1;
  int usual = kNobody;
  while ((usual = usual_next(is_scheduled() ? self : 0)) == kNobody) {
    if (is_scheduled() && can_run(me())) return self;
    if (!is_scheduled() && stage->threads > 0 && can_run(stage->thread[0])) return 0;
    if (stage->wants_referee != 0) return kNobody;
    if (!jump_clock()) {
      note_deadlock();
      return kNobody;
    }
  }
  int next = usual;
  switch (strategy_now()) {
    case Strategy::random:
      next = random_next(self, true);
      break;
    case Strategy::pct:
      next = most_urgent(self, true);
      break;
    case Strategy::one_moved:
      break;
    case Strategy::plan: {
      const Decision* const planned = planned_for(
          from, is_scheduled() ? me().steps : static_cast<std::uint32_t>(stage->choices));
      if (planned != nullptr && planned->next < stage->threads &&
          can_run(stage->thread[planned->next]))
        next = planned->next;
      break;
    }
  }
  write_down(next, Fault::none, kind, next == usual, what);
  return next;
}

// Handshakes and labelled steps get eight times as many switches as the rest, most of which looks
// at what has not changed.
int random_or_self(Kind kind) {
  const std::uint32_t one_in = stage->settings.one_in;
  const bool is_hot = kind == Kind::ordered || kind == Kind::step;
  const std::uint32_t here = is_hot ? (one_in + 7) / 8 + 1 : one_in;
  if (draw() % here != 0 && stage->alone < 64 * one_in) return self;
  return random_next(self, stage->alone < kMostAlone);
}

// At a choice point: nothing happens unless this says so.
int strategy_next(Kind kind, Fault& fault) {
  Stage& it = *stage;
  switch (strategy_now()) {
    case Strategy::random:
      return random_or_self(kind);
    case Strategy::pct:
      for (std::uint32_t i = 0; i < it.settings.depth && i < 16; ++i)
        if (it.change_points[i] == it.choices) {
          me().priority = i + 1;
          it.must_recheck = true;
        }
      if (it.alone >= kMostAlone) {
        me().priority = 0;
        it.must_recheck = true;
      }
      if (!it.must_recheck) return self;
      it.must_recheck = false;
      return most_urgent(self, it.alone < kMostAlone);
    case Strategy::one_moved:
      if (it.choices == it.settings.depth || it.alone >= kMostAlone)
        return random_next(self, false);
      return self;
    case Strategy::plan:
      if (const Decision* const planned = planned_for(self, me().steps)) {
        if (planned->fault != Fault::refuse || planned->kind == kind) fault = planned->fault;
        const bool is_able = planned->next < it.threads && can_run(it.thread[planned->next]);
        return is_able ? planned->next : self;
      }
      return it.alone >= kMostAlonePlanned ? usual_next(self) : self;
  }
  return self;
}

bool strikes(std::uint32_t* blows) {
  for (unsigned i = 0; i < kMostBlows; ++i)
    if (blows[i] != 0 && blows[i] <= stage->choices) {
      blows[i] = 0;
      return true;
    }
  return false;
}

Fault draw_fault(Kind kind) {
  Stage& it = *stage;
  if (it.settings.strategy == Strategy::plan) return Fault::none;
  if (it.settings.blows != 0) {
    if (it.process[me().process].may_die && strikes(it.blows.kill)) return Fault::kill;
    if (strikes(it.blows.stop)) return Fault::stop;
    if (strikes(it.blows.jump)) return Fault::jump;
  }
  const std::uint32_t refused = kind == Kind::wait       ? it.settings.refusals
                                : kind == Kind::resource ? it.settings.starves
                                                         : 0;
  return refused != 0 && draw() % refused == 0 ? Fault::refuse : Fault::none;
}

// The same whenever this thread suffers at this step: a plan has no random numbers.
std::uint32_t severity() {
  return (me().steps * 2654435761u) >> 8;
}

void suffer(Fault fault) {
  Process& mine = stage->process[me().process];
  switch (fault) {
    case Fault::kill:
      ++stage->kills;
      mine.is_doomed = true;
      call_referee();
      return take_token();  // which never comes
    case Fault::stop:
      mine.stopped_until = stage->choices + 50 + severity() % 3000;
      hand_over(next_of_all(Kind::call, "stopped"));
      return take_token();
    case Fault::jump:
      stage->now_ns += 1'000'000u << severity() % 7;
      return;
    default:
      return;
  }
}

}  // namespace

std::uint64_t draw() noexcept {
  std::uint64_t z = stage->random += 0x9e3779b97f4a7c15;  // splitmix64
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 27) * 0x94d049bb133111eb;
  return z ^ z >> 31;
}

std::uint64_t place_of(const void* address) noexcept {
  return static_cast<std::uint64_t>(static_cast<const char*>(address) - &__executable_start);
}

void begin_run(const Settings& settings, bool is_one_process) noexcept {
  Stage& it = *stage;
  memset(static_cast<void*>(stage), 0, offsetof(Stage, thread));
  memset(static_cast<void*>(it.process), 0, sizeof it.process);
  it.settings = settings;
  it.is_one_process = is_one_process;
  it.random = settings.seed;
  it.now_ns = settings.begins_ns;
  it.current = kMostThreads;
  for (std::uint32_t& point : it.change_points)
    point = static_cast<std::uint32_t>(draw() % (settings.length + 1));
  for (auto* blows : {it.blows.kill, it.blows.stop, it.blows.jump})
    for (unsigned i = 0; i < settings.blows && i < kMostBlows; ++i)
      blows[i] = draw() % 2 == 0 ? 0 : static_cast<std::uint32_t>(draw() % (settings.length + 1));
}

int add_thread(unsigned process) noexcept {
  if (stage->threads == kMostThreads - 1) fail("more threads than the stage has room for");
  const auto index = static_cast<int>(stage->threads++);
  Thread& thread = stage->thread[index];
  thread = Thread{};
  thread.state = State::ready;
  thread.process = static_cast<std::uint8_t>(process);
  thread.priority = 100 + draw() % 1000;
  stage->must_recheck = true;
  return index;
}

int add_process(unsigned role, unsigned life) noexcept {
  if (stage->processes == kMostProcesses) fail("more processes than the stage has room for");
  const auto index = static_cast<int>(stage->processes++);
  Process& process = stage->process[index];
  process = Process{};
  process.is_alive = true;
  process.parent = static_cast<std::uint8_t>(index);
  process.role = static_cast<std::uint8_t>(role);
  process.life = static_cast<std::uint8_t>(life);
  return index;
}

void take_token() noexcept {
  if (stage->is_one_process) return;
  Thread& thread = me();
  while (__atomic_load_n(&thread.token, __ATOMIC_SEQ_CST) == 0)
    futex_sleep(&thread.token, 0, nullptr);
  __atomic_store_n(&thread.token, 0u, __ATOMIC_SEQ_CST);
}

void call_referee() noexcept {
  stage->wants_referee = 1;
  hand_over(kNobody);
}

static void write_failure(const char* format, va_list words) {
  if (stage->has_failed) return;
  vsnprintf(stage->failure, sizeof stage->failure, format, words);
  stage->has_failed = true;
}
void note_failure(const char* format, ...) noexcept {
  va_list words;
  va_start(words, format);
  write_failure(format, words);
  va_end(words);
}
void fail(const char* format, ...) noexcept {
  va_list words;
  va_start(words, format);
  write_failure(format, words);
  va_end(words);
  call_referee();
  for (;;) raw_call(SYS_pause);
}

static void count_choice(unsigned kind) {
  ++me().steps;
  stage->trace = (stage->trace ^ (static_cast<unsigned>(self) << 3 | kind)) * 0x100000001b3;
  if (++stage->choices >= stage->settings.most_choices)
    fail("no end after %lu choices", static_cast<unsigned long>(stage->choices));
}

Fault choose(Kind kind, const void* place, const char* what) noexcept {
  if (!is_scheduled()) return Fault::none;
  Stage& it = *stage;
  ++it.alone;
  it.now_ns += kChoiceNs;
  me().place = place_of(place);
  count_choice(static_cast<unsigned>(kind));
  Fault fault = draw_fault(kind);
  const int next = strategy_next(kind, fault);
  if (fault != Fault::none) {
    ++it.faults;
    write_down(next == kNobody ? self : next, fault, kind, false, what);
    suffer(fault);
    return fault;
  }
  if (next == self || next == kNobody) return Fault::none;
  write_down(next, Fault::none, kind, false, what);
  hand_over(next);
  take_token();
  return Fault::none;
}

bool block(Wait wait, std::uint64_t on, std::uint64_t deadline_ns, const char* what) noexcept {
  Stage& it = *stage;
  Thread& mine = me();
  count_choice(7);
  mine.wait = wait;
  mine.on = on;
  mine.deadline_ns = deadline_ns;
  mine.what = what;
  mine.is_woken = false;
  mine.seen = it.io_events;
  mine.state = State::blocked;
  const int next = next_of_all(Kind::block, what);
  if (next != self) {
    hand_over(next);
    take_token();
  }
  mine.state = State::ready;
  mine.wait = Wait::nothing;
  const bool has_come =
      mine.is_woken || (wait == Wait::io && mine.seen != it.io_events) || deadline_ns > it.now_ns;
  mine.is_woken = false;
  return has_come;
}

unsigned wake(Wait wait, std::uint64_t on, unsigned most) noexcept {
  if (!is_scheduled() && wait != Wait::process) return 0;
  unsigned woken = 0;
  for (unsigned i = 0; i < stage->threads && woken < most; ++i) {
    Thread& thread = stage->thread[i];
    if (thread.state != State::blocked || thread.wait != wait || thread.on != on ||
        thread.is_woken ||
        (!stage->is_one_process && wait != Wait::process && thread.process != me().process))
      continue;
    thread.is_woken = true;
    ++woken;
    stage->must_recheck = true;
  }
  return woken;
}

void note_io() noexcept {
  ++stage->io_events;
  stage->must_recheck = true;
}

void thread_ended() noexcept {
  me().state = State::over;
  ++me().steps;
  wake(Wait::join, static_cast<std::uint64_t>(self), kMostThreads);
  const int next = next_of_all(Kind::block, "ends");
  if (!stage->is_one_process) self = -1;
  hand_over(next);
}

void park_thread(int index, void (*body)()) noexcept {
  gantry_orders_park(&contexts[index], body, parked[index]);
}
void await_parked(int index) noexcept {
  while (__atomic_load_n(&parked[index][1], __ATOMIC_SEQ_CST) == 0)
    raw_call(SYS_futex, reinterpret_cast<long>(&parked[index][1]), FUTEX_WAIT_PRIVATE, 0);
}
void unpark(int index) noexcept {
  __atomic_store_n(&parked[index][0], 1u, __ATOMIC_SEQ_CST);
  raw_call(SYS_futex, reinterpret_cast<long>(&parked[index][0]), FUTEX_WAKE_PRIVATE, 1);
}

void let_run() noexcept {
  stage->wants_referee = 0;
  const int next = next_of_all(Kind::start, "referee");
  __atomic_store_n(&stage->bell, 0u, __ATOMIC_SEQ_CST);
  if (next != kNobody) hand_over(next);
}

Called await_call(unsigned real_ms) noexcept {
  if (stage->is_one_process) return Called::token;
  const timespec most{real_ms / 1000, static_cast<long>(real_ms % 1000) * 1'000'000};
  std::uint64_t before = kNever;
  for (;;) {
    if (__atomic_load_n(&stage->current, __ATOMIC_SEQ_CST) == kMostThreads) return Called::token;
    if (__atomic_exchange_n(&stage->bell, 0u, __ATOMIC_SEQ_CST) != 0) return Called::signal;
    if (before == stage->choices) return Called::hung;
    before = stage->choices;
    for (unsigned i = 0; i < 2 && __atomic_load_n(&stage->bell, __ATOMIC_SEQ_CST) == 0; ++i)
      futex_sleep(&stage->bell, 0, &most);
  }
}

}  // namespace gantry::orders
