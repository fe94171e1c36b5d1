#include "cases.hpp"

#include <fmt/format.h>

#include "../support/program/sizes.hpp"
#include "subjects.hpp"

namespace gantry::bench {

std::string link_case_name(const Rate& rate, std::string_view question, Bytes bytes) {
  return fmt::format("{}/{}/{}", rate.name, question, format_size(bytes));
}

std::vector<Case> link_cases(const Settings& settings, const Rate& rate,
                             const std::vector<Bytes>& sizes) {
  std::vector<Case> cases;
  for (const std::string_view question : kLinkQuestions)
    for (const Bytes bytes : sizes)
      if (settings.asks(question, bytes))
        cases.push_back({.name = link_case_name(rate, question, bytes),
                         .bytes = bytes,
                         .directory = {},
                         .segments = {bytes},
                         .in_flight = question == kOneWay ? kLinkInFlight : 1});
  return cases;
}

}  // namespace gantry::bench
