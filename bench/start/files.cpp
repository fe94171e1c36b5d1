#include "files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "../support/system/buffer.hpp"
#include "../support/system/mapping.hpp"

namespace gantry::bench {

Result<Descriptor> open_to_read(const std::string& path, int flags) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | flags));
  if (!file.is_open()) return Unexpected(system_error(path));
  return file;
}

Result<void> read_at(const Descriptor& file, Bytes offset, ByteSpan bytes) {
  while (!bytes.empty()) {
    const ssize_t got = ::pread(file.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Unexpected(system_error("pread"));
    if (got == 0) return Unexpected({Code::system, "a file of the benchmark's ended", {}});
    bytes = bytes.subspan(static_cast<Bytes>(got));
    offset += static_cast<Bytes>(got);
  }
  return {};
}

Error of_file(const std::string& path, Error error) {
  if (error.code != Code::interrupted && !error.message.starts_with(path))
    error.message = fmt::format("{}: {}", path, error.message);
  return error;
}

Result<std::size_t> cached_pages(const std::string& path) {
  Descriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC));  // mincore() tells writers only
  struct stat facts{};
  if (!file.is_open() || ::fstat(file.get(), &facts) != 0) return Unexpected(system_error(path));
  const auto size = static_cast<Bytes>(facts.st_size);
  const auto mapping = Mapping::of_file(file.get(), size);
  if (!mapping) return Unexpected(mapping.error());
  std::vector<unsigned char> pages(whole_pages(size) / page_bytes());
  if (::mincore(mapping->bytes().data(), size, pages.data()) != 0)
    return Unexpected(system_error("mincore"));
  return static_cast<std::size_t>(
      std::ranges::count_if(pages, [](unsigned char page) { return (page & 1) != 0; }));
}

Result<void> make_warm(const std::string& path) {
  const auto file = open_to_read(path);
  if (!file) return Unexpected(file.error());
  std::vector<std::byte> piece(Bytes{1} << 20);
  for (;;) {
    const ssize_t got = ::read(file->get(), piece.data(), piece.size());
    if (got < 0) return Unexpected(system_error(path));
    if (got == 0) return {};
  }
}

Result<void> make_cold(const std::string& path) {
  constexpr int kTries = 5;  // a page that was read just now may be on its way to the lists
  const auto file = open_to_read(path);
  if (!file) return Unexpected(file.error());
  if (::fsync(file->get()) != 0)  // what is not written stays
    return Unexpected(system_error("fsync"));
  std::size_t left = 0;
  for (int i = 0; i < kTries; ++i) {
    const int refused = ::posix_fadvise(file->get(), 0, 0, POSIX_FADV_DONTNEED);
    if (refused != 0) return Unexpected(system_error("posix_fadvise", refused));
    const auto cached = cached_pages(path);
    if (!cached) return Unexpected(cached.error());
    left = *cached;
    if (left == 0) return {};
  }
  return Unexpected(
      {Code::unsupported,
       fmt::format("{}: no cold start: {} of its pages stay in the page cache", path, left),
       "set TMPDIR to a folder on a disk"});
}

}  // namespace gantry::bench
