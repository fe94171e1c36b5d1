#include "image/layout.hpp"

#include <algorithm>

#include "base/result.hpp"
#include "engine/shape/groups.hpp"
#include "image/format.hpp"

namespace gantry {
namespace image {
namespace {

constexpr Bytes kMostRaw = kMostChunks * kImageChunkBytes;

std::string shown(std::string_view name) {
  constexpr std::size_t kShown = 40;
  std::string text(name.substr(0, kShown));
  std::ranges::replace_if(text, [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
  return name.size() > kShown ? text + "..." : text;
}

}  // namespace

Result<void> check_name(std::string_view name) {
  constexpr const char* kHint = "name it anew; '.' can stand for '/'";
  if (name.empty() || name.size() > kMostNameBytes)
    return fail(Code::invalid_argument,
                fmt::format("its name '{}' has {} bytes, of 1 to {}", shown(name), name.size(),
                            kMostNameBytes),
                kHint);
  const auto is_wrong = [](unsigned char c) { return c == '/' || c < 0x20 || c == 0x7f; };
  if (std::ranges::any_of(name, is_wrong) || name == "." || name == "..")
    return fail(Code::invalid_argument,
                fmt::format("'{}' is no name of a tensor: it has a '/' or a control character, or "
                            "is that of a folder",
                            shown(name)),
                kHint);
  return {};
}

Result<void> Layout::add(ImageTensor& tensor) {
  GANTRY_TRY(check_name(tensor.name));
  GANTRY_ASSIGN(tensor.bytes, dense_bytes(tensor.tensor));
  if (names_.size() == kMostTensors)
    return fail(Code::too_large, fmt::format("there are more than {} tensors", kMostTensors));
  if (!names_.insert(tensor.name).second)
    return fail(Code::invalid_argument, "another tensor has its name");
  const std::size_t last = partitions_.size();
  if (tensor.partition > last || tensor.partition + 1 < last)
    return fail(
        Code::invalid_argument,
        fmt::format("partition {} does not follow: there are {} so far", tensor.partition, last));
  if (tensor.partition == last) partitions_.push_back({0, chunks(), 0});
  ImagePartition& partition = partitions_.back();
  tensor.offset = up_to(partition.bytes, kImageTensorBorder);
  const Bytes before = partition.first_chunk * kImageChunkBytes;
  if (tensor.bytes > kMostRaw - std::min(kMostRaw, before + tensor.offset))
    return fail(Code::too_large, fmt::format("an image has at most {} bytes", kMostRaw));
  partition.bytes = tensor.offset + tensor.bytes;
  partition.chunks = up_to(partition.bytes, kImageChunkBytes) / kImageChunkBytes;
  return {};
}

std::size_t Layout::chunks() const noexcept {
  return partitions_.empty() ? 0 : partitions_.back().first_chunk + partitions_.back().chunks;
}

Bytes Layout::raw_bytes() const noexcept {
  Bytes all = 0;
  for (const ImagePartition& partition : partitions_) all += partition.bytes;
  return all;
}

}  // namespace image

Result<Bytes> dense_bytes(const Tensor& tensor) {
  const auto wrong = [&](std::string_view why) {
    return fail(Code::invalid_argument, fmt::format("its type or shape is none: {}", why));
  };
  if (tensor.dimensions > Tensor::kMaxDimensions) return wrong("more than 8 dimensions");
  if (tensor.type.bits == 0 || tensor.type.lanes == 0) return wrong("a type without bits");
  const std::optional<Groups> groups = groups_of(tensor.type);
  if (!groups && tensor.type.code >= DataType::grouped) return wrong("groups that nobody knows");
  const auto shape = std::span(tensor.shape).first(tensor.dimensions);
  if (std::ranges::any_of(shape, [](std::int64_t one) { return one < 0; }))
    return wrong("a negative dimension");
  std::int64_t numbers = std::ranges::find(shape, 0) == shape.end() ? 1 : 0;
  for (const std::int64_t one : shape) {
    if (__builtin_mul_overflow(numbers, one, &numbers))
      return fail(Code::too_large, "it has more numbers than can be counted");
  }
  if (groups && (shape.empty() || shape.back() % groups->size != 0))
    return wrong("the last dimension has no whole number of groups");
  const std::int64_t units = groups ? numbers / groups->size : numbers;
  const auto unit_bits = static_cast<std::int64_t>(
      groups ? gantry::shape::bytes_of(*groups) * 8 : Bytes{tensor.type.bits} * tensor.type.lanes);
  std::int64_t bits = 0;
  if (__builtin_mul_overflow(units, unit_bits, &bits))
    return fail(Code::too_large, "it has more bits than can be counted");
  return static_cast<Bytes>(bits / 8 + (bits % 8 != 0 ? 1 : 0));
}

}  // namespace gantry
