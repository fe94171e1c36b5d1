#pragma once  // schedule/plan.hpp: plans in words, for the parts of this module.

#include <gantry/plan.hpp>
#include <optional>

namespace gantry {

// Bounds of what is read and checked, so that nobody's plan costs more than they say.
inline constexpr unsigned kMostRanks = 4096;
inline constexpr unsigned kMostLanes = 64;
inline constexpr std::size_t kMostSteps = std::size_t{1} << 20;
inline constexpr std::size_t kMostStepsInLanes = std::size_t{1} << 28;  // steps times all lanes
inline constexpr std::size_t kMostTensors = 256;
inline constexpr std::int64_t kMostRows = std::int64_t{1} << 40;
inline constexpr std::size_t kLongestName = 64;
inline constexpr unsigned kBitsOfByte = 8;
// Of a check, over all tensors of all ranks: CheckBudget.
inline constexpr std::size_t kMostTiles = std::size_t{1} << 21;
inline constexpr std::size_t kMostLooks = std::size_t{1} << 26;
inline constexpr std::size_t kMostTermsMade = std::size_t{1} << 24;
inline constexpr std::size_t kMostTermsOfSum = std::size_t{1} << 13;

/// Error for a text that does not begin as it should: `what` ("plan", "collective") begins with
/// the line `magic`.
[[nodiscard]] Error wrong_first_line(std::string_view what, std::string_view line,
                                     std::string_view magic);
/// Error for a line of another system's text; nothing: it is none.
[[nodiscard]] Result<void> check_line_end(std::string_view line);

[[nodiscard]] std::string text_of(const PlanRect& rect);  ///< "0:16,0:32"
/// "a@1 0:16,0:32". The tensor must exist.
[[nodiscard]] std::string text_of(const Plan& plan, const PlanPlace& place);
[[nodiscard]] std::string text_of(const PlanTerm& term);  ///< "A*B 0,0 0:32"

/// Nothing: there is none of that name.
[[nodiscard]] std::optional<DataType> plan_type(std::string_view name) noexcept;
[[nodiscard]] std::string_view name_of(const DataType& type) noexcept;  ///< Empty: none of these.

// ---- elements and rectangles -----------------------------------------------------------------

[[nodiscard]] inline Bytes element_bytes(const PlanTensor& tensor) noexcept {
  return tensor.type.bits / kBitsOfByte;
}
[[nodiscard]] inline Bytes bytes_of(const PlanTensor& tensor) noexcept {
  return static_cast<Bytes>(tensor.rows) * static_cast<Bytes>(tensor.cols) * element_bytes(tensor);
}
[[nodiscard]] inline Bytes bytes_of(const Plan& plan, const PlanPlace& place) noexcept {
  return static_cast<Bytes>(place.rect.rows) * static_cast<Bytes>(place.rect.cols) *
         element_bytes(plan.tensors[place.tensor]);
}
[[nodiscard]] constexpr bool is_empty(const PlanRect& rect) noexcept {
  return rect.rows <= 0 || rect.cols <= 0;
}
[[nodiscard]] constexpr bool overlap(const PlanRect& one, const PlanRect& other) noexcept {
  return one.row < other.row + other.rows && other.row < one.row + one.rows &&
         one.col < other.col + other.cols && other.col < one.col + one.cols;
}

// ---- steps -----------------------------------------------------------------------------------

/// Nothing: there is none of that name.
[[nodiscard]] std::optional<PlanVerb> plan_verb(std::string_view name) noexcept;
/// Signals and barriers touch nobody's memory.
[[nodiscard]] constexpr bool has_place(const PlanStep& step) noexcept {
  return step.verb != PlanVerb::signal && step.verb != PlanVerb::barrier;
}
/// Calls `visit` with each place that the step reads or writes: first with that which it writes.
template <class Visit>
void visit_places(const PlanStep& step, Visit visit) {
  if (!has_place(step)) return;
  visit(step.to);
  if (step.verb == PlanVerb::fill) return;
  visit(step.from);
  if (step.verb == PlanVerb::gemm) visit(step.other);
}

// ---- checks ----------------------------------------------------------------------------------

/// Ranks, lanes, names, places and shapes fit; each step touches what its verb may touch. Errors:
/// `invalid_argument`, `too_large`.
[[nodiscard]] Result<void> check_shape(const Plan& plan);

}  // namespace gantry
