#pragma once  // base/os/mapped.hpp: tells whether memory is mapped.

#include <sys/mman.h>

#include <cerrno>
#include <gantry/types.hpp>

#include "core/base/sizes.hpp"

namespace gantry {

/// False if a page of it is not mapped. True where a filter refuses to let the kernel say.
[[nodiscard]] inline bool is_mapped(ConstByteSpan memory) noexcept {
  const auto begin = reinterpret_cast<std::uintptr_t>(memory.data()) / page_bytes() * page_bytes();
  const auto end = reinterpret_cast<std::uintptr_t>(memory.data()) + memory.size();
  // NOLINTNEXTLINE(performance-no-int-to-ptr): page arithmetic
  const int said = ::msync(reinterpret_cast<void*>(begin), end - begin, MS_ASYNC);
  return end >= begin && (said == 0 || errno != ENOMEM);
}

}  // namespace gantry
