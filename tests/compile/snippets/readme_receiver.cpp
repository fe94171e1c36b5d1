// README.md 60-
#include <gantry/gantry.hpp>

void use(gantry::ConstByteSpan bytes);

void run() {
  // snippet
}
