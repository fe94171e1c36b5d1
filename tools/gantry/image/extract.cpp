#include "image/extract.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <filesystem>

#include "errors.hpp"
#include "image/tensor_files.hpp"
#include "tools/command_line/output_file.hpp"
#include "tools/command_line/progress.hpp"

namespace gantry::cli {
namespace {

/// A file that is written from front to back.
class Writing {
 public:
  static Result<Writing> at(const std::string& path) {
    auto file = OutputFile::at(path);
    if (!file) return tl::unexpected(file.error());
    Writing writing(std::move(*file));
    writing.descriptor_ = writing.file_.open();
    if (writing.descriptor_ < 0) return tl::unexpected(system_error(path, errno));
    return writing;
  }
  Writing(Writing&& other) noexcept
      : file_(std::move(other.file_)), descriptor_(std::exchange(other.descriptor_, -1)) {}
  Writing& operator=(Writing&&) = delete;
  ~Writing() {
    if (descriptor_ < 0) return;
    ::close(descriptor_);
    file_.drop();
  }

  Result<void> write(ConstByteSpan bytes) {
    while (!bytes.empty()) {
      const ssize_t done = ::write(descriptor_, bytes.data(), bytes.size());
      if (done < 0 && errno == EINTR) continue;
      if (done < 0) return tl::unexpected(system_error(file_.target(), errno, "make room"));
      bytes = bytes.subspan(static_cast<Bytes>(done));
    }
    return {};
  }
  Result<void> keep() {
    if (::close(std::exchange(descriptor_, -1)) == 0) return file_.keep();
    const int why = errno;
    file_.drop();
    return tl::unexpected(system_error(file_.target(), why));
  }

 private:
  explicit Writing(OutputFile file) : file_(std::move(file)) {}
  OutputFile file_;
  int descriptor_ = -1;
};

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
  Extractor(Image& image, std::span<const ImageTensor* const> tensors, const std::string& to,
            const Interrupt& interrupt)
      : image_(image),
        tensors_(tensors),
        to_(to),
        interrupt_(interrupt),
        buffer_(kImageChunkBytes) {
    for (const ImageTensor* const one : tensors) all_ += one->bytes;
  }

  /// `header`, then the bytes of these.
  Result<void> to_file(const std::string& path, std::string_view header,
                       std::span<const ImageTensor* const> tensors) {
    auto file = Writing::at(path);
    if (!file) return tl::unexpected(file.error());
    if (auto done = file->write(std::as_bytes(std::span(header))); !done) return done;
    for (const ImageTensor* const one : tensors)
      if (auto done = copy(*one, *file); !done) return done;
    return file->keep();
  }

  Result<void> to_folder(const std::string& path) {
    if (auto fine = check_folder(path); !fine) return fine;
    std::error_code why;
    std::filesystem::create_directories(path, why);
    if (why) return refuse(fmt::format("{}: {}", path, why.message()), {}, Code::system);
    for (const ImageTensor* const& one : tensors_)
      if (auto done = to_file(fmt::format("{}/{}", path, one->name), {}, {&one, 1}); !done)
        return done;
    return {};
  }

 private:
  // In pieces that end where chunks do, so that none is unpacked twice.
  Result<void> copy(const ImageTensor& tensor, Writing& file) {
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
  std::span<const ImageTensor* const> tensors_;
  const std::string& to_;
  const Interrupt& interrupt_;
  std::vector<std::byte> buffer_;
  Progress progress_{"extracting"};
  Bytes all_ = 0, done_ = 0;
};

}  // namespace

Result<void> extract(Image& image, std::span<const ImageTensor* const> tensors,
                     const std::string& to, const Interrupt& interrupt) {
  Extractor extractor(image, tensors, to, interrupt);
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
