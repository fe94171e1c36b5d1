#pragma once  // tools/gantry/image/tensor_files.hpp: tensors as files of other programs have them.

#include <gantry/image.hpp>
#include <optional>
#include <string>
#include <vector>

namespace gantry::cli {

/// By what a file is known again; if it was replaced or written meanwhile, they differ.
struct FileFacts {
  Bytes bytes = 0;
  std::uint64_t device = 0, inode = 0;
  std::int64_t seconds = 0, nanoseconds = 0;  ///< When it was written last.
  friend bool operator==(const FileFacts&, const FileFacts&) = default;
};
/// Errors: it is no regular file; the kernel's.
[[nodiscard]] Result<FileFacts> facts_of_file(const std::string& path);
[[nodiscard]] Result<FileFacts> facts_of_file(int file, const std::string& path);  ///< An open one.

/// A tensor that lies in a file, row-major, without gaps.
struct FileTensor {
  std::string name;
  Tensor tensor;
  std::string path;  ///< Of the file.
  FileFacts file;    ///< Before anything of it was read.
  Bytes offset = 0;  ///< Of its first byte.
  Bytes bytes = 0;
};

[[nodiscard]] inline tl::unexpected<Error> refuse(std::string message, std::string hint = {},
                                                  Code code = Code::invalid_argument) {
  return tl::unexpected(Error{code, std::move(message), std::move(hint)});
}

/// Large and small letters are the same.
[[nodiscard]] bool has_ending(std::string_view path, std::string_view ending) noexcept;
/// Bytes [from, from + bytes) of a file, at most `bytes`. Errors: the kernel's.
[[nodiscard]] Result<std::string> read_part(const std::string& path, Bytes from, Bytes bytes);

/// "bf16", "i64", "bool": also what no reshape knows.
[[nodiscard]] std::string type_name(DataType type);
[[nodiscard]] std::string shape_text(const Tensor& tensor);  ///< "[2, 3]"
/// Reads "NAME=f32[2,3]". Errors: `invalid_argument`.
[[nodiscard]] Result<FileTensor> parse_tensor(std::string_view text);

/// The tensors of a safetensors file, in the order of their bytes. Errors name the file and, where
/// one is wrong, the tensor.
[[nodiscard]] Result<std::vector<FileTensor>> read_safetensors(const std::string& path);
/// The files that an index (*.safetensors.index.json) names, in its folder, and their tensors,
/// which must be those of the index.
[[nodiscard]] Result<std::vector<FileTensor>> read_safetensors_index(const std::string& path);
/// What precedes the bytes of these tensors, which then follow without gaps. Errors: a type that
/// such files do not have.
[[nodiscard]] Result<std::string> safetensors_header(std::span<const ImageTensor* const> tensors);

/// Errors: the file is a pointer of git-lfs, which stands where a file should be.
[[nodiscard]] Result<void> check_is_no_pointer(const std::string& path);
/// What a file of another program's is whose tensors are not read (*.npz, *.pt, *.gguf), and how
/// they become readable. Nothing: it is none that is known.
[[nodiscard]] std::optional<Error> foreign_format(const std::string& path);

/// The tensor of a file of numpy's, named as the file without its ending.
[[nodiscard]] Result<FileTensor> read_npy(const std::string& path);
[[nodiscard]] Result<std::string> npy_header(const ImageTensor& tensor);

}  // namespace gantry::cli
