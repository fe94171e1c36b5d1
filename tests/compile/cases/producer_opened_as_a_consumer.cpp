// refused: no matching function|could not convert|cannot convert|invalid initialization
#include <gantry/channel.hpp>

using namespace gantry;  // NOLINT: a case, not a header
Result<Producer> open(const ConsumerOptions& options, std::shared_ptr<Engine> engine) {
  return Producer::open("frames", options, std::move(engine));
}
