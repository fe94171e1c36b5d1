#pragma once  // bench/start/weights.hpp: tensors that are spread as trained weights are, in the
              // files that a start reads.

#include <array>
#include <string>
#include <vector>

#include "../support/system/posix.hpp"

namespace gantry::bench {

struct WeightTensor {
  std::string name;
  Bytes offset = 0;  ///< In the safetensors file.
  Bytes bytes = 0;
  std::uint64_t sum = 0;  ///< continued_sum() of 0 and all of them.
};

/// The sum of more bytes behind those that gave `sum`: of each 4 KiB the sum of its words, times
/// powers of an odd number, so that no page may change its place. Parts but the last are multiples
/// of 4 KiB.
[[nodiscard]] std::uint64_t continued_sum(std::uint64_t sum, ConstByteSpan bytes) noexcept;

/// The same tensors in each.
enum class WeightFile : std::uint8_t {
  safetensors,
  plain,   ///< An image, not packed.
  packed,  ///< An image, as `gantry pack --codec smallest` packs it.
};

/// bf16 numbers around 0, whose deviation is 0.01 to 0.04 and differs from tensor to tensor. The
/// same for each call.
class Weights {
 public:
  /// Makes the files in that folder. The last of the tensors has what is left over. Errors:
  /// `interrupted`, `system`.
  [[nodiscard]] static Result<Weights> make(const std::string& folder, Bytes total,
                                            std::size_t tensors, int interrupt_descriptor);

  [[nodiscard]] const std::vector<WeightTensor>& tensors() const noexcept { return tensors_; }
  [[nodiscard]] Bytes bytes() const noexcept { return bytes_; }  ///< Of all tensors.
  [[nodiscard]] const std::string& folder() const noexcept { return folder_; }
  [[nodiscard]] std::string path(WeightFile file) const;
  /// Of the safetensors file.
  [[nodiscard]] Bytes file_bytes() const noexcept {
    return tensors_.back().offset + tensors_.back().bytes;
  }

 private:
  explicit Weights(std::string folder) : folder_(std::move(folder)) {}
  void lay_out(Bytes total, std::size_t count);
  [[nodiscard]] std::string header() const;
  Result<void> write_safetensors(int interrupt_descriptor);
  Result<void> write_images(int interrupt_descriptor);

  std::string folder_;
  std::vector<WeightTensor> tensors_;
  Bytes bytes_ = 0;
};

}  // namespace gantry::bench
