// docs/mechanisms/devices.md 1-
#include <gantry/gantry.hpp>

void run(gantry::Runtime& runtime, const gantry::ProgramSource& source, gantry::ConstByteSpan bytes,
         gantry::ByteSpan result, std::uint64_t count, gantry::Deadline deadline) {
  // snippet
}
