#pragma once  // shape_reference.hpp: reshapes drawn at random, and what a plain loop makes of them.

#include <cstring>
#include <gantry/shape.hpp>
#include <numeric>
#include <random>
#include <vector>

#include "core/tensor/groups.hpp"
#include "shape/reshape/test_reference.hpp"

namespace gantry {

/// A tensor's numbers, one at a time.
class PlainNumbers {
 public:
  PlainNumbers(DataType type, const std::byte* bytes)
      : groups_(groups_of(type)),
        element_(*shape::element_of(groups_ ? groups_->element : type)),
        bytes_(bytes) {}

  /// The number as `as`, through what ReshapePlan says.
  void read(std::int64_t at, shape::Element as, std::byte* to) const {
    const auto index = static_cast<std::size_t>(at);
    if (groups_) {
      std::array<float, 128> group{};
      shape::reference::group_to_floats(group.data(), *groups_,
                                        bytes_ + index / groups_->size * shape::bytes_of(*groups_));
      std::byte one[4];
      std::memcpy(one, &group[index % groups_->size], sizeof one);
      return shape::reference::convert(as, to, shape::Element::f32, one);
    }
    std::byte one[8];
    const unsigned bits = shape::facts_of(element_).bits;
    if (bits == 4) {
      const unsigned code = std::to_integer<unsigned>(bytes_[index / 2]) >> index % 2 * 4 & 15u;
      const bool negative = element_ == shape::Element::i4 && code > 7;
      one[0] = static_cast<std::byte>(negative ? code | 0xf0u : code);
    } else {
      std::memcpy(one, bytes_ + index * (bits / 8), bits / 8);
    }
    shape::reference::convert(as, to, element_, one);
  }
  [[nodiscard]] const std::byte* bytes() const { return bytes_; }
  [[nodiscard]] bool is_wide() const { return !groups_ && shape::is_wide(element_); }

 private:
  std::optional<Groups> groups_;
  shape::Element element_;
  const std::byte* bytes_;
};

/// A reshape as it was asked for.
struct AskedReshape {
  Tensor to, from;
  ReshapeOptions options;
};

/// What a plain loop makes, of the destination's every number in turn.
class PlainReshape {
 public:
  PlainReshape(const AskedReshape& asked, const std::byte* source)
      : asked_(asked), numbers_(asked.from.type, source), groups_(groups_of(asked.to.type)) {
    as_ = groups_ ? shape::Element::f32 : *shape::element_of(asked.to.type);
  }

  [[nodiscard]] std::vector<std::byte> make() const {
    const Tensor& to = asked_.to;
    std::int64_t count = 1;
    for (unsigned i = 0; i < to.dimensions; ++i) count *= to.shape[i];
    if (const auto from = copied_from(count)) {
      const Bytes bytes = static_cast<Bytes>(count) / groups_->size * shape::bytes_of(*groups_);
      return {numbers_.bytes() + *from, numbers_.bytes() + *from + bytes};
    }
    std::vector<std::byte> made;
    std::vector<float> group;
    std::array<std::int64_t, Tensor::kMaxDimensions> index{};
    for (std::int64_t n = 0; n < count; ++n) {
      std::byte one[8]{};
      number(index, one);
      if (groups_) {
        std::memcpy(&group.emplace_back(), one, sizeof(float));
        if (group.size() == groups_->size) {
          made.resize(made.size() + shape::bytes_of(*groups_));
          shape::reference::floats_to_group(made.data() + made.size() - shape::bytes_of(*groups_),
                                            *groups_, group.data());
          group.clear();
        }
      } else if (shape::is_packed(as_)) {
        if (n % 2 == 0) made.push_back(std::byte{});
        made.back() |= (one[0] & std::byte{15}) << n % 2 * 4;
      } else {
        made.insert(made.end(), one, one + shape::facts_of(as_).bits / 8);
      }
      step(index);
    }
    return made;
  }

 private:
  using Index = std::array<std::int64_t, Tensor::kMaxDimensions>;

  void step(Index& index) const {
    const Tensor& to = asked_.to;
    for (unsigned i = to.dimensions; i-- > 0 && ++index[i] == to.shape[i];) index[i] = 0;
  }

  /// Where whole groups lie that become the same groups in the same order; nothing: it is not so.
  [[nodiscard]] std::optional<Bytes> copied_from(std::int64_t count) const {
    const ReshapeOptions& options = asked_.options;
    const bool scales = !options.scale.empty() || !options.offset.empty();
    if (!groups_ || asked_.to.type != asked_.from.type || scales || !options.channels.empty())
      return std::nullopt;
    Index index{};
    const auto first = place_of(index);
    for (std::int64_t n = 0; n < count; ++n, step(index)) {
      const auto place = place_of(index);
      if (!first || !place || *place != *first + n) return std::nullopt;
    }
    if (*first % groups_->size != 0) return std::nullopt;
    return static_cast<Bytes>(*first) / groups_->size * shape::bytes_of(*groups_);
  }

  static std::int64_t entry(const std::vector<std::int64_t>& list, unsigned i) {
    return list.empty() ? 0 : list[i];
  }
  static float factor(const std::vector<float>& list, std::int64_t channel, float otherwise) {
    if (list.empty()) return otherwise;
    return list.size() == 1 ? list[0] : list[static_cast<std::size_t>(channel)];
  }

  /// In the source; nothing: it is padding.
  [[nodiscard]] std::optional<std::int64_t> place_of(const Index& index) const {
    const ReshapeOptions& options = asked_.options;
    std::int64_t place = 0;
    for (unsigned i = 0; i < asked_.to.dimensions; ++i) {
      const unsigned source = options.order.empty() ? i : options.order[i];
      std::int64_t at = index[i] - entry(options.pad_before, i);
      if (at < 0 ||
          at >= asked_.to.shape[i] - entry(options.pad_before, i) - entry(options.pad_behind, i))
        return std::nullopt;
      if (i == options.channel_dimension && !options.channels.empty())
        at = options.channels[static_cast<std::size_t>(at)];
      place += (at + entry(options.crop_from, source)) * asked_.from.strides[source];
    }
    return place;
  }

  void number(const Index& index, std::byte* one) const {
    const ReshapeOptions& options = asked_.options;
    const auto found = place_of(index);
    if (!found) return pad(one);
    const std::int64_t place = *found;
    const unsigned of_channels = options.channel_dimension;
    const std::int64_t channel = of_channels < asked_.to.dimensions
                                     ? index[of_channels] - entry(options.pad_before, of_channels)
                                     : 0;
    if (options.scale.empty() && options.offset.empty()) return numbers_.read(place, as_, one);
    const float scale = factor(options.scale, channel, 1);
    const float offset = factor(options.offset, channel, 0);
    if (numbers_.is_wide() && shape::is_wide(as_)) {
      double value = 0;
      numbers_.read(place, shape::Element::f64, reinterpret_cast<std::byte*>(&value));
      shape::reference::scale(&value, static_cast<double>(scale), static_cast<double>(offset));
      return shape::reference::convert(as_, one, shape::Element::f64,
                                       reinterpret_cast<const std::byte*>(&value));
    }
    float value = 0;
    numbers_.read(place, shape::Element::f32, reinterpret_cast<std::byte*>(&value));
    shape::reference::scale(&value, scale, offset);
    shape::reference::convert(as_, one, shape::Element::f32,
                              reinterpret_cast<const std::byte*>(&value));
  }

  void pad(std::byte* one) const {
    const double value = asked_.options.pad_value;
    shape::reference::convert(as_, one, shape::Element::f64,
                              reinterpret_cast<const std::byte*>(&value));
  }

  const AskedReshape& asked_;
  PlainNumbers numbers_;
  std::optional<Groups> groups_;
  shape::Element as_{};
};

/// Draws types, shapes, strides, orders, paddings, channels and scales.
class DrawnReshape {
 public:
  DrawnReshape(std::mt19937& random, std::int64_t most_numbers) : random_(random) {
    asked_.from.type = draw_type();
    asked_.to.type = chance(8) ? asked_.from.type : draw_type();
    const unsigned dimensions = 1 + static_cast<unsigned>(draw(chance(10) ? 8 : 4));
    asked_.from.dimensions = asked_.to.dimensions = dimensions;
    draw_shapes(dimensions, most_numbers);
    if (chance(3)) draw_channels(dimensions);
    if (chance(3)) draw_scales();
    settle_groups();
    lay_out();
    fill();
  }

  [[nodiscard]] const AskedReshape& asked() const { return asked_; }
  [[nodiscard]] ConstByteSpan source() const { return source_; }

 private:
  [[nodiscard]] std::int64_t draw(std::int64_t below) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(below));
  }
  bool chance(std::int64_t of) { return draw(of) == 0; }

  DataType draw_type() {
    if (!chance(4))
      return shape::facts_of(static_cast<shape::Element>(draw(shape::kElements))).type;
    static const DataType kElements[] = {types::i8,     types::u8,   types::i4,  types::u4,
                                         types::e4m3fn, types::e5m2, types::e2m1};
    Groups groups{.element = kElements[draw(7)],
                  .size = static_cast<std::uint16_t>(32 << draw(3)),
                  .scale = static_cast<Groups::Scale>(draw(4))};
    groups.zero_point = groups.element.code <= 1 && chance(2);
    return groups.type();
  }

  void draw_shapes(unsigned dimensions, std::int64_t most_numbers) {
    ReshapeOptions& options = asked_.options;
    std::vector<unsigned> order(dimensions);
    std::iota(order.begin(), order.end(), 0u);
    if (chance(2)) std::shuffle(order.begin(), order.end(), random_);
    const bool crops = chance(4), pads = chance(4);
    if (crops) options.crop_from.resize(dimensions);
    if (pads) options.pad_before.resize(dimensions);
    if (pads) options.pad_behind.resize(dimensions);
    options.pad_value = static_cast<double>(draw(600) - 300) / (chance(2) ? 4 : 7);
    std::int64_t left = most_numbers;
    const bool groups_wanted = groups_of(asked_.from.type) || groups_of(asked_.to.type);
    if (groups_wanted && chance(2)) std::iota(order.begin(), order.end(), 0u);
    for (unsigned i = dimensions; i-- > 0;) {
      std::int64_t extent = 1 + draw(std::min<std::int64_t>(left, chance(2)             ? 5
                                                                  : i + 1 == dimensions ? 3000
                                                                                        : 60));
      if (i + 1 == dimensions && groups_wanted && most_numbers > 512) extent = 128 * (1 + draw(4));
      left = std::max<std::int64_t>(left / (extent + 4), 1);
      const unsigned source = order[i];
      asked_.from.shape[source] = asked_.to.shape[i] = extent;
      if (crops) {
        options.crop_from[source] = draw(3);
        asked_.from.shape[source] += options.crop_from[source] + draw(3);
      }
      if (pads) {
        options.pad_before[i] = draw(3);
        options.pad_behind[i] = draw(3);
        asked_.to.shape[i] += options.pad_before[i] + options.pad_behind[i];
      }
    }
    options.order = order;
  }

  [[nodiscard]] std::int64_t inner(unsigned i) const {
    const ReshapeOptions& options = asked_.options;
    if (options.pad_before.empty()) return asked_.to.shape[i];
    return asked_.to.shape[i] - options.pad_before[i] - options.pad_behind[i];
  }

  void draw_channels(unsigned dimensions) {
    ReshapeOptions& options = asked_.options;
    options.channel_dimension = static_cast<unsigned>(draw(dimensions));
    if (!options.crop_from.empty()) options.crop_from[options.order[options.channel_dimension]] = 0;
    if (chance(3)) return;
    for (std::int64_t c = 0; c < inner(options.channel_dimension); ++c)
      options.channels.push_back(
          static_cast<unsigned>(draw(asked_.from.shape[options.order[options.channel_dimension]])));
  }

  void draw_scales() {
    ReshapeOptions& options = asked_.options;
    const std::int64_t entries = chance(3) ? 1 : inner(options.channel_dimension);
    for (std::int64_t c = 0; c < entries; ++c) {
      options.scale.push_back(static_cast<float>(draw(2000) - 1000) / 77);
      options.offset.push_back(static_cast<float>(draw(2000) - 1000) / 13);
    }
    if (chance(4)) options.offset.clear();
    if (chance(4)) options.scale.clear();
  }

  // Groups divide the last dimension: it is made longer, with all that hangs on it.
  void settle_groups() {
    for (Tensor* tensor : {&asked_.from, &asked_.to}) {
      const auto groups = groups_of(tensor->type);
      const unsigned last = tensor->dimensions - 1;
      if (groups && tensor->shape[last] % groups->size != 0) tensor->type = types::f32;
    }
  }

  void lay_out() {
    asked_.to = Tensor::dense(asked_.to.type, {asked_.to.shape.data(), asked_.to.dimensions});
    Tensor& from = asked_.from;
    const bool gaps = chance(3) && !groups_of(from.type);
    from = Tensor::dense(from.type, {from.shape.data(), from.dimensions});
    for (unsigned i = 0; i < from.dimensions; ++i)
      if (from.shape[i] == 1 && chance(2)) from.strides[i] = draw(3);
    if (!gaps) return;
    std::int64_t stride = 1 + draw(3);
    for (unsigned i = from.dimensions; i-- > 0;) {
      if (from.shape[i] == 1 && chance(2)) continue;  // whose stride nobody asks for
      from.strides[i] = stride;
      stride = stride * from.shape[i] + draw(4);
    }
  }

  // Any bits, or numbers of a size that most types hold.
  void fill() {
    std::int64_t last = 0;
    for (unsigned i = 0; i < asked_.from.dimensions; ++i)
      last += (asked_.from.shape[i] - 1) * asked_.from.strides[i];
    const auto groups = groups_of(asked_.from.type);
    const auto numbers = static_cast<std::size_t>(last + 1);
    std::size_t bytes = 0;
    if (groups)
      bytes = numbers / groups->size * shape::bytes_of(*groups);
    else
      bytes = (numbers * asked_.from.type.bits + 7) / 8;
    source_.resize(bytes);
    for (std::byte& byte : source_) byte = static_cast<std::byte>(random_());
    const auto element = shape::element_of(asked_.from.type);
    if (!element || shape::is_packed(*element) || chance(3)) return;
    for (std::size_t i = 0; i < numbers; ++i) {
      const float value = static_cast<float>(draw(200'000) - 100'000) / 300;
      std::byte one[4];
      std::memcpy(one, &value, sizeof one);
      shape::reference::convert(*element, source_.data() + i * asked_.from.type.bits / 8,
                                shape::Element::f32, one);
    }
  }

  std::mt19937& random_;
  AskedReshape asked_;
  std::vector<std::byte> source_;
};

}  // namespace gantry
