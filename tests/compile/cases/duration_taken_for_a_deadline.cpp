// refused readably: cannot convert .* to .gantry::Deadline|no viable conversion from .*Deadline
#include <gantry/gantry.hpp>

using namespace gantry;  // NOLINT: a case, not a header
void receive(Consumer& in) {
  static_cast<void>(in.receive(std::chrono::seconds(1)));
}
