#pragma once  // bench/support/report/findings.hpp: figures as people read them, and ratios against
              // bars.

#include <functional>
#include <limits>
#include <optional>

#include "report.hpp"

namespace gantry::bench {

/// What a figure has to be; `text` where that cannot be said by one number.
struct Bar {
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  std::string text{};

  [[nodiscard]] static Bar at_least(double figure);
  [[nodiscard]] static Bar at_most(double figure);
  [[nodiscard]] static Bar said(std::string text);
  [[nodiscard]] static Bar none() { return said({}); }
  [[nodiscard]] bool is_judged() const noexcept {
    return least > -std::numeric_limits<double>::infinity() ||
           most < std::numeric_limits<double>::infinity();
  }
};

/// Adds ratios of medians to a report's findings, those whose two rows are both there. Where one
/// is, and the report knows the other's subject from another case or as skipped, a bar is not met;
/// others were not asked for.
class Ratios {
 public:
  explicit Ratios(Report& report) noexcept : report_(report) {}

  /// value(`over`) / value(`under`) of two subjects of one case.
  void in_case(const std::string& case_name, std::string_view over, std::string_view under,
               const Bar& bar, std::string_view metric = kLatencyP50);
  /// The same subject in two cases.
  void of_cases(const std::string& over, const std::string& under, std::string_view subject,
                const Bar& bar, std::string_view metric = kLatencyP50);
  /// Any two rows, either of which may be null.
  void of_rows(std::string what, const Row* over, const Row* under, const Bar& bar);
  /// A figure that is no ratio.
  void figure(std::string what, double value, const Bar& bar);

 private:
  /// `missing`: the subject without a row, if there is one.
  void of_subjects(std::string what, const Row* over, const Row* under, std::string_view missing,
                   const Bar& bar);

  Report& report_;
};

/// Names of the cases that begin so, each once, in their order.
[[nodiscard]] std::vector<std::string> cases_with(const Report& report, std::string_view prefix);

/// A table for each case, one figure a line; latencies beside those of the subject that
/// `reference_of` names for the case, "": none.
[[nodiscard]] std::string to_list(
    const Report& report, const std::function<std::string(const std::string&)>& reference_of);
/// Null where all bars of a report are met; otherwise how many are not, and which is the first.
[[nodiscard]] std::optional<Error> missed_bars(const Report& report);
/// The findings with what was wanted of them; "" when there are none.
[[nodiscard]] std::string findings_text(const Report& report);

}  // namespace gantry::bench
