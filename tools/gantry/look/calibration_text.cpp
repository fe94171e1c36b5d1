#include "look/calibration_text.hpp"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "output.hpp"

namespace gantry::cli {
namespace {

using nlohmann::json;

constexpr std::array kUses{SubmitMode::synchronous, SubmitMode::queued};

json size_or_null(const std::optional<Bytes>& bytes) {
  return bytes ? json(*bytes) : json();
}

json points_json(const std::vector<CostPoint>& points) {
  json all = json::array();
  for (const CostPoint& point : points)
    all.push_back({{"bytes", point.bytes},
                   {"synchronous_ns", point.synchronous_ns},
                   {"queued_ns", point.queued_ns},
                   {"caller_ns", point.caller_ns}});
  return all;
}

json engine_json(const Calibration& calibration, const EngineCosts& costs) {
  json engine{{"engine", costs.engine},
              {"simulated", costs.simulated},
              {"points", points_json(costs.points)},
              {"reshapes", json::object()}};
  for (std::size_t i = 0; i < kReshapeClasses; ++i)
    if (!costs.reshapes[i].empty())
      engine["reshapes"][std::string(to_string(static_cast<ReshapeClass>(i)))] =
          points_json(costs.reshapes[i]);
  if (costs.engine != "inline")
    for (const SubmitMode use : kUses)
      engine["break_even_bytes"][std::string(to_string(use))] =
          size_or_null(break_even(calibration, costs.engine, use));
  return engine;
}

std::string time_text(double ns) {
  return format_time(std::chrono::nanoseconds(std::llround(ns)));
}

const CostPoint* point_at(const std::vector<CostPoint>& points, Bytes bytes) {
  for (const CostPoint& point : points)
    if (point.bytes == bytes) return &point;
  return nullptr;
}

/// What begins a table of costs, three columns for each engine.
std::vector<Table::Column> cost_columns(const Calibration& calibration,
                                        std::vector<Table::Column> columns) {
  for (const EngineCosts& costs : calibration.engines) {
    const std::string name = costs.engine + (costs.simulated ? " (simulated)" : "");
    for (const char* what : {" awaited", " queued", " caller"})
      columns.push_back({name + what, Table::Align::right});
  }
  return columns;
}

void add_costs(std::vector<std::string>& row, const CostPoint* point) {
  for (const auto member :
       {&CostPoint::synchronous_ns, &CostPoint::queued_ns, &CostPoint::caller_ns})
    row.push_back(point == nullptr ? "-" : time_text(point->*member));
}

/// The largest size of a class, up to the one that people compare at, that the first engine has.
Bytes shown_size(const Calibration& calibration, std::size_t place) {
  constexpr Bytes kShown = Bytes{1} << 20;
  Bytes shown = 0;
  for (const CostPoint& point : calibration.engines.front().reshapes[place])
    if (point.bytes <= kShown || shown == 0) shown = point.bytes;
  return shown;
}

/// A line for each class that was measured; "": none was.
std::string reshapes_text(const Calibration& calibration) {
  Table table(cost_columns(calibration, {{"RESHAPE"}, {"MADE", Table::Align::right}}));
  bool any = false;
  for (std::size_t i = 0; i < kReshapeClasses; ++i) {
    const Bytes bytes = shown_size(calibration, i);
    if (bytes == 0) continue;
    any = true;
    std::vector<std::string> row{std::string(to_string(static_cast<ReshapeClass>(i))),
                                 format_bytes(bytes)};
    for (const EngineCosts& costs : calibration.engines)
      add_costs(row, point_at(costs.reshapes[i], bytes));
    table.add(std::move(row));
  }
  return any ? table.text() : "";
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
  std::set<Bytes> sizes;
  for (const EngineCosts& costs : calibration.engines)
    for (const CostPoint& point : costs.points) sizes.insert(point.bytes);
  Table table(cost_columns(calibration, {{"SIZE", Table::Align::right}}));
  std::size_t index = 0;
  for (const Bytes bytes : sizes) {
    if (index++ % step != 0) continue;
    std::vector<std::string> row{format_bytes(bytes)};
    for (const EngineCosts& costs : calibration.engines)
      add_costs(row, point_at(costs.points, bytes));
    table.add(std::move(row));
  }
  const std::string reshapes = reshapes_text(calibration);
  return table.text() + (reshapes.empty() ? "" : "\n") + reshapes;
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
