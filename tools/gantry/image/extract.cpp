#include "image/extract.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "image/tensor_files.hpp"
#include "tools/command_line/output_file.hpp"
#include "tools/command_line/progress.hpp"

namespace gantry::cli {
namespace {

/// Errors: what is extracted would replace the image that it comes from.
Result<void> check_target(const std::string& path, const FileFacts& image) {
  const auto there = facts_of_file(path);
  if (!there || there->device != image.device || there->inode != image.inode) return {};
  return refuse(path + ": it is the image that is to be extracted",
                "name another file, or another folder");
}

/// A file's ending that is none of ours, where no such folder is: somebody meant a file.
Result<void> check_folder(const std::string& path) {
  std::error_code unknown;
  const std::string ending = std::filesystem::path(path).extension().string();
  const bool is_ending = ending.size() > 1 && std::isalpha(static_cast<unsigned char>(ending[1]));
  if (!is_ending || std::filesystem::is_directory(path, unknown)) return {};
  return refuse(fmt::format("{}: files *{} cannot be made", path, ending),
                fmt::format("name a file *.safetensors or *.npy; {}/ is a folder", path));
}

class Extractor {
 public:
  Extractor(Image& image, const FileFacts& file, std::span<const ImageTensor* const> tensors,
            const std::string& to, const Interrupt& interrupt)
      : image_(image),
        image_file_(file),
        tensors_(tensors),
        to_(to),
        interrupt_(interrupt),
        buffer_(kImageChunkBytes) {
    for (const ImageTensor* const one : tensors) all_ += one->bytes;
  }

  /// `header`, then the bytes of these.
  Result<void> to_file(const std::string& path, std::string_view header,
                       std::span<const ImageTensor* const> tensors) {
    if (auto fine = check_target(path, image_file_); !fine) return fine;
    const auto target = OutputFile::at(path);
    if (!target) return tl::unexpected(target.error());
    auto file = OutputWriter::open(*target);
    if (!file) return tl::unexpected(file.error());
    if (auto done = file->write(header); !done) return done;
    for (const ImageTensor* const one : tensors)
      if (auto done = copy(*one, *file); !done) return done;
    return file->keep();
  }

  Result<void> to_folder(const std::string& path) {
    if (auto fine = check_folder(path); !fine) return fine;
    std::error_code why;
    std::filesystem::create_directories(path, why);
    if (why)
      return refuse(fmt::format("{}: {}", path, why.message()),
                    why == std::errc::not_a_directory
                        ? "name a folder, or a file *.safetensors or *.npy"
                        : "name a folder that can be made",
                    Code::system);
    for (const ImageTensor* const one : tensors_)  // before anything is written
      if (auto fine = check_target(in_folder(path, *one), image_file_); !fine) return fine;
    for (const ImageTensor* const& one : tensors_)
      if (auto done = to_file(in_folder(path, *one), {}, {&one, 1}); !done) return done;
    return {};
  }

 private:
  static std::string in_folder(const std::string& path, const ImageTensor& tensor) {
    return fmt::format("{}/{}", path, tensor.name);
  }

  // In pieces that end where chunks do, so that none is unpacked twice.
  Result<void> copy(const ImageTensor& tensor, OutputWriter& file) {
    for (Bytes at = 0; at < tensor.bytes;) {
      if (interrupt_.raised()) return refuse("interrupted", {}, Code::interrupted);
      progress_.show(to_, static_cast<double>(done_) / static_cast<double>(all_));
      const Bytes from = tensor.offset + at;
      const Bytes bytes = std::min(tensor.bytes - at, kImageChunkBytes - from % kImageChunkBytes);
      const ByteSpan piece = ByteSpan(buffer_).first(bytes);
      if (auto read = image_.read(tensor.partition, from, piece); !read) return read;
      if (auto written = file.write(piece); !written) return written;
      at += bytes;
      done_ += bytes;
    }
    return {};
  }

  Image& image_;
  FileFacts image_file_;
  std::span<const ImageTensor* const> tensors_;
  const std::string& to_;
  const Interrupt& interrupt_;
  std::vector<std::byte> buffer_;
  Progress progress_{"extracting"};
  Bytes all_ = 0, done_ = 0;
};

}  // namespace

Result<void> extract(const std::string& from, Image& image,
                     std::span<const ImageTensor* const> tensors, const std::string& to,
                     const Interrupt& interrupt) {
  const auto file = facts_of_file(from);
  if (!file) return tl::unexpected(file.error());
  Extractor extractor(image, *file, tensors, to, interrupt);
  if (!to.ends_with(".safetensors") && !to.ends_with(".npy")) return extractor.to_folder(to);
  if (to.ends_with(".npy") && tensors.size() != 1)
    return refuse(fmt::format("{}: a file of numpy's has one tensor, not {}", to, tensors.size()),
                  "say which: --tensor NAME");
  const auto header =
      to.ends_with(".npy") ? npy_header(*tensors.front()) : safetensors_header(tensors);
  if (!header) return tl::unexpected(header.error());
  return extractor.to_file(to, *header, tensors);
}

}  // namespace gantry::cli
