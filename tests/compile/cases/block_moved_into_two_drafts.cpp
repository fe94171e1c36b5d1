// refused with -Wconsumed: expected 'unconsumed', observed 'consumed'
#include <gantry/channel.hpp>

using namespace gantry;  // NOLINT: a case, not a header
void twice(Draft& one, Draft& other, Block block) {
  one.move(std::move(block));
  other.move(std::move(block));
}
