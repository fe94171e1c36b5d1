// README.md 51-
#include <gantry/gantry.hpp>

void use(gantry::ConstByteSpan bytes);

void run() {
  // snippet
}
