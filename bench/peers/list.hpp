#pragma once  // bench/peers/list.hpp: the other systems, those that were built.

#include "../support/report/report.hpp"
#include "../support/trips/subject.hpp"

namespace gantry::bench {

/// Puts words before those of a requester's own program: valgrind and its arguments.
using Wrapper = std::vector<std::string>;

/// In the order of the tables; `skipped` gets those that were not built, with the reason.
[[nodiscard]] std::vector<SubjectKind> peer_subjects(std::vector<Skipped>& skipped,
                                                     const Wrapper& wrapper = {});

/// Their names, built or not.
[[nodiscard]] std::vector<std::string> peer_names();

}  // namespace gantry::bench
