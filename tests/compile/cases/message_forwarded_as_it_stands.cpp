// refused: deleted (function|constructor)|implicitly[- ]deleted
#include <gantry/channel.hpp>

using namespace gantry;  // NOLINT: a case, not a header
void keep(Draft& draft, Message& message) {
  draft.forward(message);
}
