#include "calibration_text.hpp"

#include <fmt/format.h>

#include <cmath>
#include <set>

#include "output.hpp"

namespace gantry::cli {
namespace {

using nlohmann::json;

constexpr std::array kUses{SubmitMode::synchronous, SubmitMode::queued};

json size_or_null(const std::optional<Bytes>& bytes) {
  return bytes ? json(*bytes) : json();
}

json engine_json(const Calibration& calibration, const EngineCosts& costs) {
  json points = json::array();
  for (const CostPoint& point : costs.points)
    points.push_back({{"bytes", point.bytes},
                      {"synchronous_ns", point.synchronous_ns},
                      {"queued_ns", point.queued_ns},
                      {"caller_ns", point.caller_ns}});
  json engine{{"engine", costs.engine}, {"simulated", costs.simulated}, {"points", points}};
  if (costs.engine != "inline")
    for (const SubmitMode use : kUses)
      engine["break_even_bytes"][std::string(to_string(use))] =
          size_or_null(break_even(calibration, costs.engine, use));
  return engine;
}

std::string time_text(double ns) {
  return format_time(std::chrono::nanoseconds(std::llround(ns)));
}

const CostPoint* point_at(const EngineCosts& costs, Bytes bytes) {
  for (const CostPoint& point : costs.points)
    if (point.bytes == bytes) return &point;
  return nullptr;
}

std::string streaming_text(const Calibration& calibration) {
  return calibration.streaming_from == 0
             ? "at no size: they gain nothing here"
             : fmt::format("from {} on", format_bytes(calibration.streaming_from));
}

}  // namespace

json calibration_json(const CalibrationStatus& status) {
  const Calibration& calibration = status.calibration;
  json engines = json::array();
  for (const EngineCosts& costs : calibration.engines)
    engines.push_back(engine_json(calibration, costs));
  return {{"source", to_string(calibration.source)},
          {"machine", calibration.machine},
          {"path", status.path},
          {"kept", status.kept},
          {"note", status.note},
          {"streaming_from_bytes",
           calibration.streaming_from == 0 ? json() : json(calibration.streaming_from)},
          {"cache_share_bytes", calibration.cache_share},
          {"helping_gain", calibration.helping_gain},
          {"engines", engines}};
}

std::string calibration_facts_text(const CalibrationStatus& status) {
  const Calibration& calibration = status.calibration;
  Table table({{"CALIBRATION"}, {}});
  const std::string source = calibration.source == Calibration::Source::defaults
                                 ? "defaults: nothing was measured (gantry calibrate)"
                                 : std::string(to_string(calibration.source));
  table.add({"source", source});
  table.add({"kept in", status.kept ? status.path
                        : status.path.empty()
                            ? "nowhere"
                            : status.path + (status.note.empty() ? " (not there)"
                                                                 : " (not used: see the note)")});
  if (!status.note.empty()) table.add({"note", status.note});
  table.add({"streaming stores", streaming_text(calibration)});
  table.add({"share of the cache", format_bytes(calibration.cache_share)});
  if (calibration.source == Calibration::Source::full)
    table.add({"a waiter's help", fmt::format("{:.2f} times the rate", calibration.helping_gain)});
  return table.text();
}

std::string costs_text(const Calibration& calibration, std::size_t step) {
  if (calibration.engines.empty()) return {};
  std::vector<Table::Column> columns{{"SIZE", Table::Align::right}};
  std::set<Bytes> sizes;
  for (const EngineCosts& costs : calibration.engines) {
    const std::string name = costs.engine + (costs.simulated ? " (simulated)" : "");
    for (const char* what : {" awaited", " queued", " caller"})
      columns.push_back({name + what, Table::Align::right});
    for (const CostPoint& point : costs.points) sizes.insert(point.bytes);
  }
  Table table(columns);
  std::size_t index = 0;
  for (const Bytes bytes : sizes) {
    if (index++ % step != 0) continue;
    std::vector<std::string> row{format_bytes(bytes)};
    for (const EngineCosts& costs : calibration.engines) {
      const CostPoint* const point = point_at(costs, bytes);
      for (const auto member :
           {&CostPoint::synchronous_ns, &CostPoint::queued_ns, &CostPoint::caller_ns})
        row.push_back(point == nullptr ? "-" : time_text(point->*member));
    }
    table.add(std::move(row));
  }
  return table.text();
}

std::string break_even_text(const Calibration& calibration) {
  std::string text;
  for (const EngineCosts& costs : calibration.engines) {
    if (costs.engine == "inline") continue;
    for (const SubmitMode use : kUses) {
      const auto from = break_even(calibration, costs.engine, use);
      const std::string_view when = use == SubmitMode::synchronous ? "awaited" : "queued";
      text +=
          from ? fmt::format("{} beats inline from {} when {}, of the sizes that were measured\n",
                             costs.engine, format_bytes(*from), when)
               : fmt::format("{} never beats inline when {}\n", costs.engine, when);
    }
  }
  return text;
}

}  // namespace gantry::cli
