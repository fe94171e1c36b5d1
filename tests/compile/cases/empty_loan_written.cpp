// refused with -Wconsumed: method 'bytes' .*'consumed' state
#include <gantry/channel.hpp>

using namespace gantry;  // NOLINT: a case, not a header
void empty() {
  const Loan loan;
  static_cast<void>(loan.bytes());
}
