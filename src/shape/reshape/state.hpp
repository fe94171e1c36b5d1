#pragma once  // reshape/state.hpp: what a checked plan consists of.

#include <gantry/shape.hpp>
#include <vector>

#include "core/tensor/element.hpp"
#include "core/tensor/reshape_state.hpp"
#include "shape/reshape/planes.hpp"

namespace gantry::shape {

/// A dimension of the destination, and how the source is walked along it. Neighbours that can be
/// walked as one have been merged; those of one element are left out.
struct Dimension {
  std::int64_t extent = 1;      ///< Elements of the destination.
  std::int64_t step = 0;        ///< In the source, in elements.
  std::int64_t pad_before = 0;  ///< Elements before the source's.
  std::int64_t inner = 1;       ///< The source's.
  [[nodiscard]] bool is_padded() const noexcept { return inner != extent; }
};

/// Numbers that are on their way in the first-level cache.
inline constexpr std::size_t kTile = 1024;
inline constexpr std::size_t kMostWalked = Tensor::kMaxDimensions;
inline constexpr std::size_t kNoChannels = kMostWalked;

/// What ReshapePlan::make() found out.
struct PlanState final : detail::ReshapeState {
  // Groups have elements of their own; these are then those.
  Element to_element{}, from_element{};
  std::optional<Groups> to_groups, from_groups;

  // The walk. The innermost dimension is the last; there is at least one.
  std::array<Dimension, kMostWalked> walk{};
  std::size_t dimensions = 0;
  std::int64_t first = 0;  // element of the source that the walk begins at
  std::int64_t count = 0;  // elements of the destination

  // Channels: of the walk's dimension `channel`, if their order or scales matter.
  std::size_t channel = kNoChannels;
  std::vector<std::int64_t> channel_at;  // in the source, in elements, from `first` on
  bool scales = false;
  std::vector<float> scale, offset;  // one a channel; one for all if `channel` is kNoChannels
  // Channels run along the innermost dimension and the source lies as the destination: the scales
  // of a tile of elements, from any channel on. Empty: it is not so.
  std::vector<float> scale_pattern, offset_pattern;
  std::int64_t period = 1;  // channels in that pattern

  // Instead of the walk.
  std::optional<PlaneLayout> to_planes, from_planes;
  bool copies_groups = false;  // whole ones that lie together, from that of `first` on

  std::array<std::byte, 8> pad{};  // one element of the destination, or a code, or an f32

  [[nodiscard]] ByteRange source_of(ByteRange destination) const noexcept override;
  [[nodiscard]] Bytes destination_from(Bytes source_prefix) const noexcept override;
  void make(std::byte* made, const std::byte* source, Bytes at, Bytes bytes,
            bool streaming) const noexcept override;
};

}  // namespace gantry::shape
