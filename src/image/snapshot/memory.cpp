#include "image/snapshot/memory.hpp"

#include <sys/mman.h>

#include <cstring>
#include <unordered_set>
#include <utility>

#include "base/memfd.hpp"
#include "base/result.hpp"
#include "base/sizes.hpp"
#include "image/layout.hpp"

// Of kernels newer than the headers: Linux 5.18.
#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif

namespace gantry::snapshot {
namespace {

constexpr int kUsable = PROT_READ | PROT_WRITE;

constexpr std::uint64_t pages_of(Bytes bytes) noexcept {
  return (bytes + kPageBytes - 1) / kPageBytes;
}

tl::unexpected<Error> not_mapped(Bytes bytes) {
  return fail_errno(fmt::format("mapping {} bytes", bytes), errno,
                    "free memory, or raise the limit (ulimit -v, ulimit -d)");
}

}  // namespace

Result<std::uint64_t> count_pages(std::span<const SnapshotRegion> regions) {
  std::unordered_set<std::string_view> names;
  std::uint64_t pages = 0;
  if (regions.empty() || regions.size() > kMostRegions)
    return fail(Code::invalid_argument,
                fmt::format("{} regions, of 1 to {}", regions.size(), kMostRegions));
  for (std::size_t i = 0; i < regions.size(); ++i) {
    const auto place = [&] { return fmt::format("region {}", i); };
    if (const auto name = image::check_name(regions[i].name); !name)
      return fail(Code::invalid_argument, fmt::format("{}: {}", place(), name.error().message),
                  name.error().hint);
    if (!names.insert(regions[i].name).second)
      return fail(Code::invalid_argument, place() + ": another region has its name");
    if (regions[i].bytes == 0) return fail(Code::invalid_argument, place() + ": it has 0 bytes");
    if (regions[i].bytes > (kMostPages - pages) * kPageBytes)
      return fail(Code::too_large, place() + ": a snapshot has at most 4 TiB");
    pages += pages_of(regions[i].bytes);
  }
  return pages;
}

// Pages that are made before somebody watches are of zeros. mlockall(MCL_FUTURE) makes all of a
// mapping that may be touched and has a size: shared memory gets its size when it is mapped, own
// memory may be touched when it is watched.
Result<Memory> Memory::make(std::vector<SnapshotRegion> regions, Kind kind) {
  if (page_bytes() != kPageBytes)
    return fail(Code::unsupported,
                fmt::format("a snapshot's pages have {} bytes, this machine's {}", kPageBytes,
                            page_bytes()));
  GANTRY_ASSIGN(const std::uint64_t pages, count_pages(regions));
  Memory memory;
  memory.regions_ = std::move(regions);
  const Bytes bytes = pages * kPageBytes;
  if (kind == Kind::shared) {
    GANTRY_ASSIGN(memory.fd_, make_memfd("snapshot", 0));
  }
  void* const at =
      kind == Kind::shared
          ? ::mmap(nullptr, bytes, kUsable, MAP_SHARED, memory.fd_.get(), 0)
          : ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return not_mapped(bytes);
  memory.mapped_ = {static_cast<std::byte*>(at), bytes};
  std::uint64_t page = 0;
  for (const SnapshotRegion& one : memory.regions_) {
    memory.by_name_[one.name] = memory.mapped_.subspan(page * kPageBytes, one.bytes);
    page += pages_of(one.bytes);
  }
  if (kind == Kind::shared) {
    GANTRY_TRY(set_file_size(memory.fd_.get(), bytes, fmt::format("memfd of {} bytes", bytes)));
    GANTRY_TRY(seal(memory.fd_.get(), kSizeSeals));
  }
  if (::madvise(at, bytes, MADV_DONTFORK) != 0) return fail_errno("keeping memory from children");
  return memory;
}

Result<void> Memory::open() const {
  if (kind() == Kind::own && ::mprotect(mapped_.data(), mapped_.size(), kUsable) != 0)
    return not_mapped(mapped_.size());
  return {};
}

Memory::Memory(Memory&& other) noexcept
    : regions_(std::move(other.regions_)),
      by_name_(std::move(other.by_name_)),
      fd_(std::move(other.fd_)),
      mapped_(std::exchange(other.mapped_, {})) {}

Memory::~Memory() {
  if (!mapped_.empty()) ::munmap(mapped_.data(), mapped_.size());
}

void Memory::forget_mapping() noexcept {
  by_name_.clear();
  mapped_ = {};
}

Result<ByteSpan> Memory::region(std::string_view name) const {
  if (const auto found = by_name_.find(name); found != by_name_.end()) return found->second;
  return fail(Code::not_found, fmt::format("the snapshot has no region '{}'", name));
}

std::string Memory::name_of(std::uint64_t page) const {
  for (const SnapshotRegion& one : regions_) {
    if (page < pages_of(one.bytes)) return fmt::format("page {} of '{}'", page, one.name);
    page -= pages_of(one.bytes);
  }
  return fmt::format("page {}, behind all regions", page);
}

Result<void> Memory::write(std::uint64_t page, ConstByteSpan bytes) const {
  if (kind() == Kind::shared) return write_at(fd_.get(), bytes, page * kPageBytes);
  std::memcpy(mapped_.data() + page * kPageBytes, bytes.data(), bytes.size());
  return {};
}

Result<void> Memory::unmap_pages() const {
  for (const int advice : {MADV_DONTNEED, MADV_DONTNEED_LOCKED})
    if (::madvise(mapped_.data(), mapped_.size(), advice) == 0) return {};
  return fail_errno("unmapping a snapshot's pages");
}

}  // namespace gantry::snapshot
