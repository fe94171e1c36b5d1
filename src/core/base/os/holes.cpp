#include "core/base/os/holes.hpp"
#include "core/base/sizes.hpp"

#include <sys/stat.h>
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

constexpr off_t kBlockBytes = 512;  // of st_blocks, whatever the file system's are
constexpr Bytes kWorthAsking = Bytes{1} << 20;

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

// Pages of [offset, offset + size) that are there, swapped out or not; `size` 0: to the last.
std::optional<std::uint64_t> pages_in(int descriptor, Bytes offset, Bytes size) noexcept {
  CacheRange range{offset, size};
  CacheCounts counts{};
  if (::syscall(SYS_cachestat, descriptor, &range, &counts, 0) != 0) return std::nullopt;
  return counts.cached + counts.evicted;
}

std::optional<Bytes> holes_by_counting(int descriptor, Bytes offset, Bytes size) noexcept {
  const auto page = page_bytes();
  const Bytes first = offset / page;
  const Bytes pages = (offset + size + page - 1) / page - first;
  const auto there = pages_in(descriptor, first * page, pages * page);
  if (!there) return std::nullopt;
  return (pages - std::min<Bytes>(pages, *there)) * page;
}

// By the kernel's own count of a file's pages, without a walk over them, which takes 30 ms for
// 4 GiB. There may be pages behind the file's end (fallocate): those would make up for holes.
bool is_all_there(int descriptor) noexcept {
  struct stat facts{};
  if (::fstat(descriptor, &facts) != 0 || facts.st_blocks * kBlockBytes < facts.st_size)
    return false;
  const auto behind = pages_in(descriptor, static_cast<Bytes>(facts.st_size), 0);
  return behind && *behind == 0;
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
  if (size == 0 || (size >= kWorthAsking && is_all_there(descriptor))) return 0;
  const auto counted = holes_by_counting(descriptor, offset, size);
  return counted ? *counted : holes_by_seeking(descriptor, offset, size);
}

}  // namespace gantry
