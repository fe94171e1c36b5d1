// refused with -Wconsumed: method 'bytes' .*'consumed' state
#include <gantry/channel.hpp>

using namespace gantry;  // NOLINT: a case, not a header
void late(Producer& out) {
  Loan loan = out.loan(10).value();
  static_cast<void>(out.publish(std::move(loan)));
  loan.bytes()[0] = std::byte{1};
}
