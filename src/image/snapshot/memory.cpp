#include "image/snapshot/memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <unordered_set>
#include <utility>

#include "core/base/assert.hpp"
#include "core/base/os/memfd.hpp"
#include "core/base/result.hpp"
#include "core/base/sizes.hpp"
#include "image/tables.hpp"

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
  GANTRY_DEBUG_ASSERT(page < pages());
  GANTRY_DEBUG_ASSERT(bytes.size() <= mapped_.size() - page * kPageBytes);
  if (kind() == Kind::shared) return write_at(fd_.get(), bytes, page * kPageBytes);
  std::memcpy(mapped_.data() + page * kPageBytes, bytes.data(), bytes.size());
  return {};
}

Result<void> Memory::unmap_pages() const {
  for (const int advice : {MADV_DONTNEED, MADV_DONTNEED_LOCKED})
    if (::madvise(mapped_.data(), mapped_.size(), advice) == 0) return {};
  return fail_errno("unmapping a snapshot's pages");
}

namespace {

// Linux's Documentation/admin-guide/mm/pagemap.rst: a word a page.
constexpr std::uint64_t kPresentOrSwapped = std::uint64_t{3} << 62;
constexpr std::size_t kMapWords = 4096;  // that are read at a time

// Of the thread, since the one that the process began with may have ended.
Result<Fd> open_own(const char* name) {
  const std::string path = fmt::format("/proc/thread-self/{}", name);
  Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file)
    return fail_errno(path, errno,
                      "saving what was restored needs /proc, and a process that is dumpable "
                      "(PR_SET_DUMPABLE); or restore it with RestoreOptions::record");
  return file;
}

Result<void> read_all(const Fd& file, ByteSpan into, Bytes offset) {
  while (!into.empty()) {
    const ssize_t got = ::pread(file.get(), into.data(), into.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return fail_errno("reading a snapshot's memory", got < 0 ? errno : EIO);
    offset += static_cast<Bytes>(got);
    into = into.subspan(static_cast<Bytes>(got));
  }
  return {};
}

}  // namespace

Result<MemoryReader> MemoryReader::make(const Memory& memory) {
  MemoryReader reader(memory);
  if (memory.kind() == Memory::Kind::shared) return reader;
  GANTRY_ASSIGN(reader.contents_, open_own("mem"));
  GANTRY_ASSIGN(reader.page_map_, open_own("pagemap"));
  return reader;
}

std::uint64_t MemoryReader::first_page() const noexcept {
  return reinterpret_cast<std::uintptr_t>(memory_->mapped().data()) / kPageBytes;
}

Result<void> MemoryReader::read(std::uint64_t page, ByteSpan into) const {
  if (memory_->kind() == Memory::Kind::shared)
    return read_all(memory_->fd_, into, page * kPageBytes);
  return read_all(contents_, into, (first_page() + page) * kPageBytes);
}

Result<std::uint64_t> MemoryReader::state_of(std::uint64_t page, States& states) const {
  if (page < states.page || page - states.page >= states.words.size()) {
    states.page = page;
    states.words.resize(std::min<std::uint64_t>(kMapWords, memory_->pages() - page));
    GANTRY_TRY(read_all(page_map_, std::as_writable_bytes(std::span(states.words)),
                        (first_page() + page) * sizeof page));
  }
  return states.words[page - states.page];
}

// Where few pages lie together, reading their states anew for each run takes longer than all else.
Result<Run> MemoryReader::made_from(std::uint64_t page, States& states) const {
  const std::uint64_t pages = memory_->pages();
  Run made{pages, 0, 0};
  if (memory_->kind() == Memory::Kind::shared) {
    const auto seek = [&](std::uint64_t from, int what) -> std::uint64_t {
      const off_t found = ::lseek(memory_->fd_.get(), static_cast<off_t>(from * kPageBytes), what);
      return found < 0 ? pages : static_cast<Bytes>(found) / kPageBytes;
    };
    if (page < pages) made.page = seek(page, SEEK_DATA);
    if (made.page < pages) made.pages = seek(made.page, SEEK_HOLE) - made.page;
    return made;
  }
  for (std::uint64_t at = page; at < pages; ++at) {
    GANTRY_ASSIGN(const std::uint64_t state, state_of(at, states));
    const bool is_made = (state & kPresentOrSwapped) != 0;
    if (is_made && made.pages++ == 0) made.page = at;
    if (!is_made && made.pages != 0) return made;
  }
  return made;
}

namespace {

constexpr unsigned kPlaceBits = 32;
static_assert(kMostPages <= std::uint64_t{1} << kPlaceBits);

Result<void> check_run(std::uint64_t page, std::uint64_t count, std::uint64_t pages) {
  if (page >= pages || count > pages - page)
    return fail(Code::invalid_argument,
                count == 1 ? fmt::format("page {}: there are {} pages, from 0 on", page, pages)
                           : fmt::format("{} pages from {} on: there are {}", count, page, pages));
  return {};
}

std::uint64_t end_of(const PageMap::PageRun& run) noexcept {
  return run[0] + run[1];
}

}  // namespace

Result<PageMap> PageMap::make(std::uint64_t pages, std::span<const std::uint64_t> touched,
                              std::span<const PageRun> runs) {
  PageMap map;
  map.touched_ = touched;
  map.runs_ = runs;
  map.by_page_.reserve(touched.size());
  for (const std::uint64_t page : touched) {
    GANTRY_TRY(check_run(page, 1, pages));
    map.by_page_.push_back(page << kPlaceBits | map.by_page_.size());
  }
  map.run_at_.reserve(runs.size());
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const auto& [page, count] = runs[i];
    if (count == 0) return fail(Code::invalid_argument, fmt::format("0 pages from {} on", page));
    if (i != 0 && page < end_of(runs[i - 1]))
      return fail(Code::invalid_argument, fmt::format("page {} does not follow", page));
    GANTRY_TRY(check_run(page, count, pages));
    map.run_at_.push_back(static_cast<std::uint32_t>(map.rest_pages_));
    map.rest_pages_ += count;
  }
  std::ranges::sort(map.by_page_);
  GANTRY_TRY(map.check_once());
  return map;
}

Result<void> PageMap::check_once() const {
  auto run = runs_.begin();
  for (std::size_t i = 0; i < by_page_.size(); ++i) {
    const std::uint64_t page = by_page_[i] >> kPlaceBits;
    while (run != runs_.end() && end_of(*run) <= page) ++run;
    const bool is_in_run = run != runs_.end() && (*run)[0] <= page;
    if (is_in_run || (i != 0 && by_page_[i - 1] >> kPlaceBits == page))
      return fail(Code::invalid_argument, fmt::format("page {} is there twice", page));
  }
  return {};
}

std::optional<PageMap::Place> PageMap::find(std::uint64_t page) const noexcept {
  const auto touched = std::ranges::lower_bound(by_page_, page << kPlaceBits);
  if (touched != by_page_.end() && *touched >> kPlaceBits == page)
    return Place{Part::first, static_cast<std::uint32_t>(*touched)};
  const auto behind =
      std::ranges::upper_bound(runs_, page, {}, [](const PageRun& run) { return run[0]; });
  if (behind == runs_.begin() || end_of(*std::prev(behind)) <= page) return std::nullopt;
  const auto run = static_cast<std::size_t>(std::prev(behind) - runs_.begin());
  return Place{Part::rest, run_at_[run] + (page - runs_[run][0])};
}

std::vector<Run> PageMap::runs_of(Part part, std::uint64_t at, std::uint64_t pages) const {
  GANTRY_DEBUG_ASSERT(at <= pages_of(part));
  std::vector<Run> found;
  const std::uint64_t end = at + std::min(pages, pages_of(part) - at);
  if (part == Part::first) {
    for (std::uint64_t place = at; place < end; ++place) {
      if (found.empty() || found.back().page + found.back().pages != touched_[place])
        found.push_back({touched_[place], 0, place});
      ++found.back().pages;
    }
    return found;
  }
  auto run = static_cast<std::size_t>(std::ranges::upper_bound(run_at_, at) - run_at_.begin());
  for (run -= run == 0 ? 0 : 1; run < runs_.size() && run_at_[run] < end; ++run) {
    const std::uint64_t begin = std::max<std::uint64_t>(run_at_[run], at);
    const std::uint64_t behind = std::min(run_at_[run] + runs_[run][1], end);
    found.push_back({runs_[run][0] + (begin - run_at_[run]), behind - begin, begin});
  }
  return found;
}

}  // namespace gantry::snapshot
