#pragma once  // engine/dsa/model_memory.hpp: memory as a device sees it: addresses that may fault.

#include <gantry/types.hpp>

namespace gantry::dsa {

/// Addresses are a device's: plain numbers of this process, mapped or not.
using Address = std::uint64_t;

[[nodiscard]] inline Address address_of(const void* memory) noexcept {
  return reinterpret_cast<Address>(memory);
}

/// The kernel copies within this process for us and stops at a page that is not there, may not be
/// read or may not be written, where an access of our own would be a signal. What was copied is
/// exact to the page. Ranges must not overlap. Pages of the destination are written, so that a
/// sanitizer sees it; reading the source is not seen.
[[nodiscard]] Bytes copy_mapped(Address destination, Address source, Bytes bytes) noexcept;

[[nodiscard]] bool is_readable(Address address) noexcept;

/// How far from `address` on (or before it) it is to the end of its page; never zero.
[[nodiscard]] Bytes left_in_page(Address address) noexcept;
[[nodiscard]] Bytes left_before_in_page(Address end) noexcept;

/// Errors: `unsupported` where a sandbox forbids a process to do that to itself.
[[nodiscard]] Result<void> check_copy_mapped_works();

}  // namespace gantry::dsa
