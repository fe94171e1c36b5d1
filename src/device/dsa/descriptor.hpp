#pragma once  // dsa/descriptor.hpp: descriptors and completion records of Intel DSA, byte for byte,
              // and the instructions that carry them.

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <gantry/types.hpp>
#include <string>
#include <string_view>

namespace gantry::dsa {

/// A plain number of this process, mapped or not.
using Address = std::uint64_t;

[[nodiscard]] inline Address address_of(const void* memory) noexcept {
  return reinterpret_cast<Address>(memory);
}

// The device's formats, as <linux/idxd.h> has them. They are written out here so that everything
// but the two submission instructions builds and is tested on machines that lack that header.

enum class Opcode : std::uint8_t { noop = 0x00, batch = 0x01, memmove = 0x03, memfill = 0x04 };

/// Options of a descriptor beside its operation: 24 bits, joined with `|`.
enum class Flags : std::uint32_t {
  none = 0,
  fence = 0x0001,           ///< In a batch: begins after all before it, and only if those
                            ///< succeeded.
  block_on_fault = 0x0002,  ///< The device waits until the kernel has resolved a page fault.
  completion_valid = 0x0004,
  request_completion = 0x0008,  ///< Asks for a record also on success; it is written on failure
                                ///< anyway.
  request_interrupt = 0x0010,
  check_result = 0x0080,  ///< Status 2 rather than 1 when the result is not the expected one.
  cache_control = 0x0100,
  destination_readback = 0x4000,
};
inline constexpr std::uint32_t kFlagBits = 0xff'ffff;
[[nodiscard]] constexpr Flags operator|(Flags a, Flags b) noexcept {
  return static_cast<Flags>(static_cast<std::uint32_t>(a) | static_cast<std::uint32_t>(b));
}
[[nodiscard]] constexpr Flags operator&(Flags a, Flags b) noexcept {
  return static_cast<Flags>(static_cast<std::uint32_t>(a) & static_cast<std::uint32_t>(b));
}
[[nodiscard]] constexpr Flags without(Flags all, Flags some) noexcept {
  return static_cast<Flags>(static_cast<std::uint32_t>(all) & ~static_cast<std::uint32_t>(some));
}
[[nodiscard]] constexpr bool has(Flags all, Flags one) noexcept {
  return (all & one) == one;
}

/// How an operation ended; 0 until it has.
enum class Status : std::uint8_t {
  none = 0x00,
  success = 0x01,
  success_with_predicate = 0x02,
  page_fault = 0x03,
  page_fault_unresolved = 0x04,
  batch_failed = 0x05,
  batch_page_fault = 0x06,
  bad_opcode = 0x10,
  bad_flags = 0x11,
  reserved_not_zero = 0x12,
  size_out_of_range = 0x13,
  count_out_of_range = 0x14,
  overlap = 0x16,
  dualcast_misaligned = 0x17,
  list_misaligned = 0x18,
  bad_interrupt_handle = 0x19,
  completion_not_translated = 0x1a,
  completion_misaligned = 0x1b,
};
inline constexpr std::uint8_t kStatusMask = 0x7f;
inline constexpr std::uint8_t kStatusWrite = 0x80;  ///< The page fault was a write.
[[nodiscard]] constexpr Status status_in(std::uint8_t raw) noexcept {
  return static_cast<Status>(raw & kStatusMask);
}
/// Says what the status means, not the name of the constant.
[[nodiscard]] std::string_view to_string(Status status) noexcept;

/// One request. Bit fields are spelled as words, so that the layout is the same for every compiler.
struct alignas(64) Descriptor {
  std::uint32_t owner = 0;    ///< 0-19 address space (set by the kernel or ENQCMD), 31 privileged
  std::uint32_t control = 0;  ///< 0-23 flags, 24-31 opcode
  std::uint64_t completion = 0;  ///< address of the record, a multiple of 32
  std::uint64_t source = 0;      ///< or the fill pattern, or the address of a batch's list
  std::uint64_t destination = 0;
  std::uint32_t size = 0;  ///< bytes, or the descriptors of a batch
  std::uint16_t interrupt_handle = 0;
  std::uint16_t reserved = 0;
  std::array<std::uint64_t, 3> extra{};  ///< of other operations

  [[nodiscard]] constexpr Opcode opcode() const noexcept {
    return static_cast<Opcode>(control >> 24);
  }
  [[nodiscard]] constexpr Flags flags() const noexcept {
    return static_cast<Flags>(control & kFlagBits);
  }
  constexpr void set(Opcode opcode, Flags flags) noexcept {
    control =
        static_cast<std::uint32_t>(opcode) << 24 | (static_cast<std::uint32_t>(flags) & kFlagBits);
  }
};
static_assert(sizeof(Descriptor) == 64);
static_assert(alignof(Descriptor) == 64);
static_assert(offsetof(Descriptor, owner) == 0);
static_assert(offsetof(Descriptor, control) == 4);
static_assert(offsetof(Descriptor, completion) == 8);
static_assert(offsetof(Descriptor, source) == 16);
static_assert(offsetof(Descriptor, destination) == 24);
static_assert(offsetof(Descriptor, size) == 32);
static_assert(offsetof(Descriptor, interrupt_handle) == 36);
static_assert(offsetof(Descriptor, reserved) == 38);
static_assert(offsetof(Descriptor, extra) == 40);

/// One answer. Zero it before its descriptor is submitted; read `status` by load_status() first.
struct alignas(32) CompletionRecord {
  std::uint8_t status = 0;
  std::uint8_t result = 0;  ///< partial move: 1 done from the tail
  std::uint16_t reserved = 0;
  std::uint32_t bytes_completed = 0;  ///< or the descriptors of a batch; nothing on plain success
  std::uint64_t fault_address = 0;
  std::array<std::uint64_t, 2> extra{};  ///< first word: the bad flags (0-23)
};
static_assert(sizeof(CompletionRecord) == 32);
static_assert(alignof(CompletionRecord) == 32);
static_assert(offsetof(CompletionRecord, status) == 0);
static_assert(offsetof(CompletionRecord, result) == 1);
static_assert(offsetof(CompletionRecord, bytes_completed) == 4);
static_assert(offsetof(CompletionRecord, fault_address) == 8);
static_assert(offsetof(CompletionRecord, extra) == 16);
static_assert(std::atomic_ref<std::uint8_t>::is_always_lock_free);  // the device takes no lock

// Pair [C]: everything that the operation wrote, the rest of its record included, comes before its
// status.
/// For the waiter. Not const only because atomic_ref has no const form before C++26.
[[nodiscard]] inline std::uint8_t load_status(CompletionRecord& record) noexcept {
  return std::atomic_ref(record.status).load(std::memory_order_acquire);  // [C]
}
/// For the device.
inline void store_status(CompletionRecord& record, std::uint8_t status) noexcept {
  std::atomic_ref(record.status).store(status, std::memory_order_release);  // [C]
}
/// Call it before the descriptor is submitted. Somebody may still look at the status meanwhile,
/// believing that the last descriptor is not over: wait_on_memory().
inline void clear(CompletionRecord& record) noexcept {
  record.result = 0;
  record.reserved = 0;
  record.bytes_completed = 0;
  record.fault_address = 0;
  record.extra = {};
  // Relaxed: whoever looks meanwhile reads nothing else.
  std::atomic_ref(record.status).store(0, std::memory_order_relaxed);
}

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
