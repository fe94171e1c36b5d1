#pragma once  // engine/dsa/portal.hpp: the instructions that talk to a device, on CPUs that have
              // them.

#include <chrono>
#include <cstdint>

#include "engine/dsa/descriptor.hpp"

namespace gantry::dsa {

struct PortalFeatures {
  bool movdir64b = false;
  bool enqcmd = false;
  bool waitpkg = false;  ///< UMONITOR, UMWAIT
};
[[nodiscard]] PortalFeatures portal_features() noexcept;

/// Makes earlier writes visible to the device first. Call it only where the CPU has the
/// instruction.
void publish_descriptors() noexcept;
/// True: not accepted, try again.
[[nodiscard]] bool enqcmd(void* portal, const Descriptor& descriptor) noexcept;
void movdir64b(void* portal, const Descriptor& descriptor) noexcept;

[[nodiscard]] bool can_wait_on_memory() noexcept;
/// Sleeps lightly until the record's line is written, about `most` has passed, or for no reason.
void wait_on_memory(const CompletionRecord* record, std::chrono::nanoseconds most) noexcept;

}  // namespace gantry::dsa
