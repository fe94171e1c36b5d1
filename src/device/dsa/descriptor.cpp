#include "device/dsa/descriptor.hpp"

#include <utility>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace gantry::dsa {

std::string_view to_string(Status status) noexcept {
  using enum Status;
  static constexpr std::pair<Status, std::string_view> kTexts[] = {
      {none, "not finished"},
      {success, "done"},
      {success_with_predicate, "done, but the result is not the expected one"},
      {page_fault,
       "a page was not present; only part was done and the rest can be submitted again"},
      {page_fault_unresolved,
       "a page was not present and the kernel could not supply it; only part was done"},
      {batch_failed, "an operation of the batch did not succeed"},
      {batch_page_fault,
       "a page of the batch's list was not present; the rest can be submitted again"},
      {bad_opcode, "the device or this queue does not know the operation, or not inside a batch"},
      {bad_flags, "a flag is not possible with this operation or on this queue"},
      {reserved_not_zero, "a reserved field is not zero"},
      {size_out_of_range, "the size is zero or above the queue's max_transfer_size"},
      {count_out_of_range,
       "the batch has too few descriptors or more than the queue's max_batch_size"},
      {overlap, "the ranges overlap, which this operation forbids"},
      {dualcast_misaligned, "the two destinations differ in their offset within a 4 KiB page"},
      {list_misaligned, "the batch's list is not aligned to 64 bytes"},
      {bad_interrupt_handle, "the interrupt asked for is not the process's"},
      {completion_not_translated, "the completion record's address is not mapped or not writable"},
      {completion_misaligned, "the completion record is not aligned to 32 bytes"},
  };
  for (const auto& [known, text] : kTexts)
    if (known == status) return text;
  return "a status unknown to this version";
}

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
