#pragma once  // tests/support/dsa/model_memory.hpp: memory as a device sees it: addresses that may
              // fault.

#include "engine/dsa/address.hpp"

namespace gantry::dsa {

/// The kernel copies within this process for us and stops at a page that is not there, may not be
/// read or may not be written, where an access of our own would be a signal. What was copied is
/// exact to the page. Ranges must not overlap. Pages of the destination are written, so that a
/// sanitizer sees it; reading the source is not seen.
[[nodiscard]] Bytes copy_mapped(Address destination, Address source, Bytes bytes) noexcept;

[[nodiscard]] bool is_readable(Address address) noexcept;

/// Errors: `unsupported` where a sandbox forbids a process to do that to itself.
[[nodiscard]] Result<void> check_copy_mapped_works();

}  // namespace gantry::dsa
