#pragma once  // gantry/shape.hpp: conversions of element types and layouts in one pass.

#include <gantry/shape/tensor.hpp>
#include <memory>
#include <vector>

namespace gantry {

namespace detail {
struct ReshapeState;
}

/// Bytes [from, from + bytes) of something.
struct ByteRange {
  Bytes from = 0;                                                    ///< The first.
  Bytes bytes = 0;                                                   ///< How many.
  [[nodiscard]] Bytes end() const noexcept { return from + bytes; }  ///< One beyond the last.
  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

/// Elements cut into planes: the highest byte (or bit) of each, then the next of each, and so on,
/// in a code whose unsigned order is that of the values. Who needs only the leading digits reads
/// only the first planes. See docs/formats/planes.md.
struct Planes {
  /// What a plane holds of each element.
  enum class Unit : std::uint8_t { none, bytes, bits } unit = Unit::none;  ///< none: no planes.
  /// Elements whose planes lie together, a multiple of 8; 0: all. Smaller blocks stay in the cache
  /// while they are made.
  std::int64_t block = 0;
  /// Not 0: before the planes of a block lie, for each group of so many of its elements, the codes
  /// of the least and of the largest.
  std::uint16_t bounds_group = 0;
  friend bool operator==(const Planes&, const Planes&) = default;
};

/// What a reshape does besides changing the type. Lists that are empty change nothing.
struct ReshapeOptions {
  /// Dimension i of the destination is dimension order[i] of the source: {0, 3, 1, 2} makes NCHW of
  /// NHWC.
  std::vector<unsigned> order{};
  /// First element that is taken, along each dimension of the source; the destination's shape says
  /// how many.
  std::vector<std::int64_t> crop_from{};
  /// Elements before and behind the source's, along each dimension of the destination; they get
  /// `pad_value`.
  std::vector<std::int64_t> pad_before{}, pad_behind{};
  double pad_value = 0;  ///< Converted to the destination's type; neither scaled nor shifted.
  /// The dimension of the destination that the next three are about.
  unsigned channel_dimension = 0;
  std::vector<unsigned> channels{};  ///< Channel c is the source's channel channels[c]: {2, 1, 0}
                                     ///< makes RGB of BGR.
  /// Each value is multiplied, then added to; one entry a channel of the destination, or one for
  /// all. Each operation rounds to nearest even, in f32 (f64 if both types are f64 or i32).
  std::vector<float> scale{}, offset{};
  bool exact = false;  ///< make() refuses a reshape whose error is not `exact`.
};

/// How far a value may be from what was asked for, unless it is beyond what the destination's type
/// can hold.
struct GANTRY_API ReshapeError {
  /// In what `amount` is.
  enum class Kind : std::uint8_t {
    exact,   ///< Every value of the source's type is one of the destination's.
    ulps,    ///< Of the destination's type: distances between neighbouring numbers at the result.
    steps,   ///< Of a group: its scale.
    binades  ///< Of a group with elements of floating point: ulps of the element, times its scale;
             ///< values beyond the largest element become that.
  } kind = Kind::exact;    ///< In what `amount` is.
  double amount = 0;       ///< 0 if exact.
  bool saturates = false;  ///< The source's type has values beyond the destination's.
  friend bool operator==(const ReshapeError&, const ReshapeError&) = default;
  /// For people: "exact", "0.5 ulp of bf16; saturates".
  [[nodiscard]] std::string text() const;
};

/// What a reshape costs, roughly; the policy has a curve for each.
enum class ReshapeClass : std::uint8_t {
  narrowing,  ///< In order, to fewer bytes or as many.
  widening,   ///< In order, to more bytes.
  permuting   ///< Elements change their order.
};
/// How many there are.
inline constexpr std::size_t kReshapeClasses = 3;
[[nodiscard]] GANTRY_API std::string_view to_string(ReshapeClass kind) noexcept;

/// A checked conversion of one tensor into another. A plain value, shared by its copies, for any
/// number of moves in any threads; one that was moved from may only be assigned to or destroyed.
///   Rounding: to nearest, ties to even. To whole numbers and 4-bit types saturating, NaN to 0; to
///   e4m3fn saturating; to other floats infinity beyond the largest. A NaN stays a NaN. Numbers
///   below the normal ones are kept, whatever the thread's floating-point mode. The same bits on
///   every CPU.
class GANTRY_API ReshapePlan {
 public:
  /// Checks everything; nothing can be wrong later. `to` has no gaps; `from` may have some. Errors:
  /// `invalid_argument`, with the dimension and both values.
  [[nodiscard]] static Result<ReshapePlan> make(const Tensor& to, const Tensor& from,
                                                const ReshapeOptions& options = {});
  /// To the same shape in another type.
  [[nodiscard]] static Result<ReshapePlan> make(DataType to, const Tensor& from);
  /// A tensor without gaps to planes: a row of bytes. Exact. Errors: as make(), and
  /// `invalid_argument` for groups, numbers of 4 bits and a block that is no multiple of 8.
  [[nodiscard]] static Result<ReshapePlan> to_planes(const Tensor& from, const Planes& planes);
  /// The way back. Bounds are not looked at.
  [[nodiscard]] static Result<ReshapePlan> from_planes(const Tensor& to, const Planes& planes);

  /// What is read and what is made.
  [[nodiscard]] const Tensor& source() const noexcept;
  [[nodiscard]] const Tensor& destination() const noexcept;  ///< The second.
  /// Bytes from the first element's first to the last one's last, gaps included.
  [[nodiscard]] Bytes source_bytes() const noexcept;
  [[nodiscard]] Bytes destination_bytes() const noexcept;  ///< The same of what is made.

  /// The destination is best cut at multiples of so many bytes; elsewhere an element or a group is
  /// made twice.
  [[nodiscard]] Bytes unit() const noexcept;
  /// A range of the source that holds all that this range of the destination is made of.
  [[nodiscard]] ByteRange source_of(ByteRange destination) const noexcept;
  /// How much of the destination, from its front, can be made of the source's first bytes.
  [[nodiscard]] Bytes destination_from(Bytes source_prefix) const noexcept;
  /// How far a value may be off.
  [[nodiscard]] const ReshapeError& error() const noexcept;
  [[nodiscard]] ReshapeClass kind() const noexcept;  ///< What it costs, roughly.
  /// For people: "f32 [256, 3, 224, 224] to bf16 [...], 0.5 ulp".
  [[nodiscard]] std::string text() const;

  /// Makes bytes [from, from + to.size()) of the destination in the calling thread. `source` is a
  /// part of the source, from its byte `source_from` on. Faults are not caught. False, and nothing
  /// was made: the destination has no such bytes, or `source` lacks some of source_of() them.
  bool convert(ByteSpan to, ConstByteSpan source, Bytes from = 0,
               Bytes source_from = 0) const noexcept;

  friend bool operator==(const ReshapePlan& one, const ReshapePlan& other) noexcept {
    return one.state_ == other.state_;  // copies of one, not others that do the same
  }

  // For engines:
  explicit ReshapePlan(std::shared_ptr<const detail::ReshapeState> state) noexcept
      : state_(std::move(state)) {}
  [[nodiscard]] const detail::ReshapeState& state() const noexcept { return *state_; }  ///< Same.

 private:
  std::shared_ptr<const detail::ReshapeState> state_;
};

/// What the elements of a message become on its way.
struct GANTRY_API As {
  As(DataType type) noexcept : to(type) {}  // NOLINT: .as(types::bf16)
  As(ReshapePlan all) noexcept              // NOLINT: .as(plan)
      : to(all.destination().type), plan(std::move(all)) {}

  DataType to;                      ///< The type that the reader gets.
  std::optional<DataType> from;     ///< The type of bytes that are sent without a tensor.
  bool exact = false;               ///< Refuse what loses something.
  std::optional<ReshapePlan> plan;  ///< Instead: its source is what is sent.

  /// The plan for what is sent: `bytes` of it, with a tensor if it has one. Errors:
  /// `invalid_argument` for bytes without a tensor and without `from`, a tensor of another type or
  /// shape than `plan` or `from` say, and as ReshapePlan::make().
  [[nodiscard]] Result<ReshapePlan> plan_for(const std::optional<Tensor>& tensor,
                                             Bytes bytes) const;
  /// Reads "bf16", or "f32 -> bf16". Errors: `invalid_argument`.
  [[nodiscard]] static Result<As> parse(std::string_view text);
  /// As parse() reads it; a plan's text.
  [[nodiscard]] std::string text() const;
};

}  // namespace gantry
