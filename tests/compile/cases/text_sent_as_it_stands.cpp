// refused readably: no matching (member )?function for call to .*send
#include <gantry/gantry.hpp>

using namespace gantry;  // NOLINT: a case, not a header
void send(Producer& out) {
  static_cast<void>(out.send("hello"));
}
