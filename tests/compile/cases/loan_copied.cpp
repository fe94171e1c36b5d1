// refused: deleted (function|constructor)|implicitly[- ]deleted
#include <gantry/channel.hpp>

using namespace gantry;  // NOLINT: a case, not a header
Loan copy(const Loan& loan) {
  return loan;
}
