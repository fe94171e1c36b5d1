#include "engine/dsa/portal.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace gantry::dsa {

#if defined(__x86_64__)

PortalFeatures portal_features() noexcept {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return {};
  return {.movdir64b = (ecx >> 28 & 1) != 0,
          .enqcmd = (ecx >> 29 & 1) != 0,
          .waitpkg = (ecx >> 5 & 1) != 0};
}

void publish_descriptors() noexcept {
  _mm_sfence();
}

__attribute__((target("enqcmd"))) bool enqcmd(void* portal, const Descriptor& descriptor) noexcept {
  return _enqcmd(portal, &descriptor) != 0;
}

__attribute__((target("movdir64b"))) void movdir64b(void* portal,
                                                    const Descriptor& descriptor) noexcept {
  _movdir64b(portal, &descriptor);
}

bool can_wait_on_memory() noexcept {
  static const bool can = portal_features().waitpkg;
  return can;
}

// The monitor is armed before the last look: a write between the two ends the wait at once. The
// kernel bounds the wait, too (umwait_control, 100 us by default). C0.1: it leaves quickest.
__attribute__((target("waitpkg"))) void wait_on_memory(const CompletionRecord* record,
                                                       std::chrono::nanoseconds most) noexcept {
  auto* line = const_cast<CompletionRecord*>(record);  // UMONITOR writes nothing
  _umonitor(line);
  if (load_status(*line) != 0) return;
  constexpr std::uint64_t kTicksPerNs = 2;  // about; a bound, not a clock
  _umwait(1, __rdtsc() + static_cast<std::uint64_t>(most.count()) * kTicksPerNs);
}

#else

PortalFeatures portal_features() noexcept {
  return {};
}
void publish_descriptors() noexcept {}
bool enqcmd(void*, const Descriptor&) noexcept {
  return true;
}
void movdir64b(void*, const Descriptor&) noexcept {}
bool can_wait_on_memory() noexcept {
  return false;
}
void wait_on_memory(const CompletionRecord*, std::chrono::nanoseconds) noexcept {}

#endif

}  // namespace gantry::dsa
