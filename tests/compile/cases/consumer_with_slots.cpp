// refused: ConsumerOptions.* has no member named 'slots'|no member named 'slots' in
// .*ConsumerOptions
#include <gantry/channel.hpp>

using namespace gantry;  // NOLINT: a case, not a header
unsigned credits_of_a_consumer() {
  return ConsumerOptions{}.slots;
}
