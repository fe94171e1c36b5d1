#pragma once  // orders/weak_machine.hpp: a machine whose loads may see old values, as far as C11's
              // orders allow; it runs small programs over the library's own instrumented headers.

#include <cstddef>
#include <cstdint>

namespace gantry::orders::weak {

inline constexpr unsigned kMostFibers = 3;

enum class Op : std::uint8_t { load, store, update, fence };
inline constexpr const char* kOpNames[] = {"load", "store", "update", "fence"};

/// One operation in the program, by its instruction.
struct Site {
  std::uint64_t place;
  Op op;
  int order;     // of <atomic>, as the program says
  int weakened;  // as it is executed
};
inline constexpr unsigned kMostSites = 512;

struct Sites {
  Site site[kMostSites];
  unsigned count;
};
Sites& sites() noexcept;

/// Memory that is looked at for races; programs place what they share in it.
inline constexpr std::size_t kArenaBytes = 1 << 16;
unsigned char* arena() noexcept;

/// Runs the fibers to their ends in an order, and with values, that the seed decides. Null, or what
/// went wrong: a race, a failed expect(), or that nobody can run.
const char* run(void (*const* fibers)(), unsigned count, std::uint64_t seed) noexcept;

// What fibers call.
void expect(bool holds, const char* what) noexcept;
void ring_bell(
    unsigned bell) noexcept;  ///< As a wake-up socket: sticky, and orders what came before.
void await_bell(unsigned bell) noexcept;  ///< Sleeps until it was rung, and takes the ring.
void give_way() noexcept;
void fence_all() noexcept;  ///< As membarrier(2): a full fence in each fiber.

}  // namespace gantry::orders::weak
