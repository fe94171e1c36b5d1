#include "findings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "../support/program/sizes.hpp"
#include "../support/report/findings.hpp"
#include "cases.hpp"
#include "subjects.hpp"

namespace gantry::bench {
namespace {

constexpr Bytes kSmallest = 64;
constexpr Bytes kPayloadCounts = Bytes{64} << 10;  // below, headers are most of what crosses

/// The quickest of other systems in a case; null when there is none.
const Row* best_tcp_peer(const Report& report, const std::string& case_name) {
  const Row* best = nullptr;
  for (const std::string& peer : tcp_peer_names()) {
    const Row* const row = report.find(case_name, peer, kThroughput);
    if (row != nullptr && (best == nullptr || row->summary.value > best->summary.value)) best = row;
  }
  return best;
}

void add_speeds(Ratios& ratios, const Report& report, const std::string& name) {
  const Row* const peer = best_tcp_peer(report, name);
  for (const char* const ours : {kStreamName, kLinkPutName}) {
    ratios.in_case(name, ours, kIntoPlaceName, Bar::none(), kThroughput);
    if (peer == nullptr) continue;
    ratios.of_rows(fmt::format("{}: {} of {} / {}", name, kThroughput, ours, peer->subject),
                   report.find(name, ours, kThroughput), peer, Bar::none());
  }
}

}  // namespace

void add_link_findings(Report& report, const Settings& settings) {
  Ratios ratios(report);
  for (const Rate& rate : settings.rates) {
    const std::string smallest = link_case_name(rate, kRoundTrip, kSmallest);
    for (const char* const ours : {kStreamName, kLinkPutName})
      ratios.in_case(smallest, ours, kTcpPingPongName, Bar::none());
    for (const Bytes bytes : settings.common.sizes)
      add_speeds(ratios, report, link_case_name(rate, kOneWay, bytes));
  }
}

std::string wire_text(const Report& report) {
  std::map<std::string, std::pair<double, double>> ranges;  // of the medians
  for (const Row& row : report.rows) {
    if (row.metric != kWireBytes || row.bytes < kPayloadCounts) continue;
    const double value = row.summary.value;
    auto& [least, most] = ranges.try_emplace(row.subject, value, value).first->second;
    least = std::min(least, value);
    most = std::max(most, value);
  }
  if (ranges.empty()) return {};
  std::string text = fmt::format("\nbytes on the wire for a byte of payload, from {} on\n",
                                 format_size(kPayloadCounts));
  for (const auto& [subject, range] : ranges)
    text += fmt::format("  {:<25}{:.4f} .. {:.4f}\n", subject, range.first, range.second);
  return text;
}

}  // namespace gantry::bench
