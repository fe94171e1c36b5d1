#pragma once  // base/test_failing_heap.hpp: a heap that fails. Replaces operator new of the program
              // whose one source includes this.

#include <cstddef>
#include <cstdlib>
#include <new>
#include <utility>

namespace gantry::test {

/// The calling thread's heap fails after `good` uses: once, or as long as this lives.
class FailingHeap {
 public:
  FailingHeap(long good, bool stays_empty) noexcept {
    good_ = good;
    stays_empty_ = stays_empty;
    has_failed_ = false;
  }
  ~FailingHeap() { good_ = -1; }
  FailingHeap(const FailingHeap&) = delete;
  FailingHeap& operator=(const FailingHeap&) = delete;
  [[nodiscard]] bool has_failed() const noexcept { return has_failed_; }

  /// It does not fail as long as this lives.
  class Paused {
   public:
    Paused() noexcept : good_(std::exchange(FailingHeap::good_, -1)) {}
    ~Paused() { FailingHeap::good_ = good_; }
    Paused(const Paused&) = delete;
    Paused& operator=(const Paused&) = delete;

   private:
    const long good_;
  };

  [[nodiscard]] static void* allocate(std::size_t size, std::size_t alignment) {
    void* const memory =
        must_fail() ? nullptr
                    : std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
    if (memory == nullptr) throw std::bad_alloc();
    return memory;
  }

 private:
  [[nodiscard]] static bool must_fail() noexcept {
    if (good_ != 0) {
      good_ -= good_ > 0 ? 1 : 0;
      return false;
    }
    has_failed_ = true;
    if (!stays_empty_) good_ = -1;
    return true;
  }
  static inline thread_local long good_ = -1;  // negative: it does not fail
  static inline thread_local bool stays_empty_ = false;
  static inline thread_local bool has_failed_ = false;
};

}  // namespace gantry::test

// Not inlined: the compiler would take malloc() for the wrong partner of delete.
#define GANTRY_APART __attribute__((noinline))
GANTRY_APART void* operator new(std::size_t size) {
  return gantry::test::FailingHeap::allocate(size, alignof(std::max_align_t));
}
GANTRY_APART void* operator new(std::size_t size, std::align_val_t alignment) {
  return gantry::test::FailingHeap::allocate(size, static_cast<std::size_t>(alignment));
}
GANTRY_APART void operator delete(void* memory) noexcept {
  std::free(memory);
}
GANTRY_APART void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
GANTRY_APART void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
GANTRY_APART void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
