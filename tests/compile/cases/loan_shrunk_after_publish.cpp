// refused with -Wconsumed: method 'shrink' .*'consumed' state
#include <gantry/channel.hpp>

using namespace gantry;  // NOLINT: a case, not a header
void late(Producer& out, Loan loan) {
  static_cast<void>(out.publish(std::move(loan)));
  loan.shrink(1);
}
