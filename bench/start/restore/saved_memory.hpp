#pragma once  // bench/start/restore/saved_memory.hpp: a memory in each file that a way of restoring
              // it reads.

#include <map>
#include <span>
#include <vector>

#include "contents.hpp"

namespace gantry::bench {

inline constexpr Bytes kPage = 4096;

enum class MemoryFile : std::uint8_t {
  raw,          ///< All of it; pages of zeros are holes.
  plain_image,  ///< As Snapshot::save() writes it, the working set first; not packed.
  image,        ///< The same packed by lz4.
  small_image,  ///< The same by zstd, of level 1.
  working_set,  ///< Its pages, raw, in their order.
};

class SavedMemory {
 public:
  /// Makes it, and the files in that folder. Errors: those of `contents`; `system`.
  [[nodiscard]] static Result<SavedMemory> make(const std::string& folder, const Contents& contents,
                                                const ContentOrder& order);

  [[nodiscard]] std::string path(MemoryFile file) const;
  [[nodiscard]] Bytes bytes() const noexcept { return bytes_; }  ///< In whole pages.
  [[nodiscard]] Bytes nonzero_bytes() const noexcept {
    return (working_set_.size() + rest_.size()) * kPage;
  }
  /// Of the file.
  [[nodiscard]] Bytes stored_bytes(MemoryFile image) const { return image_bytes_.at(image); }
  [[nodiscard]] Bytes working_set_bytes() const noexcept { return working_set_.size() * kPage; }
  /// Page numbers of a tenth of the pages that are not zero, in the order of touching: clusters of
  /// 1 to 16 such pages that follow each other, from anywhere.
  [[nodiscard]] std::span<const std::uint64_t> working_set() const noexcept { return working_set_; }
  /// The others that are not zero, each from anywhere.
  [[nodiscard]] std::span<const std::uint64_t> rest() const noexcept { return rest_; }
  /// continued_sum() of the working set, in its order.
  [[nodiscard]] std::uint64_t working_sum() const noexcept { return working_sum_; }
  /// The same of everything.
  [[nodiscard]] std::uint64_t sum() const noexcept { return sum_; }

 private:
  explicit SavedMemory(std::string folder) : folder_(std::move(folder)) {}
  void choose_pages(ConstByteSpan memory);
  Result<void> save(const Snapshot& memory, MemoryFile image, const ImageOptions& packing);
  Result<void> write_files(ConstByteSpan memory) const;

  std::string folder_;
  Bytes bytes_ = 0;
  std::map<MemoryFile, Bytes> image_bytes_;
  std::vector<std::uint64_t> working_set_;
  std::vector<std::uint64_t> rest_;
  std::uint64_t working_sum_ = 0;
  std::uint64_t sum_ = 0;
};

}  // namespace gantry::bench
