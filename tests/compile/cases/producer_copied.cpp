// refused readably: use of deleted .*Producer::Producer|call to .*deleted.*constructor of .Producer
#include <gantry/gantry.hpp>

using namespace gantry;  // NOLINT: a case, not a header
Producer copy(const Producer& out) {
  return out;
}
