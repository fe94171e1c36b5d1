#include "read_report.hpp"

#include <nlohmann/json.hpp>

namespace gantry::bench {
namespace {

using nlohmann::json;

Row row_of(const json& one, std::string_view metric, std::string_view unit) {
  return {one.at("case").get<std::string>(),
          one.at("subject").get<std::string>(),
          one.at("bytes").get<Bytes>(),
          metric,
          unit,
          {one.at("value").get<double>(), one.at("min").get<double>(), one.at("max").get<double>(),
           one.at("rounds").get<std::size_t>()}};
}

}  // namespace

Result<ReadReport> read_report(std::string_view text) {
  try {
    const json document = json::parse(text);
    const json& rows = document.at("results");
    ReadReport read{std::make_unique<std::vector<std::string>>(), {}};
    read.report.bench = document.at("bench").get<std::string>();
    read.words->reserve(2 * rows.size());  // they stay where they are
    for (const json& row : rows) {
      read.words->push_back(row.at("metric").get<std::string>());
      const std::string& metric = read.words->back();
      read.words->push_back(row.at("unit").get<std::string>());
      read.report.rows.push_back(row_of(row, metric, read.words->back()));
    }
    return read;
  } catch (const json::exception&) {
    return tl::unexpected(Error{Code::invalid_argument, "this is no report of a benchmark",
                                "gantry bench NAME --json makes one"});
  }
}

}  // namespace gantry::bench
