// README.md 1-49
#include <gantry/gantry.hpp>

void render(gantry::ByteSpan to);

void run(gantry::Bytes bytes, gantry::ConstByteSpan my_bytes) {
  // snippet
}
