// refused: deleted (function|constructor)|implicitly[- ]deleted
#include <gantry/channel.hpp>

using namespace gantry;  // NOLINT: a case, not a header
Block copy(const Block& block) {
  return block;
}
