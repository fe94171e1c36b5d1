// Not instrumented. The rules are those of C11 without its out-of-thin-air reads: stores to a word
// have the order of their execution, a load takes any of them that coherence, happens-before and
// the order of seq_cst operations and fences leave it. Values of plain memory are always the
// newest, but two accesses that nothing orders are a race.
#include "orders/weak_machine.hpp"

#include <string.h>
#include <time.h>

#include "orders/fibers.hpp"

namespace gantry::orders::weak {
namespace {

constexpr unsigned kFibers = kMostFibers;
constexpr unsigned kDepth = 6;        // stores of a word that can still be read
constexpr unsigned kWords = 1 << 10;  // of words with atomic operations
constexpr unsigned kMostSteps = 4000;

struct Clock {
  std::uint32_t at[kFibers];
  void join(const Clock& other) {
    for (unsigned i = 0; i < kFibers; ++i)
      if (other.at[i] > at[i]) at[i] = other.at[i];
  }
};

struct Store {
  std::uint64_t value;
  std::uint32_t epoch;  // of its fiber
  std::uint32_t sc;     // its place in the order of seq_cst operations; 0: none
  std::uint8_t fiber;
  Clock releases;  // what an acquiring reader learns
};
struct Word {
  std::uint64_t address;  // 0: free
  std::uint32_t count;    // stores so far
  std::uint32_t seen[kFibers];
  Store stores[kDepth];
  [[nodiscard]] Store& at(std::uint32_t index) { return stores[index % kDepth]; }
};
struct Plain {  // eight bytes of the arena
  std::uint32_t epoch;
  std::uint8_t fiber;
  bool is_written;
  std::uint32_t reads[kFibers];
};

struct Fiber {
  Context context;
  void (*body)();
  bool is_over;
  int waits_for;  // a bell; -1: none
  Clock clock, released, learned, sc_floor;
  std::uint32_t sc_fence;  // its newest, in the order of seq_cst operations
};
struct WakeUp {
  bool is_rung;
  Clock clock;
};

alignas(64) unsigned char arena_bytes[kArenaBytes];
alignas(64) unsigned char stacks[kFibers][1 << 16];
Plain plain[kArenaBytes / 8];
Word words[kWords];
Fiber fibers[kFibers];
WakeUp bells[4];
Sites all_sites;
unsigned fiber_count = 0;
int current = -1;
Context main_context;
std::uint64_t random_state = 0;
std::uint32_t sc_time = 0, steps = 0;
std::uint32_t fence_epoch[kFibers];  // of each fiber's newest seq_cst fence
const char* failure = nullptr;

std::uint32_t draw() {
  random_state += 0x9e3779b97f4a7c15;
  std::uint64_t z = random_state;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 27) * 0x94d049bb133111eb;
  return static_cast<std::uint32_t>(z >> 33);
}

bool can_run(const Fiber& fiber) {
  return !fiber.is_over && (fiber.waits_for < 0 || bells[fiber.waits_for].is_rung);
}
void to_main() {
  Context* const from = &fibers[current].context;
  current = -1;
  gantry_orders_jump(from, &main_context);
}
void enter_fiber() {
  fibers[current].body();
  fibers[current].is_over = true;
  to_main();
}
void fail(const char* what) {
  if (failure == nullptr) failure = what;
  to_main();  // for ever
}
void pass() {
  if (++steps > kMostSteps) fail("no end");
  if (draw() % 2 == 0) to_main();
}

Site& site_of(const void* place, Op op, int order) {
  const auto at = reinterpret_cast<std::uint64_t>(place);
  for (unsigned i = 0; i < all_sites.count; ++i)
    if (all_sites.site[i].place == at && all_sites.site[i].op == op) return all_sites.site[i];
  if (all_sites.count == kMostSites) __builtin_trap();
  all_sites.site[all_sites.count] = {at, op, order, order};
  return all_sites.site[all_sites.count++];
}

bool acquires(int order) {
  return order == __ATOMIC_ACQUIRE || order == __ATOMIC_CONSUME || order == __ATOMIC_ACQ_REL ||
         order == __ATOMIC_SEQ_CST;
}
bool releases(int order) {
  return order == __ATOMIC_RELEASE || order == __ATOMIC_ACQ_REL || order == __ATOMIC_SEQ_CST;
}

Word& word_at(const volatile void* address, std::uint64_t value) {
  const auto at = reinterpret_cast<std::uint64_t>(address);
  for (std::uint64_t i = at * 0x9e3779b97f4a7c15 >> 54;; ++i) {
    Word& word = words[i % kWords];
    if (word.address == at) return word;
    if (word.address != 0) continue;
    word = Word{};
    word.address = at;
    word.count = 1;
    word.stores[0].value = value;  // by whoever made it, before all
    return word;
  }
}

bool knows(const Clock& clock, const Store& store) {
  return store.epoch <= clock.at[store.fiber];
}

// The oldest store that this load may take.
std::uint32_t oldest_for(Word& word, const Fiber& mine, int order) {
  const std::uint32_t first = word.count > kDepth ? word.count - kDepth : 0;
  std::uint32_t oldest = word.seen[current] > first ? word.seen[current] : first;
  const bool is_sc = order == __ATOMIC_SEQ_CST;
  for (std::uint32_t i = word.count; i-- > oldest;) {
    const Store& store = word.at(i);
    const bool must = knows(mine.clock, store) || knows(mine.sc_floor, store) ||
                      (store.sc != 0 && (is_sc || store.sc < mine.sc_fence)) ||
                      (is_sc && store.epoch <= fence_epoch[store.fiber]);
    if (must) return i;
  }
  return oldest;
}

std::uint64_t do_load(const volatile void* address, std::uint64_t now, int order) {
  Fiber& mine = fibers[current];
  Word& word = word_at(address, now);
  const std::uint32_t oldest = oldest_for(word, mine, order);
  std::uint32_t index = word.count - 1;
  if (index > oldest && draw() % 2 == 0) index = oldest + draw() % (index - oldest + 1);
  word.seen[current] = index;
  const Store& store = word.at(index);
  (acquires(order) ? mine.clock : mine.learned).join(store.releases);
  return store.value;
}

void do_store(const volatile void* address, std::uint64_t before, std::uint64_t value, int order,
              bool is_update) {
  Fiber& mine = fibers[current];
  Word& word = word_at(address, before);
  const Clock past = word.at(word.count - 1).releases;
  Store& store = word.at(word.count);
  store = Store{};
  store.value = value;
  store.fiber = static_cast<std::uint8_t>(current);
  store.epoch = ++mine.clock.at[current];
  if (order == __ATOMIC_SEQ_CST) store.sc = ++sc_time;
  store.releases = releases(order) ? mine.clock : mine.released;
  if (is_update) store.releases.join(past);  // it goes on with the release sequence
  word.seen[current] = word.count++;
}

void do_fence(Fiber& mine, unsigned index, int order) {
  if (acquires(order)) mine.clock.join(mine.learned);
  if (order == __ATOMIC_SEQ_CST) {
    mine.sc_fence = ++sc_time;
    fence_epoch[index] = mine.clock.at[index];
    for (unsigned i = 0; i < kFibers; ++i)
      if (fence_epoch[i] > mine.sc_floor.at[i]) mine.sc_floor.at[i] = fence_epoch[i];
  }
  if (releases(order)) mine.released = mine.clock;
}

void access(const void* address, std::size_t bytes, bool writes) {
  const auto at = static_cast<const unsigned char*>(address);
  if (current < 0 || at < arena_bytes || at >= arena_bytes + kArenaBytes) return;
  Fiber& mine = fibers[current];
  const auto first = static_cast<std::size_t>(at - arena_bytes) / 8;
  for (std::size_t i = first; i <= (static_cast<std::size_t>(at - arena_bytes) + bytes - 1) / 8;
       ++i) {
    Plain& one = plain[i];
    if (one.is_written && one.epoch > mine.clock.at[one.fiber])
      fail(writes ? "a race: two writes" : "a race: a read of what is written");
    for (unsigned other = 0; writes && other < kFibers; ++other)
      if (one.reads[other] > mine.clock.at[other]) fail("a race: a write of what is read");
    if (writes) {
      one.is_written = true;
      one.fiber = static_cast<std::uint8_t>(current);
      one.epoch = ++mine.clock.at[current];
    } else {
      one.reads[current] = ++mine.clock.at[current];
    }
  }
}

}  // namespace

Sites& sites() noexcept {
  return all_sites;
}
unsigned char* arena() noexcept {
  return arena_bytes;
}

const char* run(void (*const* bodies)(), unsigned count, std::uint64_t seed) noexcept {
  memset(static_cast<void*>(words), 0, sizeof words);
  memset(static_cast<void*>(plain), 0, sizeof plain);
  memset(static_cast<void*>(bells), 0, sizeof bells);
  memset(static_cast<void*>(fence_epoch), 0, sizeof fence_epoch);
  random_state = seed;
  sc_time = steps = 0;
  failure = nullptr;
  fiber_count = count;
  for (unsigned i = 0; i < count; ++i) {
    fibers[i] = Fiber{};
    fibers[i].waits_for = -1;
    fibers[i].body = bodies[i];
    fibers[i].clock.at[i] = 1;
    fibers[i].context = main_context = begin_below(stacks[i] + sizeof stacks[i], &enter_fiber);
  }
  // Each fiber's stores begin unknown to the others, and what was there before is known to all.
  while (failure == nullptr) {
    unsigned able[kFibers];
    unsigned able_count = 0;
    bool is_over = true;
    for (unsigned i = 0; i < count; ++i) {
      is_over = is_over && fibers[i].is_over;
      if (can_run(fibers[i])) able[able_count++] = i;
    }
    if (is_over) return nullptr;
    if (able_count == 0) return "nobody can run: a wake-up was missed";
    current = static_cast<int>(able[draw() % able_count]);
    gantry_orders_jump(&main_context, &fibers[current].context);
  }
  return failure;
}

void expect(bool holds, const char* what) noexcept {
  if (!holds) fail(what);
}
void ring_bell(unsigned bell) noexcept {
  pass();
  bells[bell].is_rung = true;
  bells[bell].clock.join(fibers[current].clock);
}
void await_bell(unsigned bell) noexcept {
  fibers[current].waits_for = static_cast<int>(bell);
  to_main();
  fibers[current].waits_for = -1;
  bells[bell].is_rung = false;
  fibers[current].clock.join(bells[bell].clock);
}
void give_way() noexcept {
  if (++steps > kMostSteps) fail("no end");
  to_main();
}
void fence_all() noexcept {
  for (unsigned i = 0; i < fiber_count; ++i) do_fence(fibers[i], i, __ATOMIC_SEQ_CST);
}

}  // namespace gantry::orders::weak

using namespace gantry::orders::weak;  // NOLINT: what follows has names that compilers know

#define PLACE __builtin_return_address(0)
#define WEAK_ACCESS(name, bytes, writes)             \
  void __tsan_##name##bytes(void* at) {              \
    gantry::orders::weak::access(at, bytes, writes); \
  }
#define WEAK_SIZES(name, writes) \
  WEAK_ACCESS(name, 1, writes)   \
  WEAK_ACCESS(name, 2, writes)   \
  WEAK_ACCESS(name, 4, writes) WEAK_ACCESS(name, 8, writes) WEAK_ACCESS(name, 16, writes)
#define WEAK_UPDATE(bits, type, name, expression)                                           \
  type __tsan_atomic##bits##_##name(volatile type* at, type by, int order) {                \
    const type now = *at;                                                                   \
    if (current >= 0) {                                                                     \
      pass();                                                                               \
      order = site_of(PLACE, Op::update, order).weakened;                                   \
      Fiber& mine = fibers[current];                                                        \
      Word& word = word_at(at, now);                                                        \
      const type newest = static_cast<type>(word.at(word.count - 1).value);                 \
      (acquires(order) ? mine.clock : mine.learned).join(word.at(word.count - 1).releases); \
      const type old = newest;                                                              \
      do_store(at, now, static_cast<type>(expression), order, true);                        \
      *at = static_cast<type>(expression);                                                  \
      return old;                                                                           \
    }                                                                                       \
    const type old = now;                                                                   \
    *at = static_cast<type>(expression);                                                    \
    return old;                                                                             \
  }
#define WEAK_ATOMIC(bits, type)                                                           \
  type __tsan_atomic##bits##_load(const volatile type* at, int order) {                   \
    if (current < 0) return *at;                                                          \
    pass();                                                                               \
    return static_cast<type>(do_load(at, *at, site_of(PLACE, Op::load, order).weakened)); \
  }                                                                                       \
  void __tsan_atomic##bits##_store(volatile type* at, type value, int order) {            \
    if (current >= 0) {                                                                   \
      pass();                                                                             \
      do_store(at, *at, value, site_of(PLACE, Op::store, order).weakened, false);         \
    }                                                                                     \
    *at = value;                                                                          \
  }                                                                                       \
  WEAK_UPDATE(bits, type, exchange, by)                                                   \
  WEAK_UPDATE(bits, type, fetch_add, old + by)                                            \
  WEAK_UPDATE(bits, type, fetch_or, old | by)

extern "C" {
WEAK_SIZES(read, false)
WEAK_SIZES(write, true)
WEAK_SIZES(unaligned_read, false)
WEAK_SIZES(unaligned_write, true)
WEAK_ATOMIC(32, std::uint32_t)
WEAK_ATOMIC(64, std::uint64_t)
// detail::has_membarrier alone, which never changes here.
std::uint8_t __tsan_atomic8_load(const volatile std::uint8_t* at, int) {
  return *at;
}
void __tsan_read_range(void* at, std::size_t bytes) {
  gantry::orders::weak::access(at, bytes, false);
}
void __tsan_write_range(void* at, std::size_t bytes) {
  gantry::orders::weak::access(at, bytes, true);
}
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void*) {}
void __tsan_atomic_thread_fence(int order) {
  if (current < 0) return;
  pass();
  do_fence(fibers[current], static_cast<unsigned>(current),
           site_of(PLACE, Op::fence, order).weakened);
}
void __tsan_atomic_signal_fence(int) {}
int sched_yield() noexcept {
  if (current >= 0) give_way();
  return 0;
}
int nanosleep(const timespec*, timespec*) {
  if (current >= 0) give_way();
  return 0;
}
}
