#pragma once  // bench/ipc/cases.hpp: the messages that are sent, and how.

#include "../support/trips/subject.hpp"
#include "settings.hpp"

namespace gantry::bench {

inline constexpr const char* kImageBatch = "image-batch";   ///< 256x3x224x224 fp32.
inline constexpr const char* kFrame = "frame-4k";           ///< 3840x2160 RGB fp32.
inline constexpr const char* kTable = "table-40x1M";        ///< 40 columns of 1,000,000 rows.
inline constexpr const char* kNeighbourhood = "csr-graph";  ///< A graph neighbourhood, as CSR.

[[nodiscard]] std::string in_flight_name(std::string_view of);
[[nodiscard]] std::string fan_out_name(unsigned readers, std::string_view of);
[[nodiscard]] std::string hand_off_name(std::string_view of);
[[nodiscard]] std::string computing_name(std::string_view of);
[[nodiscard]] std::string typed_name(std::string_view of);
[[nodiscard]] std::string beside_name(Beside beside, bool is_paced, std::string_view of);
[[nodiscard]] std::string asked_name(Asked asked, std::string_view of);

/// The case of one message in flight to one reader that has that name: a shape, or of that size.
[[nodiscard]] Case case_named(std::string_view name, Bytes bytes);

/// What was asked for, in the order of the report; without folders.
[[nodiscard]] std::vector<Case> cases_of(const Settings& settings);

}  // namespace gantry::bench
