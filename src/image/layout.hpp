#pragma once  // image/layout.hpp: where tensors and chunks lie; writer and reader work it out
              // alike.

#include <gantry/image.hpp>
#include <unordered_set>

namespace gantry::image {

/// Of a tensor, or of what is called as one. Errors: `invalid_argument`.
[[nodiscard]] Result<void> check_name(std::string_view name);

/// Lays tensors out one behind the other, and their chunks.
class Layout {
 public:
  /// Sets offset and bytes. Errors, which name no tensor: a name that no tensor may have or that
  /// another has, a tensor without a size, a partition that does not follow, too much in all.
  [[nodiscard]] Result<void> add(ImageTensor& tensor);

  /// With the chunks of those before. One at least, unless nothing was added.
  [[nodiscard]] const std::vector<ImagePartition>& partitions() const noexcept {
    return partitions_;
  }
  [[nodiscard]] std::size_t chunks() const noexcept;
  [[nodiscard]] Bytes raw_bytes() const noexcept;

 private:
  std::vector<ImagePartition> partitions_;
  std::unordered_set<std::string> names_;
};

/// What an image consists of.
struct Tables {
  std::vector<ImagePartition> partitions;
  std::vector<ImageTensor> tensors;
  std::vector<ImageChunk> chunks;
};

}  // namespace gantry::image
