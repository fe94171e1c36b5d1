#pragma once  // gantry/shape.hpp: conversions of element types and layouts in one pass.

#include <gantry/types.hpp>
#include <memory>
#include <vector>

namespace gantry {

/// Elements split into planes: the highest byte (or bit) of all elements, then the next of all, and
/// so on, in codes that, as unsigned numbers, have the order of the values. A reader that needs
/// only the leading digits reads only the first planes. See docs/formats/planes.md.
struct Planes {
  /// The part of each element in one plane.
  enum class Unit : std::uint8_t { none, bytes, bits } unit = Unit::none;  ///< none: no planes.
  /// Number of elements whose planes lie together, a multiple of 8; 0: all. Smaller blocks stay in
  /// the cache during conversion.
  std::int64_t block = 0;
  /// If not 0: the planes of a block are preceded by bounds: for each group of this many elements,
  /// the codes of its smallest and its largest element.
  std::uint16_t bounds_group = 0;
  friend bool operator==(const Planes&, const Planes&) = default;
};

/// Changes by a reshape besides the type. Empty lists change nothing.
struct ReshapeOptions {
  /// Dimension i of the destination is dimension order[i] of the source: {0, 3, 1, 2} converts NHWC
  /// to NCHW.
  std::vector<unsigned> order{};
  /// Index of the first element taken along each dimension of the source; the destination's shape
  /// determines how many are taken.
  std::vector<std::int64_t> crop_from{};
  /// Number of elements before and behind the source's, along each dimension of the destination;
  /// they get `pad_value`.
  std::vector<std::int64_t> pad_before{}, pad_behind{};
  double pad_value = 0;  ///< Converted to the destination's type; neither scaled nor shifted.
  /// Dimension of the destination to which the next three fields apply.
  unsigned channel_dimension = 0;
  /// Channel c of the destination is channel channels[c] of the source: {2, 1, 0} converts BGR to
  /// RGB.
  std::vector<unsigned> channels{};
  /// Each value is multiplied by `scale`, then `offset` is added; one entry per channel of the
  /// destination, or one for all. Each operation rounds to nearest even, in f32 (f64 if both types
  /// are f64 or i32).
  std::vector<float> scale{}, offset{};
  bool exact = false;  ///< make() refuses a reshape whose error is not `exact`.
};

}  // namespace gantry
