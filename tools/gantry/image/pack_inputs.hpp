#pragma once  // tools/gantry/image/pack_inputs.hpp: what `gantry pack` packs.

#include <gantry/shape.hpp>
#include <memory>
#include <optional>

#include "image/tensor_files.hpp"

namespace gantry::cli {

/// The tensors of all of `paths`, in that order; a folder's files in the order of their names,
/// without those that are hidden or, by their names (*.partial-PID), not finished.
/// `described` are the tensors of files that say nothing of themselves, one behind the other in
/// these; such a file without any is a tensor of bytes with its name. Errors name the file.
[[nodiscard]] Result<std::vector<FileTensor>> gather_inputs(const std::vector<std::string>& paths,
                                                            std::vector<FileTensor> described);

/// Gives the bytes of tensors in files, as an ImageSource, and notices files that change.
class InputReader {
 public:
  /// `as`: what floating-point numbers become. Errors: a conversion that there is not.
  [[nodiscard]] static Result<InputReader> make(std::vector<FileTensor> inputs,
                                                std::optional<DataType> as);
  InputReader(InputReader&&) noexcept;
  InputReader& operator=(InputReader&&) noexcept;
  ~InputReader();

  /// As they will be in the image; all in partition 0.
  [[nodiscard]] std::vector<ImageTensor> tensors() const;
  /// The file that it is in, if there are so many.
  [[nodiscard]] std::optional<std::string> path_of(std::size_t tensor) const;
  [[nodiscard]] Result<void> read(std::size_t tensor, Bytes from, ByteSpan into);

 private:
  struct Impl;
  explicit InputReader(std::unique_ptr<Impl> impl) noexcept;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gantry::cli
