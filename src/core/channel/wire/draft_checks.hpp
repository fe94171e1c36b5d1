#pragma once  // channel/wire/draft_checks.hpp: what is refused of a send over every transport.

#include <gantry/channel.hpp>

#include "core/base/result.hpp"

namespace gantry {

[[nodiscard]] inline Result<void> check_mode(SendMode mode) {
  if (mode <= SendMode::immutable) return {};
  return fail(Code::invalid_argument,
              fmt::format("no send mode has the number {}", static_cast<int>(mode)));
}

[[nodiscard]] inline Error at_nullptr(ConstByteSpan payload) {
  return {Code::invalid_argument, fmt::format("a payload of {} bytes at nullptr", payload.size()),
          "pass the address of its bytes, or an empty payload"};
}

[[nodiscard]] inline Result<void> check_segments(std::size_t count) {
  if (count <= kMaxSegments) return {};
  return fail(Code::too_large,
              fmt::format("{} segments; at most {} are possible", count, kMaxSegments));
}

/// Of a part that is a block. What an allocator gave to a container is as large as its capacity:
/// the rest of it is the pool's leftovers.
[[nodiscard]] inline Result<void> check_block_size(const Draft::Part& part) {
  const Bytes size = part.block.bytes().size();
  const bool is_unsized = part.needs_size && !part.size;
  if (part.size <= size && !is_unsized) return {};
  return fail(
      Code::invalid_argument,
      is_unsized ? fmt::format("that block of {} bytes is a container's, which may fill less", size)
                 : fmt::format("{} bytes of a block of {}", *part.size, size),
      "give the size of what is in it: Draft::move(block, bytes)");
}

}  // namespace gantry
