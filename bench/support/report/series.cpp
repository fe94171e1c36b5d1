#include "series.hpp"

namespace gantry::bench {

void Series::add(std::string_view metric, std::string_view unit, double figure) {
  const auto line = std::ranges::find(lines_, metric, &Line::metric);
  if (line != lines_.end())
    line->figures.push_back(figure);
  else
    lines_.push_back({metric, unit, {figure}});
}

void Series::report_to(Report& report, const std::string& case_name, const std::string& subject,
                       Bytes bytes) {
  for (Line& line : lines_)
    report.rows.push_back(
        {case_name, subject, bytes, line.metric, line.unit, summarize(line.figures)});
}

}  // namespace gantry::bench
