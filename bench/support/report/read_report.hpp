#pragma once  // bench/support/report/read_report.hpp: a report of earlier, for those who draw it.

#include <memory>

#include "report.hpp"

namespace gantry::bench {

/// What a document of the benchmark contract says of its figures; machine and findings are not
/// taken up.
struct ReadReport {
  std::unique_ptr<std::vector<std::string>> words;  ///< What the rows' metrics and units refer to.
  Report report;
};

/// Errors: `invalid_argument` for what is no such document.
[[nodiscard]] Result<ReadReport> read_report(std::string_view text);

}  // namespace gantry::bench
