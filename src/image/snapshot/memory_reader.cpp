#include "image/snapshot/memory_reader.hpp"

#include <fcntl.h>

#include <algorithm>

#include "base/result.hpp"

namespace gantry::snapshot {
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

}  // namespace gantry::snapshot
