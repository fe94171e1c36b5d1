#include "run/report/compare.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "output.hpp"

namespace gantry::run {
namespace {

using Align = cli::Table::Align;
using Json = nlohmann::ordered_json;

/// Nothing when there is nothing to compare with.
std::optional<double> ratio(double compared, double run) {
  if (run <= 0) return std::nullopt;
  return compared / run;
}

std::string ratio_text(double compared, double run) {
  const auto times = ratio(compared, run);
  return times ? fmt::format("{:.2f} x", *times) : "-";
}

Json ratio_json(double compared, double run) {
  const auto times = ratio(compared, run);
  return times ? Json(*times) : Json(nullptr);
}

/// One measured value of both runs, as a row of the table.
void add_row(cli::Table& table, std::string subject, std::string what, double run, double compared,
             std::string (*format)(double)) {
  table.add({std::move(subject), std::move(what), format(run), format(compared),
             ratio_text(compared, run)});
}

std::string format_seconds(double seconds) {
  return fmt::format("{:.2f} s", seconds);
}
std::string format_plain(double value) {
  return fmt::format("{:.3f}", value);
}

}  // namespace

std::string to_text(const Comparison& comparison) {
  const RunReport& run = comparison.run;
  const RunReport& compared = comparison.compared;
  cli::Table table({{"", Align::left},
                    {"", Align::left},
                    {std::string(to_string(run.transport)), Align::right},
                    {std::string(to_string(compared.transport)), Align::right},
                    {"ratio", Align::right}});
  for (std::size_t i = 0; i < run.channels.size(); ++i) {
    const ChannelReport& first = run.channels[i];
    const ChannelReport& second = compared.channels[i];
    add_row(table, first.name, "CPU-s per GB", first.cpu_s_per_gb(), second.cpu_s_per_gb(),
            format_plain);
  }
  add_row(table, "pipeline", "wall time", run.wall_s, compared.wall_s, format_seconds);
  add_row(table, "pipeline", "CPU time of all stages", run.cpu_s(), compared.cpu_s(),
          format_seconds);
  return fmt::format(
      "{}\n{}\n{} compared with {} (ratio: how many times as much {} took)\n\n{}\n"
      "the pipeline over {}: {} the wall time, {} the CPU time\n",
      to_text(run), to_text(compared), to_string(run.transport), to_string(compared.transport),
      to_string(compared.transport), table.text(), to_string(compared.transport),
      ratio_text(compared.wall_s, run.wall_s), ratio_text(compared.cpu_s(), run.cpu_s()));
}

Json to_json(const Comparison& comparison) {
  const RunReport& run = comparison.run;
  const RunReport& compared = comparison.compared;
  Json channels = Json::array();
  for (std::size_t i = 0; i < run.channels.size(); ++i)
    channels.push_back(
        {{"name", run.channels[i].name},
         {"movement_ns_per_message", ratio_json(compared.channels[i].movement_ns_per_message(),
                                                run.channels[i].movement_ns_per_message())},
         {"cpu_s_per_gb",
          ratio_json(compared.channels[i].cpu_s_per_gb(), run.channels[i].cpu_s_per_gb())}});
  return {{"run", to_json(run)},
          {"compared", to_json(compared)},
          {"ratios",
           {{"wall_s", ratio_json(compared.wall_s, run.wall_s)},
            {"cpu_s", ratio_json(compared.cpu_s(), run.cpu_s())},
            {"channels", std::move(channels)}}}};
}

}  // namespace gantry::run
