#include "series.hpp"

namespace gantry::bench {

void Series::add(const std::string& subject, std::string_view metric, std::string_view unit,
                 double figure) {
  for (Line& line : lines_)
    if (line.subject == subject && line.metric == metric) {
      line.figures.push_back(figure);
      return;
    }
  lines_.push_back({subject, metric, unit, {figure}});
}

void Series::forget(const std::string& subject) {
  std::erase_if(lines_, [&](const Line& line) { return line.subject == subject; });
}

void Series::report_to(Report& report, const std::string& case_name, Bytes bytes) {
  for (Line& line : lines_)
    report.rows.push_back(
        {case_name, line.subject, bytes, line.metric, line.unit, summarize(line.figures)});
}

}  // namespace gantry::bench
