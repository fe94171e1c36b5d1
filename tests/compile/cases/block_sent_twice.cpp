// refused with -Wconsumed: expected 'unconsumed', observed 'consumed'
#include <gantry/channel.hpp>

using namespace gantry;  // NOLINT: a case, not a header
void twice(Producer& out, Block block) {
  static_cast<void>(out.send(std::move(block)));
  static_cast<void>(out.send(std::move(block)));
}
