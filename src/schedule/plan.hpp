#pragma once  // schedule/plan.hpp: plans in words, for the parts of this module.

#include <gantry/schedule/plan.hpp>

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

}  // namespace gantry
