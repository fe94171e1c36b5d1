// refused: deleted (function|constructor)|implicitly[- ]deleted
#include <gantry/channel.hpp>

using namespace gantry;  // NOLINT: a case, not a header
void keep(Producer& out, Loan& loan) {
  static_cast<void>(out.publish(loan));
}
