#pragma once  // bench/peers/list.hpp: the other systems, those that were built.

#include "../support/report/report.hpp"
#include "../support/trips/subject.hpp"

namespace gantry::bench {

/// Puts words before those of a requester's own program: valgrind and its arguments.
using Wrapper = std::vector<std::string>;

/// Those that `wants` says, in the order of the tables; `report` gets their versions, and under
/// `skipped` those that were not built or do not start, with the reason.
[[nodiscard]] std::vector<SubjectKind> peer_subjects(
    Report& report, const std::function<bool(std::string_view)>& wants,
    const Wrapper& wrapper = {});

/// Their names, built or not.
[[nodiscard]] std::vector<std::string> peer_names();

}  // namespace gantry::bench
