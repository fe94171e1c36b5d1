// refused with -Wconsumed: method 'bytes' .*'consumed' state
#include <gantry/channel.hpp>

using namespace gantry;  // NOLINT: a case, not a header
void late(Producer& out, Block block) {
  static_cast<void>(out.send(std::move(block)));
  block.bytes()[0] = std::byte{1};
}
