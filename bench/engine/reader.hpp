#pragma once  // bench/engine/reader.hpp: who reads on another core what has been moved.

#include <functional>
#include <semaphore>
#include <thread>

namespace gantry::bench {

/// A thread of its own on one CPU, asleep while there is nothing to read.
class Reader {
 public:
  struct Reading {
    std::uint64_t sum = 0;
    double ns = 0;  ///< Of the reading alone, without the waking.
  };

  explicit Reader(int cpu);
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
  ~Reader();

  /// Has it read; `read` gives a sum and must be valid until finish(), which follows.
  void start(std::function<std::uint64_t()> read);
  [[nodiscard]] Reading finish();

 private:
  void serve(int cpu);

  std::function<std::uint64_t()> read_;  // empty at a start: the end. Passed on by the semaphores.
  Reading reading_;
  std::binary_semaphore begins_{0};
  std::binary_semaphore ended_{0};
  std::jthread thread_;
};

}  // namespace gantry::bench
