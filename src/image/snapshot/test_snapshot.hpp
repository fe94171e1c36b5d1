#pragma once  // snapshot/test_snapshot.hpp: snapshots of known content.

#include <gantry/snapshot.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "core/base/result.hpp"
#include "image/snapshot/memory.hpp"
#include "image/test_image.hpp"

namespace gantry::test {

using snapshot::kPageBytes;
inline constexpr std::uint64_t kChunkPages = kImageChunkBytes / kPageBytes;

/// Random pages, pages that pack, and pages of zeros, a few of each behind each other.
inline void fill(ByteSpan memory, unsigned seed) {
  std::mt19937_64 random(seed);
  for (Bytes at = 0; at < memory.size();) {
    const Bytes pages = 1 + random() % 40;
    const auto kind = random() % 3;
    const ByteSpan part = memory.subspan(at, std::min(pages * kPageBytes, memory.size() - at));
    if (kind == 0) fill_randomly(part, random());
    if (kind == 1) std::memset(part.data(), 1 + static_cast<int>(random() % 200), part.size());
    at += part.size();
  }
}

/// Pages [0, all), some of them, in any order.
inline std::vector<std::uint64_t> some_pages(std::uint64_t all, std::uint64_t count,
                                             unsigned seed) {
  std::vector<std::uint64_t> pages(all);
  for (std::uint64_t i = 0; i < all; ++i) pages[i] = i;
  std::shuffle(pages.begin(), pages.end(), std::mt19937_64(seed));
  pages.resize(count);
  return pages;
}

inline Data copy_of(ConstByteSpan bytes) {
  return {bytes.begin(), bytes.end()};
}

/// Without userfaultfd for a process without rights (a container's profile) nothing is lazy.
inline RestoreOptions lazily(std::shared_ptr<FileIo> file_io = {}, unsigned workers = 0) {
  return {.lazy = Lazy::require,
          .own_accesses_only = true,
          .file_io = std::move(file_io),
          .workers = workers};
}

class Snapshots : public ::testing::Test {
 protected:
  /// Of one region "heap" of so many pages, each of which says its number.
  void save_numbered(std::uint64_t pages, std::vector<std::uint64_t> touched = {},
                     const ImageOptions& packing = {}) {
    Snapshot made =
        must(Snapshot::create(std::vector<SnapshotRegion>{{"heap", pages * kPageBytes}}));
    const ByteSpan memory = must(made.region("heap"));
    for (std::uint64_t page = 0; page < pages; ++page)
      std::memcpy(memory.data() + page * kPageBytes, page_numbered(page).data(), kPageBytes);
    must(made.save(path_, {.packing = packing, .touched = std::move(touched)}));
  }
  static Data page_numbered(std::uint64_t page) {
    Data bytes(kPageBytes);
    const std::uint64_t number = page + 1;
    std::memcpy(bytes.data(), &number, sizeof number);
    return bytes;
  }
  static std::uint64_t number_at(ConstByteSpan memory, std::uint64_t page) {
    std::uint64_t number = 0;
    std::memcpy(&number, memory.data() + page * kPageBytes, sizeof number);
    return number;
  }
  static ::testing::AssertionResult are_numbered(const Snapshot& snapshot) {
    const ConstByteSpan memory = must(snapshot.region("heap"));
    for (std::uint64_t page = 0; page < memory.size() / kPageBytes; ++page)
      if (number_at(memory, page) != page + 1)
        return ::testing::AssertionFailure()
               << "page " << page << " is " << number_at(memory, page);
    return ::testing::AssertionSuccess();
  }
  /// Offset in the file of the chunk with this page of a part.
  [[nodiscard]] Bytes offset_of(unsigned partition, std::uint64_t page) const {
    const Image image = must(Image::open(path_));
    const std::size_t chunk =
        image.partitions()[partition].first_chunk + page * kPageBytes / kImageChunkBytes;
    return image.chunks()[chunk].offset;
  }
  [[nodiscard]] bool begins_chunk(Bytes offset) const {
    const Image image = must(Image::open(path_));
    return std::ranges::find(image.chunks(), offset, &ImageChunk::offset) != image.chunks().end();
  }

  Folder folder_;
  std::string path_ = folder_.file("heap.gimg");
};

}  // namespace gantry::test
