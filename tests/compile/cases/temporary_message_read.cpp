// refused: name the message first: it must outlive its bytes
#include <gantry/gantry.hpp>

std::size_t sum(gantry::Consumer& in) {
  std::size_t sum = 0;
  for (const std::byte value : gantry::must(in.receive()).bytes()) sum += std::size_t(value);
  return sum;
}
