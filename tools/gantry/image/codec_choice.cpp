#include "image/codec_choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <gantry/image.hpp>
#include <gantry/runtime.hpp>

#include "output.hpp"
#include "tools/command_line/output_file.hpp"

namespace gantry::cli {
namespace {

constexpr Bytes kSample = 48 * kImageChunkBytes;
// Below this an image is there within milliseconds either way.
constexpr Bytes kWorthAsking = 4 * kImageChunkBytes;
// What gains less is noise, and packing takes its time.
constexpr double kWorthPacking = 1.05;
constexpr std::size_t kRounds = 5;
constexpr std::int64_t kWholeGroups = 4096;  // numbers, whatever the size of a group

std::int64_t elements_of(const Tensor& tensor) noexcept {
  std::int64_t elements = 1;
  for (unsigned i = 0; i < tensor.dimensions; ++i) elements *= tensor.shape[i];
  return elements;
}

/// The first tensors, the last of them cut.
std::vector<ImageTensor> first_of(const std::vector<ImageTensor>& tensors) {
  std::vector<ImageTensor> sample;
  Bytes left = kSample;
  for (const ImageTensor& one : tensors) {
    if (one.bytes > left) {
      const double share = static_cast<double>(left) / static_cast<double>(one.bytes);
      const std::array<std::int64_t, 1> shape{
          static_cast<std::int64_t>(share * static_cast<double>(elements_of(one.tensor))) /
          kWholeGroups * kWholeGroups};
      if (shape[0] > 0)
        sample.push_back({one.name, Tensor::dense(one.tensor.type, shape), 0, 0, 0});
      break;
    }
    sample.push_back({one.name, one.tensor, 0, 0, 0});
    left -= one.bytes;
  }
  return sample;
}

/// The file has a name only as long as it takes to open it.
Result<Image> write_sample(const std::string& path, const std::vector<ImageTensor>& sample,
                           const ImageOptions& how, const ImageSource& source) {
  const auto written = write_image(path, sample, how, source);
  if (!written) return tl::unexpected(written.error());
  auto image = Image::open(path);
  std::error_code ignored;
  std::filesystem::remove(path, ignored);
  return image;
}

/// Of each image, in turns: the median. (A disk may let a first burst pass at once.)
Result<std::array<double, 2>> seconds_of(const std::array<const Image*, 2>& images) {
  LoadOptions options;
  if (auto io = make_file_io("io_uring")) options.file_io = *io;
  std::array<std::array<double, kRounds>, 2> seconds{};
  for (std::size_t round = 0; round < kRounds; ++round)
    for (std::size_t i = 0; i < images.size(); ++i) {
      const auto estimate = estimate_load(*images[i], options);
      if (!estimate) return tl::unexpected(estimate.error());
      seconds[i][round] = std::chrono::duration<double>(estimate->time).count();
    }
  for (auto& one : seconds) std::ranges::nth_element(one, one.begin() + kRounds / 2);
  return std::array<double, 2>{seconds[0][kRounds / 2], seconds[1][kRounds / 2]};
}

}  // namespace

Result<CodecDecision> decide_codec(const std::string& to, const std::vector<ImageTensor>& tensors,
                                   const ImageSource& source) {
  Bytes all = 0;
  for (const ImageTensor& one : tensors) all += one.bytes;
  if (all < kWorthAsking)
    return CodecDecision{
        Codec::none,
        fmt::format("auto: as it is: {} are loaded at once either way", format_bytes(all))};
  const std::vector<ImageTensor> sample = first_of(tensors);
  if (sample.empty()) return CodecDecision{Codec::none, "auto: as it is: no sample can be cut"};
  const std::string path = partial_path(to);
  const auto plain = write_sample(path, sample, {.codec = Codec::none}, source);
  if (!plain) return tl::unexpected(plain.error());
  const auto packed = write_sample(path, sample, {.codec = std::nullopt}, source);
  if (!packed) return tl::unexpected(packed.error());
  const auto seconds = seconds_of({&*plain, &*packed});
  if (!seconds) return tl::unexpected(seconds.error());
  const auto [plain_s, packed_s] = *seconds;
  const bool is_packed = plain_s > packed_s * kWorthPacking;
  return CodecDecision{
      is_packed ? std::nullopt : std::optional(Codec::none),
      fmt::format("auto: {}: its first {} MiB load in {:.3f} s packed, {:.3f} s as they are, here",
                  is_packed ? "packed" : "as it is", std::min(all, kSample) >> 20, packed_s,
                  plain_s)};
}

}  // namespace gantry::cli
