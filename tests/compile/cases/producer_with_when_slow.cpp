// refused: ProducerOptions.* has no member named 'when_slow'|no member named 'when_slow' in
// .*ProducerOptions
#include <gantry/channel.hpp>

using namespace gantry;  // NOLINT: a case, not a header
SlowConsumer policy_of_a_producer() {
  return ProducerOptions{}.when_slow;
}
