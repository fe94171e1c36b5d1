#pragma once  // gantry/decision.hpp: decisions from the leading digits of elements in planes.

#include <gantry/channel.hpp>
#include <gantry/shape.hpp>
#include <limits>
#include <vector>

namespace gantry {

// A decision (the best class, all elements above a limit, the nearest vector) needs few digits
// of most values. decide() reads elements in planes (docs/formats/planes.md) from the highest
// digits on, reads further digits only where necessary, and stops when the answer is certain: it
// then equals the answer from all digits. Rules and costs: docs/mechanisms/decisions.md.

/// Facts about elements in planes; the bytes of the planes do not contain these facts.
struct GANTRY_API PlanedElements {
  DataType type;           ///< Type of each element; 8, 16, 32 or 64 bits, not a group.
  std::int64_t count = 0;  ///< Number of elements; for a tensor all elements, row by row.
  Planes planes;           ///< Options with which the planes were made: ReshapePlan::to_planes().
  /// Size of all planes. Errors: `invalid_argument`, as decide().
  [[nodiscard]] Result<Bytes> bytes() const;
};

/// Elements [first, first + count).
struct ElementRange {
  std::size_t first = 0;  ///< Index of the first element.
  std::size_t count = 0;  ///< Number of elements.
  [[nodiscard]] std::size_t end() const noexcept {
    return first + count;
  }  ///< One past the last element.
  friend bool operator==(const ElementRange&, const ElementRange&) = default;
};

/// Range of values whose leading digits are known.
struct Bounds {
  double lo = 0;         ///< Least possible value. Above `hi` if all values are certainly NaN.
  double hi = 0;         ///< Largest possible value.
  bool has_nan = false;  ///< Some values may be NaN; `lo` and `hi` do not cover NaN.
  friend bool operator==(const Bounds&, const Bounds&) = default;
};
/// Returns the bounds of the values in `range` after the first `planes_read` planes of bytes or
/// bits (0: the range of the type), without reading other planes. `planes`: the beginning of the
/// planes, at least to the last byte that is needed. Errors: `invalid_argument`.
[[nodiscard]] GANTRY_API Result<Bounds> bounds_of(ConstByteSpan planes,
                                                  const PlanedElements& elements,
                                                  ElementRange range, unsigned planes_read);

/// Distance between vectors.
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
///   Elements are ordered by value. -0 equals +0. NaN is below all numbers, and not above any
///   limit. Among equals the lowest index comes first.
class GANTRY_API Decision {
 public:
  /// Asks for the indices of the `k` largest elements, largest first.
  [[nodiscard]] static Decision top(std::size_t k);
  /// For top(): asks for the indices of the `k` groups with the largest elements, best first; a
  /// group counts as its largest element. With k = 1: the group of the best element. Elements
  /// outside all groups are ignored. Groups may overlap.
  [[nodiscard]] Decision among(std::vector<ElementRange> groups) const;
  /// Asks for the indices of all elements above `limit`, ascending.
  [[nodiscard]] static Decision above(double limit);
  /// Asks for the indices of all elements of `region` above `limit`, ascending.
  [[nodiscard]] static Decision above(double limit, ElementRange region);
  /// Asks for the indices of the regions with an element above `limit`, ascending. Ends earlier
  /// than above(), since one element per region suffices.
  [[nodiscard]] static Decision any_of(double limit, std::vector<ElementRange> regions);
  /// Treats the elements as rows of the length of `query` and asks for the indices of the `k` rows
  /// nearest to it, nearest first. Distances are computed as doubles: terms are added from the
  /// first element to the last, and each operation is rounded. A row whose distance is NaN comes
  /// after all others.
  [[nodiscard]] static Decision nearest(std::vector<float> query, std::size_t k,
                                        Metric metric = Metric::l2);

  // For decide():
  [[nodiscard]] const detail::DecisionParts& parts() const noexcept { return parts_; }

 private:
  detail::DecisionParts parts_;
};

/// Use of the groups' bounds, which precede the planes.
enum class BoundsUse : std::uint8_t {
  /// Not used in proofs, which rest on the values alone. A group's bounds are read, and compared
  /// with an element of the group, when that element was read to the last digit.
  checked,
  /// Also used in proofs: elements that the bounds exclude are not read. The proof is then as
  /// reliable as the maker of the bounds; every element that is read at all is compared with them.
  trusted
};
/// Limits on reading, and trust in bounds.
struct DecideOptions {
  /// Stop before more bytes than this are read, and guess.
  Bytes budget_bytes = std::numeric_limits<Bytes>::max();
  BoundsUse bounds = BoundsUse::checked;  ///< No effect without Planes::bounds_group.
  Deadline deadline = Deadline::never();  ///< For bytes that have not landed yet.
};

/// The result of a decision.
struct Decided {
  std::vector<std::size_t> indices;  ///< The answer, in the order that the question defines.
  bool proven = false;  ///< True: equals the answer from all digits. False: the best guess.
  /// Bytes read from the planes. Each counts once, except bytes shared by rows of nearest(): these
  /// count once per row.
  Bytes bytes_read = 0;
};

/// Decides about elements in planes. If `planes` has fewer bytes than all planes, it is their
/// beginning; missing bytes are not read. The content of the planes does not cause errors, except
/// bounds that contradict the values. Errors: `invalid_argument` for a type or number of elements
/// that cannot have planes, more bytes than all planes have, ranges that are empty or beyond the
/// elements, a k of 0 or above the number of elements, a limit that is NaN, a query that is not
/// finite or whose length does not divide the number of elements; `peer_misbehaved` for bounds that
/// contradict the values.
[[nodiscard]] GANTRY_API Result<Decided> decide(ConstByteSpan planes,
                                                const PlanedElements& elements,
                                                const Decision& decision,
                                                const DecideOptions& options = {});
/// Decides about a message while it lands; the planes must be its whole payload. Waits only for the
/// bytes that it reads, and consumes nothing: afterwards the caller may ask again, read `incoming`
/// from its first byte, or drop it. For a streamed message it keeps copies
/// (ReceiveLimits::gathered_bytes; `too_large` beyond that). Further errors: as
/// Incoming::wait_for(), and `invalid_argument` for a payload of another size.
[[nodiscard]] GANTRY_API Result<Decided> decide(Incoming& incoming, const PlanedElements& elements,
                                                const Decision& decision,
                                                const DecideOptions& options = {});

}  // namespace gantry
