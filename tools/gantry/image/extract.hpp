#pragma once  // tools/gantry/image/extract.hpp: an image's tensors as files.

#include <gantry/image.hpp>

#include "interrupt.hpp"

namespace gantry::cli {

/// `from`: the file that `image` was opened at. `to` ends in ".safetensors": one file of all
/// `tensors`; in ".npy": one of the only tensor; else it is a folder, which is made if need be, of
/// files with the tensors' names and bytes. A file that is there is replaced when the new one is
/// whole. Errors: the image's, the disk's; the image would be replaced; `interrupted`.
[[nodiscard]] Result<void> extract(const std::string& from, Image& image,
                                   std::span<const ImageTensor* const> tensors,
                                   const std::string& to, const Interrupt& interrupt);

}  // namespace gantry::cli
