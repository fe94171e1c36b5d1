// malloc: what memory costs that no device knows.

#include <cstdlib>

#include "subjects.hpp"

namespace gantry::bench {
namespace {

constexpr Bytes kYardstick = 64;

/// `kSize`: of every block; 0: what the pattern asks for.
template <Bytes kSize>
class HeapHand {
 public:
  struct Held {
    void* memory = nullptr;
    explicit operator bool() const noexcept { return memory != nullptr; }
  };

  bool acquire(Bytes size, Held& held) {
    held.memory = std::malloc(kSize != 0 ? kSize : size);
    if (held.memory == nullptr) return false;
    *static_cast<std::byte*>(held.memory) = std::byte{1};
    keep(held.memory);
    return true;
  }
  void release(Held& held) {
    std::free(held.memory);
    held.memory = nullptr;
  }
  [[nodiscard]] static Error error() { return {Code::out_of_memory, "malloc: no memory", ""}; }
};

template <Bytes kSize>
Result<std::unique_ptr<Runner>> open(const Setup& setup) {
  using Hand = HeapHand<kSize>;
  return std::make_unique<PatternRunner<Hand>>(setup.pattern, setup.threads, setup.cpus,
                                               [](unsigned) { return Hand(); });
}

}  // namespace

Result<std::unique_ptr<Runner>> open_malloc(const Setup& setup) {
  return open<0>(setup);
}

Result<std::unique_ptr<Runner>> open_malloc_64(const Setup& setup) {
  return open<kYardstick>(setup);
}

}  // namespace gantry::bench
