// refused readably: use of deleted function .*Draft::Draft|call to deleted constructor of .*Draft
#include <gantry/gantry.hpp>

using namespace gantry;  // NOLINT: a case, not a header
void send(Producer& out, Draft& draft) {
  static_cast<void>(out.send(draft));
}
