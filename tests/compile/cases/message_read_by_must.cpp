// accepted: the result has a name, and so the message outlives its bytes
#include <gantry/gantry.hpp>

std::size_t sum(gantry::Consumer& in) {
  std::size_t sum = 0;
  auto message = in.receive();
  for (const std::byte value : gantry::must(message).bytes()) sum += std::size_t(value);
  return sum + gantry::must(message).segment(0).bytes.size();
}
