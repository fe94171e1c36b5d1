#include "image/snapshot/memory.hpp"

#include <sys/mman.h>

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

constexpr std::uint64_t pages_of(Bytes bytes) noexcept {
  return (bytes + kPageBytes - 1) / kPageBytes;
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

Result<Memory> Memory::make(std::vector<SnapshotRegion> regions) {
  if (page_bytes() != kPageBytes)
    return fail(Code::unsupported,
                fmt::format("a snapshot's pages have {} bytes, this machine's {}", kPageBytes,
                            page_bytes()));
  GANTRY_ASSIGN(const std::uint64_t pages, count_pages(regions));
  Memory memory;
  memory.regions_ = std::move(regions);
  const Bytes bytes = pages * kPageBytes;
  // It gets its size when it is mapped: else mlockall(MCL_FUTURE) would make all pages, of zeros.
  GANTRY_ASSIGN(memory.fd_, make_memfd("snapshot", 0));
  void* const at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory.fd_.get(), 0);
  if (at == MAP_FAILED)
    return fail_errno(fmt::format("mapping {} bytes", bytes), errno,
                      "free memory, or raise the limit (ulimit -v)");
  memory.mapped_ = {static_cast<std::byte*>(at), bytes};
  GANTRY_TRY(set_file_size(memory.fd_.get(), bytes, fmt::format("memfd of {} bytes", bytes)));
  GANTRY_TRY(seal(memory.fd_.get(), kSizeSeals));
  if (::madvise(at, bytes, MADV_DONTFORK) != 0) return fail_errno("keeping memory from children");
  return memory;
}

Memory::Memory(Memory&& other) noexcept
    : regions_(std::move(other.regions_)),
      fd_(std::move(other.fd_)),
      mapped_(std::exchange(other.mapped_, {})) {}

Memory::~Memory() {
  if (!mapped_.empty()) ::munmap(mapped_.data(), mapped_.size());
}

void Memory::forget_mapping() noexcept {
  mapped_ = {};
}

Result<ByteSpan> Memory::region(std::string_view name) const {
  std::uint64_t page = 0;
  for (const SnapshotRegion& one : regions_) {
    if (one.name == name) return mapped_.subspan(page * kPageBytes, one.bytes);
    page += pages_of(one.bytes);
  }
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
  return write_at(fd_.get(), bytes, page * kPageBytes);
}

Result<void> Memory::read(std::uint64_t page, ByteSpan into) const {
  Bytes offset = page * kPageBytes;
  while (!into.empty()) {
    const ssize_t got = ::pread(fd_.get(), into.data(), into.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return fail_errno("reading a snapshot's memory", got < 0 ? errno : EIO);
    offset += static_cast<Bytes>(got);
    into = into.subspan(static_cast<Bytes>(got));
  }
  return {};
}

Run Memory::made_from(std::uint64_t page) const noexcept {
  const auto seek = [&](std::uint64_t from, int what) -> std::uint64_t {
    const off_t found = ::lseek(fd_.get(), static_cast<off_t>(from * kPageBytes), what);
    return found < 0 ? pages() : static_cast<Bytes>(found) / kPageBytes;
  };
  const std::uint64_t begin = page < pages() ? seek(page, SEEK_DATA) : pages();
  return {begin, begin < pages() ? seek(begin, SEEK_HOLE) - begin : 0, 0};
}

Result<void> Memory::unmap_pages() const {
  for (const int advice : {MADV_DONTNEED, MADV_DONTNEED_LOCKED})
    if (::madvise(mapped_.data(), mapped_.size(), advice) == 0) return {};
  return fail_errno("unmapping a snapshot's pages");
}

}  // namespace gantry::snapshot
