#include "report.hpp"
#include "tools/command_line/json_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace gantry::bench {
namespace {

using nlohmann::json;

json machine_json(const MachineFacts& machine, const std::optional<CpuPair>& cpus) {
  json caches = json::array();
  for (const CacheFacts& cache : machine.caches) {
    caches.push_back({{"level", cache.level}, {"bytes", cache.bytes}, {"count", cache.count}});
  }
  json facts = {{"cpu_model", machine.cpu_model},
                {"cpus", machine.cpus},
                {"memory_bytes", machine.memory_bytes},
                {"caches", caches},
                {"kernel", machine.kernel}};
  if (cpus) facts["pinned_cpus"] = {cpus->requester, cpus->responder};
  if (cpus && cpus->shared())
    facts["note"] = "only one CPU is allowed: both ends of a pair share it";
  return facts;
}

json row_json(const Row& row) {
  return {{"case", row.case_name},  {"subject", row.subject}, {"bytes", row.bytes},
          {"metric", row.metric},   {"unit", row.unit},       {"value", row.summary.value},
          {"min", row.summary.min}, {"max", row.summary.max}, {"rounds", row.summary.rounds}};
}

json finding_json(const Finding& finding) {
  json found = {{"what", finding.what}, {"value", finding.value}, {"wanted", finding.wanted}};
  if (!finding.is_measured) found["value"] = nullptr;
  if (finding.met) found["met"] = *finding.met;
  return found;
}

/// So that two documents can be compared line by line.
std::string a_result_a_line(const json& document) {
  std::string text = "{";
  for (const auto& [key, value] : document.items()) {
    text += fmt::format("{}\n{}: ", text.size() == 1 ? "" : ",", cli::json_text(json(key)));
    if (!value.is_array() || value.empty()) {
      text += cli::json_text(value);
      continue;
    }
    for (std::size_t i = 0; i < value.size(); ++i)
      text += fmt::format("{}\n  {}", i == 0 ? "[" : ",", cli::json_text(value[i]));
    text += "\n]";
  }
  return text + "\n}\n";
}

}  // namespace

Result<Report> pinned_report(std::string bench) {
  const auto cpus = pick_cpus();
  if (!cpus) return tl::unexpected(cpus.error());
  return Report{std::move(bench), probe_machine(), *cpus, {}, {}};
}

const Row* Report::find(Bytes bytes, std::string_view subject,
                        std::string_view metric) const noexcept {
  const auto row = std::find_if(rows.begin(), rows.end(), [&](const Row& candidate) {
    return candidate.bytes == bytes && candidate.subject == subject && candidate.metric == metric;
  });
  return row == rows.end() ? nullptr : &*row;
}

const Row* Report::find(std::string_view case_name, std::string_view subject,
                        std::string_view metric) const noexcept {
  const auto row = std::find_if(rows.begin(), rows.end(), [&](const Row& candidate) {
    return candidate.case_name == case_name && candidate.subject == subject &&
           candidate.metric == metric;
  });
  return row == rows.end() ? nullptr : &*row;
}

std::string to_json(const Report& report) {
  json results = json::array();
  for (const Row& row : report.rows) results.push_back(row_json(row));
  json skipped = json::array();
  for (const Skipped& peer : report.skipped) {
    skipped.push_back({{"subject", peer.subject}, {"reason", peer.reason}});
  }
  json document = {{"bench", report.bench},
                   {"machine", machine_json(report.machine, report.cpus)},
                   {"results", results},
                   {"skipped", skipped}};
  for (const PeerVersion& peer : report.peers)
    document["peers"].push_back(
        {{"subject", peer.subject}, {"version", peer.version}, {"library", peer.library}});
  for (const Finding& finding : report.findings)
    document["findings"].push_back(finding_json(finding));
  for (const Chosen& one : report.chosen)
    document["chosen"].push_back(
        {{"case", one.case_name}, {"subject", one.subject}, {"text", one.text}});
  return a_result_a_line(document);
}

}  // namespace gantry::bench
