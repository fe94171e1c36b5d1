#include "reader.hpp"

#include <chrono>

#include "../support/system/cpus.hpp"

namespace gantry::bench {

Reader::Reader(int cpu) : thread_([this, cpu] { serve(cpu); }) {}

Reader::~Reader() {
  start({});
}

void Reader::start(std::function<std::uint64_t()> read) {
  read_ = std::move(read);
  begins_.release();
}

Reader::Reading Reader::finish() {
  ended_.acquire();
  return reading_;
}

void Reader::serve(int cpu) {
  static_cast<void>(pin(cpu));  // a wish: the CPU was allowed when the program began
  while (true) {
    begins_.acquire();
    if (!read_) return;
    const auto begin = std::chrono::steady_clock::now();
    reading_.sum = read_();
    const auto end = std::chrono::steady_clock::now();
    reading_.ns = std::chrono::duration<double, std::nano>(end - begin).count();
    ended_.release();
  }
}

}  // namespace gantry::bench
