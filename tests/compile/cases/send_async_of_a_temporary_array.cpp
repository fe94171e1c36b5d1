// refused readably: send_async.. reads the payload after it has returned: pass memory that lives
#include <gantry/gantry.hpp>

using namespace gantry;  // NOLINT: a case, not a header
void send(Producer& out) {
  static_cast<void>(out.send_async(std::array<std::byte, 100>{}));
}
