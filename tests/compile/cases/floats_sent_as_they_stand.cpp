// refused readably: no matching (member )?function for call to .*send
#include <gantry/gantry.hpp>

using namespace gantry;  // NOLINT: a case, not a header
void send(Producer& out, const std::vector<float>& values) {
  static_cast<void>(out.send(values));
}
