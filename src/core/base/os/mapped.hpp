#pragma once  // base/os/mapped.hpp: tells whether memory is mapped.

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <gantry/types.hpp>

#include "core/base/sizes.hpp"

namespace gantry {

/// False if a page of it is not mapped, or if it goes beyond the last address. True, too, where the
/// kernel does not answer: a filter may refuse msync().
[[nodiscard]] inline bool is_mapped(ConstByteSpan memory) noexcept {
  const auto page = page_bytes();
  const auto begin = reinterpret_cast<std::uintptr_t>(memory.data()) / page * page;
  const auto end = reinterpret_cast<std::uintptr_t>(memory.data()) + memory.size();
  if (end < begin) return false;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): page arithmetic
  return ::msync(reinterpret_cast<void*>(begin), end - begin, MS_ASYNC) == 0 || errno != ENOMEM;
}

}  // namespace gantry
