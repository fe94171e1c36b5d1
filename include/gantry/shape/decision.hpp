#pragma once  // gantry/shape/decision.hpp: answers from the leading digits of elements in planes.

#include <gantry/channel.hpp>
#include <gantry/shape.hpp>
#include <limits>
#include <vector>

namespace gantry {

// Who only decides (the best class, anything above a limit, the nearest vector) needs few digits of
// most values. A decision reads elements that lie in planes (docs/formats/planes.md) from the
// highest digits on, reads further only where it must, and stops when the answer is certain: it is
// then the answer that all digits would give. docs/mechanisms/decisions.md has the rules and costs.

/// Elements in planes: what the bytes do not say of themselves.
struct GANTRY_API PlanedElements {
  DataType type;           ///< Of each; of 8, 16, 32 or 64 bits and no group.
  std::int64_t count = 0;  ///< How many; of a tensor all, row by row.
  Planes planes;           ///< As they were made: ReshapePlan::to_planes().
  /// Bytes of all planes. Errors: `invalid_argument`, as a decision about them.
  [[nodiscard]] Result<Bytes> bytes() const;
};

/// Elements [first, first + count).
struct ElementRange {
  std::size_t first = 0;  ///< The first.
  std::size_t count = 0;  ///< How many.
  [[nodiscard]] std::size_t end() const noexcept {
    return first + count;
  }  ///< One beyond the last.
  friend bool operator==(const ElementRange&, const ElementRange&) = default;
};

/// What is known of values of which only the leading digits are.
struct Bounds {
  double lo = 0;         ///< No value is less. Above `hi` if all are surely NaN.
  double hi = 0;         ///< No value is more.
  bool has_nan = false;  ///< Some may be NaN, of which `lo` and `hi` say nothing.
  friend bool operator==(const Bounds&, const Bounds&) = default;
};
/// The bounds of `range`'s values after the first `planes_read` planes of bytes or bits (0: what
/// the type can hold), not looking at others. `planes`: the front of all planes, at least to where
/// the last byte of these lies. Errors: `invalid_argument`.
[[nodiscard]] GANTRY_API Result<Bounds> bounds_of(ConstByteSpan planes,
                                                  const PlanedElements& elements,
                                                  ElementRange range, unsigned planes_read);

/// How far vectors are from each other.
enum class Metric : std::uint8_t {
  l2,            ///< Sum of (x - q)^2; the least is nearest.
  inner_product  ///< Sum of x * q; the largest is nearest.
};

namespace detail {
struct DecisionParts {
  enum class Kind : std::uint8_t { top, above, any_of, nearest } kind = Kind::top;
  std::size_t k = 1;
  double limit = 0;
  Metric metric = Metric::l2;
  bool has_ranges = false;
  std::vector<ElementRange> ranges;  // groups of top, the regions of above and any_of
  std::vector<float> query;
};
}  // namespace detail

/// A question about elements. A plain value.
///   Order: that of the values. -0 equals +0. NaN is below all numbers, so it is above no limit. Of
///   equals the lowest index is first.
class GANTRY_API Decision {
 public:
  /// The indices of the `k` largest elements, the largest first.
  [[nodiscard]] static Decision top(std::size_t k);
  /// Of top(): the indices of the `k` of these groups with the largest elements, best first: a
  /// group counts as its largest element. With k = 1: which group the best element is in. Elements
  /// in no group are not looked at. Groups may overlap.
  [[nodiscard]] Decision among(std::vector<ElementRange> groups) const;
  /// The indices of all elements of `region` above `limit`, ascending. Without a region: of all.
  [[nodiscard]] static Decision above(double limit);
  /// The same.
  [[nodiscard]] static Decision above(double limit, ElementRange region);
  /// The indices of those regions, ascending, in which any element is above `limit`. Ends earlier
  /// than above(), since one is enough.
  [[nodiscard]] static Decision any_of(double limit, std::vector<ElementRange> regions);
  /// The elements are rows as long as `query`: the indices of the `k` rows nearest to it, the
  /// nearest first. Distances are those of doubles: terms are added from the first element to the
  /// last, each operation is rounded. A row whose distance is NaN is behind all others.
  [[nodiscard]] static Decision nearest(std::vector<float> query, std::size_t k,
                                        Metric metric = Metric::l2);

  // For decide():
  [[nodiscard]] const detail::DecisionParts& parts() const noexcept { return parts_; }

 private:
  detail::DecisionParts parts_;
};

/// What the first planes, with bounds of groups, are taken for.
enum class BoundsUse : std::uint8_t {
  /// Not for proofs, which rest on the values alone. The bounds of a group are read and compared
  /// when one of its elements was read to the last digit.
  checked,
  /// For proofs as well: what the bounds rule out is not read. The proof is then as good as whoever
  /// made the bounds; every element that is read at all is compared with them.
  trusted
};
/// How far to read, and what to trust.
struct DecideOptions {
  /// Stop before more bytes are read, and guess.
  Bytes budget_bytes = std::numeric_limits<Bytes>::max();
  BoundsUse bounds = BoundsUse::checked;  ///< No matter without Planes::bounds_group.
  Deadline deadline = Deadline::never();  ///< For bytes that have yet to land.
};

/// An answer.
struct Decided {
  std::vector<std::size_t> indices;  ///< As the question says.
  bool proven = false;               ///< It is the answer of all digits; else the best guess.
  Bytes bytes_read = 0;  ///< Of the planes; each counts once, but for rows of nearest() that share
                         ///< some: once for each.
};

/// Decides about elements in planes. Fewer bytes than all are their front: what is not there is not
/// read. Nothing that lies in them makes it fail, but for bounds that contradict the values.
/// Errors: `invalid_argument` for a type or number of elements that has no planes, more bytes than
/// all, ranges that are empty or beyond the elements, a k of 0 or more than there are, a limit that
/// is NaN, a query that is not finite or does not divide the elements; `peer_misbehaved` for bounds
/// that contradict the values.
[[nodiscard]] GANTRY_API Result<Decided> decide(ConstByteSpan planes,
                                                const PlanedElements& elements,
                                                const Decision& decision,
                                                const DecideOptions& options = {});
/// The same about a message while it lands, whose whole payload are the planes. Waits only for what
/// it reads and takes nothing: ask again, go on with `incoming` from its first byte, or drop it. Of
/// a streamed one it keeps copies (ReceiveLimits::gathered_bytes; `too_large` beyond that). Errors
/// besides: as Incoming::wait_for(), and `invalid_argument` for a payload of another size.
[[nodiscard]] GANTRY_API Result<Decided> decide(Incoming& incoming, const PlanedElements& elements,
                                                const Decision& decision,
                                                const DecideOptions& options = {});

}  // namespace gantry
