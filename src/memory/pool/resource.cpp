#include <algorithm>
#include <gantry/memory/allocator.hpp>

#include "base/assert.hpp"
#include "memory/pool/state.hpp"

namespace gantry::detail {

std::byte* allocate_detached(Pool& pool, Bytes size, Bytes alignment, Tag tag) noexcept {
  // Containers may ask for nothing and expect an address of their own. Every block has most of
  // their alignments.
  if (alignment <= Pool::kLineAlignment) alignment = 0;
  auto block = pool.allocate(std::max<Bytes>(size, 1), {alignment, tag});
  return block ? detach_for_container(std::move(*block)) : nullptr;
}

void free_detached(Pool& pool, std::byte* data) noexcept {
  if (!pool.is_of_this_process()) return;  // the parent has it
  const auto block = pool.adopt(data);
  GANTRY_ASSERT(block.has_value());  // freed twice, or memory of another pool
}

}  // namespace gantry::detail
