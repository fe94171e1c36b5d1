#pragma once  // reshape/walker.hpp: makes elements of a destination one run after another.

#include "shape/reshape/rows.hpp"
#include "shape/reshape/state.hpp"

namespace gantry::shape {

/// Makes elements of the destination, in its order, as elements of one type: the destination's own,
/// codes if that is packed, floats if it has groups. Plain: it may be left by a jump.
class Walker {
 public:
  Walker(const PlanState& state, const std::byte* source, Element as, bool streaming) noexcept
      : state_(state),
        source_(source),
        as_(as),
        as_bytes_(std::max(facts_of(as).bits / 8, 1u)),
        streaming_(streaming) {}

  /// Elements [first, first + count) to `to`.
  void make(std::byte* to, std::int64_t first, std::int64_t count) noexcept;

 private:
  using Index = std::array<std::int64_t, kMostWalked>;

  /// A run of elements at equal distances in the source.
  struct Run {
    std::int64_t at = 0;  // in the source, in elements
    std::int64_t step = 1;
    std::int64_t count = 0;
    std::size_t channel = 0;
    // Of the destination, for scales that change within the run.
    std::int64_t first = 0;
    bool is_one_channel = false;  // they do not: the destination's next elements lie between
  };

  [[nodiscard]] std::int64_t pixels_at(const Index& index, std::int64_t count) const noexcept;
  void make_row(std::byte* to, const Index& index, std::int64_t first, std::int64_t count) noexcept;
  void make_pixels(std::byte* to, const Index& index, std::int64_t pixels) noexcept;
  [[nodiscard]] bool is_outside(const Index& index) const noexcept;
  [[nodiscard]] std::int64_t place_of(const Index& index) const noexcept;
  [[nodiscard]] std::size_t channel_of(const Index& index) const noexcept;
  std::byte* make_pad(std::byte* to, std::int64_t count) noexcept;
  void make_run(std::byte* to, Run run, bool streaming) noexcept;
  void make_tile(std::byte* to, const Run& run, bool streaming) noexcept;
  void make_scaled_bytes(std::byte* to, const std::byte* bytes, const Run& run,
                         bool streaming) noexcept;
  [[nodiscard]] const std::byte* load(const Run& run) noexcept;
  void load_groups(const Run& run) noexcept;
  void scale_tile(const Run& run) noexcept;
  [[nodiscard]] std::size_t scale_of(const Run& run) const noexcept {
    return state_.scale.size() > 1 ? run.channel : 0;
  }

  const PlanState& state_;
  const std::byte* source_;
  Element as_;
  unsigned as_bytes_;
  bool streaming_;
  alignas(64) std::array<float, kTile> floats_;         // NOLINT: written before it is read
  alignas(64) std::array<double, kTile> doubles_;       // NOLINT: as above; also raw elements
  alignas(64) std::array<std::byte, kTile * 8> mixed_;  // NOLINT: channels, before they mix
};

}  // namespace gantry::shape
