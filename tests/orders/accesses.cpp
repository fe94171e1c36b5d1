// What an instrumented program calls at each access to memory. An atomic operation is a choice
// point, and so is the moment behind a store: what follows may be plain writes. Not instrumented;
// see stage.hpp.
#include "orders/stage.hpp"

using gantry::orders::choose;
using gantry::orders::Kind;

#define PLACE __builtin_return_address(0)
#define CHOICE(order) choose(order == __ATOMIC_SEQ_CST ? Kind::ordered : Kind::atomic, PLACE)

#define ORDERS_PLAIN(name) \
  void __tsan_##name(void*) {}
#define ORDERS_SIZES(name) \
  ORDERS_PLAIN(name##1)    \
  ORDERS_PLAIN(name##2) ORDERS_PLAIN(name##4) ORDERS_PLAIN(name##8) ORDERS_PLAIN(name##16)

#define ORDERS_UPDATE(bits, type, name, builtin)                                \
  type __tsan_atomic##bits##_##name(volatile type* at, type value, int order) { \
    CHOICE(order);                                                              \
    return builtin(at, value, __ATOMIC_SEQ_CST);                                \
  }
#define ORDERS_SWAP(bits, type, name)                                                              \
  int __tsan_atomic##bits##_compare_exchange_##name(volatile type* at, type* expected, type value, \
                                                    int order, int) {                              \
    CHOICE(order);                                                                                 \
    return __atomic_compare_exchange_n(at, expected, value, false, __ATOMIC_SEQ_CST,               \
                                       __ATOMIC_SEQ_CST);                                          \
  }
#define ORDERS_ATOMIC(bits, type)                                              \
  type __tsan_atomic##bits##_load(const volatile type* at, int order) {        \
    CHOICE(order);                                                             \
    return __atomic_load_n(at, __ATOMIC_SEQ_CST);                              \
  }                                                                            \
  void __tsan_atomic##bits##_store(volatile type* at, type value, int order) { \
    CHOICE(order);                                                             \
    __atomic_store_n(at, value, __ATOMIC_SEQ_CST);                             \
    CHOICE(order);                                                             \
  }                                                                            \
  ORDERS_UPDATE(bits, type, exchange, __atomic_exchange_n)                     \
  ORDERS_UPDATE(bits, type, fetch_add, __atomic_fetch_add)                     \
  ORDERS_UPDATE(bits, type, fetch_sub, __atomic_fetch_sub)                     \
  ORDERS_UPDATE(bits, type, fetch_and, __atomic_fetch_and)                     \
  ORDERS_UPDATE(bits, type, fetch_or, __atomic_fetch_or)                       \
  ORDERS_UPDATE(bits, type, fetch_xor, __atomic_fetch_xor)                     \
  ORDERS_UPDATE(bits, type, fetch_nand, __atomic_fetch_nand)                   \
  ORDERS_SWAP(bits, type, strong)                                              \
  ORDERS_SWAP(bits, type, weak)

extern "C" {
ORDERS_SIZES(read)
ORDERS_SIZES(write)
ORDERS_SIZES(volatile_read)
ORDERS_SIZES(volatile_write)
ORDERS_SIZES(unaligned_read)
ORDERS_SIZES(unaligned_write)
ORDERS_SIZES(unaligned_volatile_read)
ORDERS_SIZES(unaligned_volatile_write)
ORDERS_PLAIN(vptr_read)
ORDERS_ATOMIC(8, std::uint8_t)
ORDERS_ATOMIC(16, std::uint16_t)
ORDERS_ATOMIC(32, std::uint32_t)
ORDERS_ATOMIC(64, std::uint64_t)
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_read_range(void*, std::size_t) {}
void __tsan_write_range(void*, std::size_t) {}
void __tsan_atomic_thread_fence(int order) {
  CHOICE(order);
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
void __tsan_atomic_signal_fence(int) {}
}
