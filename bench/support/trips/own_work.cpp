#include "own_work.hpp"

namespace gantry::bench {

void OwnWork::do_piece() noexcept {
  constexpr int kPasses = 64;
  for (int pass = 0; pass < kPasses; ++pass) {
    std::uint64_t carried = words_.back();
    for (std::uint64_t& word : words_) {
      carried = (carried ^ (carried >> 29)) * 0xbf58476d1ce4e5b9 + word;
      word = carried;
    }
  }
}

}  // namespace gantry::bench
