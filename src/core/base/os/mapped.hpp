#pragma once  // base/os/mapped.hpp: tells whether memory is mapped.

#include <sys/mman.h>
#include <unistd.h>

#include <gantry/types.hpp>

#include "core/base/sizes.hpp"

namespace gantry {

/// True if every page of it is mapped. For explaining why the kernel refused it.
[[nodiscard]] inline bool is_mapped(ConstByteSpan memory) noexcept {
  const auto page = page_bytes();
  const auto begin = reinterpret_cast<std::uintptr_t>(memory.data()) / page * page;
  const auto end = reinterpret_cast<std::uintptr_t>(memory.data()) + memory.size();
  // NOLINTNEXTLINE(performance-no-int-to-ptr): page arithmetic
  return ::msync(reinterpret_cast<void*>(begin), end - begin, MS_ASYNC) == 0;
}

}  // namespace gantry
