// refused: read-only|const
#include <gantry/channel.hpp>

using namespace gantry;  // NOLINT: a case, not a header
void write(const Message& message) {
  message.bytes()[0] = std::byte{1};
}
