// refused: ProducerOptions.* has no member named 'depth'|no member named 'depth' in
// .*ProducerOptions
#include <gantry/channel.hpp>

using namespace gantry;  // NOLINT: a case, not a header
unsigned depth_of_a_producer() {
  return ProducerOptions{}.depth;
}
