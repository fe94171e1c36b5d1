#pragma once  // tools/gantry/ranks/plan/timeline.hpp: simulated time, drawn as text.

#include <gantry/plan.hpp>
#include <optional>
#include <string>

namespace gantry::cli {

struct TimelineOptions {
  std::size_t columns = 60;        ///< Of time.
  std::optional<unsigned> rank{};  ///< Only this one.
  std::size_t most_rows = 64;
};

/// A row for what each rank computes, and for each directed pair between which something moves:
/// '#' gemm, '+' reduce, 'c' copy, '0' fill, '>' put, '<' get, '.' nothing for most of the column.
[[nodiscard]] std::string timeline_text(const Plan& plan, const Simulated& times,
                                        const TimelineOptions& options);

}  // namespace gantry::cli
