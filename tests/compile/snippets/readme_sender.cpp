// README.md 1-59
#include <gantry/gantry.hpp>

void render(gantry::ByteSpan to);

void run(gantry::Bytes bytes, gantry::ConstByteSpan my_vector_as_bytes) {
  // snippet
}
