#include "pattern.hpp"

#include <random>

namespace gantry::bench {

std::size_t Pattern::alive(unsigned threads) const noexcept {
  if (kind == Kind::fixed) return 1;
  return kind == Kind::random ? kWindow : blocks / threads;
}

std::size_t Pattern::steps(unsigned threads) const noexcept {
  if (kind == Kind::many) return alive(threads);
  return kind == Kind::fixed ? 1 : kSizes;
}

Bytes Pattern::footprint(unsigned threads) const noexcept {
  return bytes * alive(threads) * threads;
}

std::vector<Bytes> random_sizes(Bytes most, unsigned thread) {
  std::minstd_rand random(thread + 1);  // its sequence is the language's, the same everywhere
  std::vector<Bytes> sizes(Pattern::kSizes);
  // Not by a distribution: those differ from library to library.
  for (Bytes& size : sizes) size = 1 + random() % most;
  return sizes;
}

}  // namespace gantry::bench
