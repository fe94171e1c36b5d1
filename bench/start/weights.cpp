#include "weights.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <gantry/image.hpp>
#include <random>

#include "../support/system/buffer.hpp"
#include "../support/system/interrupt.hpp"
#include "files.hpp"

namespace gantry::bench {
namespace {

constexpr std::uint64_t kSeed = 22;
constexpr Bytes kSummed = 4096;
constexpr Bytes kPiece = Bytes{1} << 20;
constexpr Bytes kNumber = sizeof(std::uint16_t);

/// The upper half of a float, rounded to the nearest, ties to even.
std::uint16_t bf16_of(float number) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(number);
  return static_cast<std::uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

/// Draws from 65,536 normal numbers, which takes a nanosecond for each.
class NormalNumbers {
 public:
  NormalNumbers() : values_(std::size_t{1} << 16) {
    std::normal_distribution<float> normal;
    for (float& value : values_) value = normal(random_);
  }
  /// Between 0.01 and 0.04, most often about 0.02.
  float next_deviation() {
    std::uniform_real_distribution<float> exponent(-1, 1);
    return 0.02F * std::exp2(exponent(random_));
  }
  void fill(ByteSpan bytes, float deviation) {
    std::uint64_t drawn = 0;
    for (Bytes at = 0; at < bytes.size(); at += kNumber, drawn >>= 16) {
      if (at % sizeof drawn == 0) drawn = random_();
      const std::uint16_t number = bf16_of(deviation * values_[drawn & 0xffff]);
      std::memcpy(bytes.data() + at, &number, kNumber);
    }
  }

 private:
  std::mt19937_64 random_{kSeed};
  std::vector<float> values_;
};

}  // namespace

std::uint64_t continued_sum(std::uint64_t sum, ConstByteSpan bytes) noexcept {
  constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15;
  for (; !bytes.empty(); bytes = bytes.subspan(std::min(kSummed, bytes.size())))
    sum = sum * kOdd + checksum(bytes.first(std::min(kSummed, bytes.size())));
  return sum;
}

Result<Weights> Weights::make(const std::string& folder, Bytes total, std::size_t tensors,
                              int interrupt_descriptor) {
  Weights weights(folder);
  weights.lay_out(total, tensors);
  if (auto written = weights.write_safetensors(interrupt_descriptor); !written)
    return Unexpected(of_file(weights.path(WeightFile::safetensors), written.error()));
  if (auto written = weights.write_images(interrupt_descriptor); !written)
    return Unexpected(written.error());
  return weights;
}

std::string Weights::path(WeightFile file) const {
  constexpr std::array kNames = {"weights.safetensors", "plain.gimg", "packed.gimg"};
  return fmt::format("{}/{}", folder_, kNames.at(static_cast<std::size_t>(file)));
}

void Weights::lay_out(Bytes total, std::size_t count) {
  const Bytes numbers = total / kNumber;
  count = std::min<std::size_t>(count, numbers);
  bytes_ = numbers * kNumber;
  const Bytes each = numbers / count * kNumber;
  for (std::size_t i = 0; i < count; ++i) {
    const Bytes size = i + 1 < count ? each : bytes_ - i * each;
    tensors_.push_back({fmt::format("layers.{}.weight", i), i * each, size});
  }
  const Bytes begin = header().size();
  for (WeightTensor& tensor : tensors_) tensor.offset += begin;
}

/// Of the safetensors file: its size in 8 bytes, then JSON, filled up with spaces, so that the file
/// can be read directly to its end.
std::string Weights::header() const {
  std::vector<std::string> entries;
  const Bytes begin = tensors_.front().offset;
  for (const WeightTensor& one : tensors_)
    entries.push_back(fmt::format(R"("{}":{{"dtype":"BF16","shape":[{}],"data_offsets":[{},{}]}})",
                                  one.name, one.bytes / kNumber, one.offset - begin,
                                  one.offset - begin + one.bytes));
  std::string json = fmt::format("{{{}}}", fmt::join(entries, ","));
  constexpr Bytes kBorder = 4096;
  std::uint64_t size = sizeof size + json.size();
  size += kBorder - (size + bytes_) % kBorder - sizeof size;
  json.resize(size, ' ');
  std::string header(sizeof size, '\0');
  std::memcpy(header.data(), &size, sizeof size);
  return header + json;
}

Result<void> Weights::write_safetensors(int interrupt_descriptor) {
  const std::string path = this->path(WeightFile::safetensors);
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!file.is_open()) return Unexpected(system_error(path));
  const std::string begin = header();
  if (auto written = write_all(file.get(), std::as_bytes(std::span(begin))); !written)
    return written;
  NormalNumbers numbers;
  std::vector<std::byte> piece(kPiece);
  for (WeightTensor& tensor : tensors_) {
    const float deviation = numbers.next_deviation();
    for (Bytes at = 0; at < tensor.bytes; at += kPiece) {
      if (auto going = check_interrupt(interrupt_descriptor); !going) return going;
      const ByteSpan part = ByteSpan(piece).first(std::min(kPiece, tensor.bytes - at));
      numbers.fill(part, deviation);
      tensor.sum = continued_sum(tensor.sum, part);
      if (auto written = write_all(file.get(), part); !written) return written;
    }
  }
  return {};
}

Result<void> Weights::write_images(int interrupt_descriptor) {
  std::vector<ImageTensor> all;
  for (const WeightTensor& one : tensors_) {
    const auto numbers = static_cast<std::int64_t>(one.bytes / kNumber);
    all.push_back({.name = one.name, .tensor = Tensor::dense(types::bf16, {&numbers, 1})});
  }
  const auto file = open_to_read(path(WeightFile::safetensors));
  if (!file) return Unexpected(file.error());
  const ImageSource source = [&](std::size_t tensor, Bytes from, ByteSpan into) -> Result<void> {
    if (auto going = check_interrupt(interrupt_descriptor); !going) return going;
    return read_at(*file, tensors_[tensor].offset + from, into);
  };
  for (const bool is_packed : {false, true}) {
    const std::optional<Codec> codec = is_packed ? std::nullopt : std::optional(Codec::none);
    const auto written = write_image(path(is_packed ? WeightFile::packed : WeightFile::plain), all,
                                     {.codec = codec}, source);
    if (!written) return Unexpected(written.error());
  }
  return {};
}

}  // namespace gantry::bench
