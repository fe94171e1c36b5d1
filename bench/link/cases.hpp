#pragma once  // bench/link/cases.hpp: the messages that cross the wire, and how.

#include "../support/trips/subject.hpp"
#include "settings.hpp"

namespace gantry::bench {

/// "10G/round-trip/64 B".
[[nodiscard]] std::string link_case_name(const Rate& rate, std::string_view question, Bytes bytes);

/// What was asked for at that rate, of those sizes, in the order of the report; without folders.
[[nodiscard]] std::vector<Case> link_cases(const Settings& settings, const Rate& rate,
                                           const std::vector<Bytes>& sizes);

}  // namespace gantry::bench
