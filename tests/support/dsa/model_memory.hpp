#pragma once  // tests/support/dsa/model_memory.hpp: memory as a device sees it: addresses that may
              // fault.

#include "core/base/sizes.hpp"
#include "device/dsa/descriptor.hpp"

namespace gantry::dsa {

/// Bytes from `address` to the end of its page (or from its page's begin to `end`); never zero.
[[nodiscard]] inline Bytes left_in_page(Address address) noexcept {
  return page_bytes() - address % page_bytes();
}
[[nodiscard]] inline Bytes left_before_in_page(Address end) noexcept {
  return (end - 1) % page_bytes() + 1;
}

/// The kernel copies within this process for us and stops at a page that is not there, may not be
/// read or may not be written, where an access of our own would be a signal. What was copied is
/// exact to the page. Ranges must not overlap. Pages of the destination are written, so that a
/// sanitizer sees it; reading the source is not seen.
[[nodiscard]] Bytes copy_mapped(Address destination, Address source, Bytes bytes) noexcept;

[[nodiscard]] bool is_readable(Address address) noexcept;

/// Errors: `unsupported` where a sandbox forbids a process to do that to itself.
[[nodiscard]] Result<void> check_copy_mapped_works();

}  // namespace gantry::dsa
