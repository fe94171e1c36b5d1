// refused with -Wconsumed: in the 'consumed' state|expected 'unconsumed', observed 'consumed'
#include <gantry/channel.hpp>

using namespace gantry;  // NOLINT: a case, not a header
void twice(Producer& out, Loan loan) {
  static_cast<void>(out.publish(std::move(loan)));
  static_cast<void>(out.publish(std::move(loan)));
}
