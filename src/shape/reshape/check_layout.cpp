#include "shape/reshape/check_layout.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/base/result.hpp"
#include "core/tensor/element.hpp"
#include "core/tensor/groups.hpp"

namespace gantry::shape {
namespace {

constexpr std::uint64_t kMostBytes = ~std::uint64_t{0} >> 1;  // offsets are signed

tl::unexpected<Error> refuse(std::string what, std::string hint = {}) {
  return fail(Code::invalid_argument, fmt::format("a reshape: {}", what), std::move(hint));
}

Result<void> check_type(std::string_view side, DataType type) {
  if (element_of(type) || groups_of(type)) return {};
  return refuse(fmt::format("the {} is of {}, which no reshape knows", side, to_string(type)),
                "gantry/types.hpp lists the types");
}

Result<void> check_extents(std::string_view side, const Tensor& tensor) {
  if (tensor.dimensions == 0 || tensor.dimensions > Tensor::kMaxDimensions)
    return refuse(fmt::format("the {} has {} dimensions: 1 to {} are possible", side,
                              tensor.dimensions, Tensor::kMaxDimensions));
  for (unsigned i = 0; i < tensor.dimensions; ++i)
    if (tensor.shape[i] < 1)
      return refuse(fmt::format("the {} has {} elements along dimension {}: at least 1 is needed",
                                side, tensor.shape[i], i));
  return {};
}

Result<void> check_groups(std::string_view side, const Tensor& tensor) {
  const auto groups = groups_of(tensor.type);
  if (!groups) return {};
  const unsigned last = tensor.dimensions - 1;
  if (tensor.shape[last] % groups->size == 0) return {};
  return refuse(fmt::format("groups of {} do not divide the {}'s dimension {} of {} elements",
                            groups->size, side, last, tensor.shape[last]),
                "pad it, or take smaller groups");
}

// Along dimensions of rising stride each step must pass all that lies below it.
Result<void> check_overlap(const Tensor& from) {
  std::vector<unsigned> by_stride(from.dimensions);
  std::iota(by_stride.begin(), by_stride.end(), 0u);
  std::ranges::sort(by_stride, {}, [&](unsigned i) { return from.strides[i]; });
  std::int64_t reach = 0;  // of the dimensions below, the last element's place
  for (const unsigned i : by_stride) {
    const std::int64_t stride = from.strides[i], extent = from.shape[i];
    if (extent == 1) continue;
    if (stride < 0)
      return refuse(fmt::format("the source's dimension {} has the stride {}", i, stride),
                    "strides are positive: describe the memory from its lowest address on");
    if (stride <= reach)
      return refuse(
          fmt::format("the source's dimension {} has the stride {}, but the dimensions "
                      "within it reach over {} elements: elements would overlap",
                      i, stride, static_cast<std::uint64_t>(reach) + 1));
    std::int64_t span = 0;
    if (__builtin_mul_overflow(extent - 1, stride, &span) ||
        __builtin_add_overflow(reach, span, &reach))
      return refuse(
          fmt::format("the source's dimension {} of {} elements with the stride {} "
                      "reaches beyond 63 bits",
                      i, extent, stride));
  }
  return {};
}

// Groups lie whole and in their order.
Result<void> check_gaps(std::string_view side, const Tensor& tensor) {
  std::int64_t dense = 1;
  for (unsigned i = tensor.dimensions; i-- > 0;) {
    if (tensor.shape[i] != 1 && tensor.strides[i] != dense)
      return refuse(fmt::format("the {}'s dimension {} has the stride {}, without gaps it is {}",
                                side, i, tensor.strides[i], dense),
                    "Tensor::dense() describes memory without gaps");
    if (__builtin_mul_overflow(dense, tensor.shape[i], &dense))
      return refuse(fmt::format("the {} has more than 2^63 elements, with {} along dimension {}",
                                side, tensor.shape[i], i));
  }
  return {};
}

Result<Bytes> bytes_of(std::string_view side, const Tensor& tensor) {
  // fits() has the one rule of how many bytes a tensor reaches over.
  if (!tensor.fits(kMostBytes))
    return refuse(fmt::format("the {} reaches over more than 2^63 bytes", side));
  Bytes below = 0, enough = kMostBytes;
  while (below < enough) {
    const Bytes middle = below + (enough - below) / 2;
    if (tensor.fits(middle))
      enough = middle;
    else
      below = middle + 1;
  }
  return enough;
}

tl::unexpected<Error> wrong_length(std::string_view list, std::size_t entries, std::size_t wanted) {
  return refuse(fmt::format("{} has {} entries, {} are needed", list, entries, wanted));
}

Result<void> take_order(Layout& layout, const Tensor& to, const Tensor& from,
                        const std::vector<unsigned>& order) {
  if (to.dimensions != from.dimensions)
    return refuse(fmt::format("the source has {} dimensions, the destination {}", from.dimensions,
                              to.dimensions),
                  "give both the same, with dimensions of one element where needed");
  std::iota(layout.order.begin(), layout.order.end(), 0u);
  if (order.empty()) return {};
  if (order.size() != to.dimensions) return wrong_length("order", order.size(), to.dimensions);
  unsigned seen = 0;
  for (unsigned i = 0; i < to.dimensions; ++i) {
    if (order[i] >= from.dimensions || (seen >> order[i] & 1u) != 0)
      return refuse(fmt::format("order[{}] is {}: each of 0 to {} is named once", i, order[i],
                                from.dimensions - 1));
    seen |= 1u << order[i];
    layout.order[i] = order[i];
  }
  return {};
}

Result<void> take_list(std::string_view name, const std::vector<std::int64_t>& list,
                       unsigned dimensions,
                       std::array<std::int64_t, Tensor::kMaxDimensions>& taken) {
  taken.fill(0);
  if (list.empty()) return {};
  if (list.size() != dimensions) return wrong_length(name, list.size(), dimensions);
  for (unsigned i = 0; i < dimensions; ++i) {
    if (list[i] < 0) return refuse(fmt::format("{}[{}] is {}", name, i, list[i]));
    taken[i] = list[i];
  }
  return {};
}

// What is left of the destination's dimension between its paddings must lie in the source.
Result<void> take_extents(Layout& layout, const Tensor& to, const Tensor& from,
                          const ReshapeOptions& options) {
  std::array<std::int64_t, Tensor::kMaxDimensions> behind{};
  GANTRY_TRY(take_list("crop_from", options.crop_from, from.dimensions, layout.crop_from));
  GANTRY_TRY(take_list("pad_before", options.pad_before, to.dimensions, layout.pad_before));
  GANTRY_TRY(take_list("pad_behind", options.pad_behind, to.dimensions, behind));
  for (unsigned i = 0; i < to.dimensions; ++i) {
    const unsigned source = layout.order[i];
    const std::int64_t before = layout.pad_before[i], extent = to.shape[i];
    if (before >= extent || behind[i] >= extent - before)
      return refuse(fmt::format("dimension {} of {} elements cannot be padded by {} and {}", i,
                                extent, before, behind[i]));
    layout.inner[i] = extent - before - behind[i];
    // Channels may be named more or less often than there are.
    if (!options.channels.empty() && i == options.channel_dimension) continue;
    const std::int64_t there = from.shape[source], skipped = layout.crop_from[source];
    if (skipped > there || layout.inner[i] > there - skipped)
      return refuse(
          fmt::format("the destination's dimension {} takes {} elements from {} on, the "
                      "source's dimension {} has {}",
                      i, layout.inner[i], skipped, source, there));
    const bool cropped = !options.crop_from.empty();
    if (!cropped && layout.inner[i] != there)
      return refuse(fmt::format("the destination has {} elements along dimension {}, the source's "
                                "dimension {} has {}",
                                layout.inner[i], i, source, there),
                    "say crop_from, or pad_before and pad_behind, if that is meant");
  }
  return {};
}

Result<void> take_channels(Layout& layout, const Tensor& to, const Tensor& from,
                           const ReshapeOptions& options) {
  const unsigned dimension = options.channel_dimension;
  const bool used = !options.channels.empty() || !options.scale.empty() || !options.offset.empty();
  if (!used) return {};
  if (dimension >= to.dimensions)
    return refuse(fmt::format("channel_dimension is {}, the destination has {} dimensions",
                              dimension, to.dimensions));
  const auto inner = static_cast<std::size_t>(layout.inner[dimension]);
  const std::int64_t there = from.shape[layout.order[dimension]];
  if (!options.channels.empty() && options.channels.size() != inner)
    return wrong_length("channels", options.channels.size(), inner);
  for (std::size_t c = 0; c < options.channels.size(); ++c)
    if (options.channels[c] >= there)
      return refuse(
          fmt::format("channels[{}] is {}, the source has {}", c, options.channels[c], there));
  if (!options.channels.empty() && layout.crop_from[layout.order[dimension]] != 0)
    return refuse(fmt::format("crop_from skips {} channels, and channels names them",
                              layout.crop_from[layout.order[dimension]]),
                  "name them from 0 on");
  layout.channels = options.channels;
  for (const auto* list : {&options.scale, &options.offset})
    if (list->size() > 1 && list->size() != inner)
      return wrong_length(list == &options.scale ? "scale" : "offset", list->size(), inner);
  const std::size_t most = std::max(options.scale.size(), options.offset.size());
  if (most == 0) return {};
  const auto filled = [most](const std::vector<float>& list, float otherwise) {
    if (list.size() == most) return list;
    return std::vector<float>(most, list.empty() ? otherwise : list.front());
  };
  layout.scale = filled(options.scale, 1);
  layout.offset = filled(options.offset, 0);
  for (std::size_t c = 0; c < most; ++c)
    if (!std::isfinite(layout.scale[c]) || !std::isfinite(layout.offset[c]))
      return refuse(fmt::format("channel {} is scaled by {} and shifted by {}", c, layout.scale[c],
                                layout.offset[c]));
  return {};
}

}  // namespace

Result<Bytes> check_source(const Tensor& from) {
  GANTRY_TRY(check_type("source", from.type));
  GANTRY_TRY(check_extents("source", from));
  GANTRY_TRY(check_groups("source", from));
  GANTRY_TRY(check_overlap(from));
  if (groups_of(from.type)) GANTRY_TRY(check_gaps("source", from));
  return bytes_of("source", from);
}

Result<Bytes> check_destination(const Tensor& to) {
  GANTRY_TRY(check_type("destination", to.type));
  GANTRY_TRY(check_extents("destination", to));
  GANTRY_TRY(check_groups("destination", to));
  GANTRY_TRY(check_gaps("destination", to));
  return bytes_of("destination", to);
}

Result<Layout> check_options(const Tensor& to, const Tensor& from, const ReshapeOptions& options) {
  Layout layout;
  GANTRY_TRY(take_order(layout, to, from, options.order));
  GANTRY_TRY(take_extents(layout, to, from, options));
  GANTRY_TRY(take_channels(layout, to, from, options));
  return layout;
}

}  // namespace gantry::shape
