// refused: deleted (function|constructor)|implicitly[- ]deleted|no matching
#include <gantry/channel.hpp>

using namespace gantry;  // NOLINT: a case, not a header
void keep(Producer& out, Block& block) {
  static_cast<void>(out.send(block));
}
