#include "base/holes.hpp"
#include "base/sizes.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <optional>

#ifndef SYS_cachestat
#define SYS_cachestat 451  // the same on every architecture
#endif

namespace gantry {
namespace {

// From <linux/mman.h>, since Linux 6.5.
struct CacheRange {
  std::uint64_t offset;
  std::uint64_t length;
};
struct CacheCounts {
  std::uint64_t cached;
  std::uint64_t dirty;
  std::uint64_t in_writeback;
  std::uint64_t evicted;  // for shared memory: swapped out
  std::uint64_t recently_evicted;
};

std::optional<Bytes> holes_by_counting(int descriptor, Bytes offset, Bytes size) noexcept {
  const auto page = page_bytes();
  const Bytes first = offset / page;
  const Bytes pages = (offset + size + page - 1) / page - first;
  CacheRange range{first * page, pages * page};
  CacheCounts counts{};
  if (::syscall(SYS_cachestat, descriptor, &range, &counts, 0) != 0) return std::nullopt;
  return (pages - std::min<Bytes>(pages, counts.cached + counts.evicted)) * page;
}

}  // namespace

// This moves a position that is shared with all that have the descriptor; nobody uses it.
Bytes holes_by_seeking(int descriptor, Bytes offset, Bytes size) noexcept {
  const auto end = static_cast<off_t>(offset + size);
  auto at = static_cast<off_t>(offset);
  Bytes holes = 0;
  while (at < end) {
    const off_t hole = ::lseek(descriptor, at, SEEK_HOLE);
    if (hole < 0 || hole >= end) break;
    const off_t data = ::lseek(descriptor, hole, SEEK_DATA);  // none left: an error
    at = data < 0 || data > end ? end : data;
    holes += static_cast<Bytes>(at - hole);
  }
  return holes;
}

Bytes holes_in(int descriptor, Bytes offset, Bytes size) noexcept {
  if (size == 0) return 0;
  const auto counted = holes_by_counting(descriptor, offset, size);
  return counted ? *counted : holes_by_seeking(descriptor, offset, size);
}

}  // namespace gantry
