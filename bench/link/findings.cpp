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

constexpr Bytes kLarge = Bytes{1} << 20;

/// The quickest of other systems in a case; null when there is none.
const Row* best_tcp_peer(const Report& report, const std::string& case_name) {
  const Row* best = nullptr;
  for (const std::string& peer : tcp_peer_names()) {
    const Row* const row = report.find(case_name, peer, kThroughput);
    if (row != nullptr && (best == nullptr || row->summary.value > best->summary.value)) best = row;
  }
  return best;
}

/// Speeds in one case; what is wanted is wanted of a channel, not of a bare link.
class Speeds {
 public:
  Speeds(Ratios& ratios, const Report& report, std::string name, const char* ours)
      : ratios_(ratios), report_(report), name_(std::move(name)), ours_(ours) {}

  void beside_limit(double share) {
    ratios_.in_case(name_, ours_, kIntoPlaceName, bar(Bar::at_least(share)), kThroughput);
    ratios_.of_rows(fmt::format("{}: CPU a GB of {} / {}", name_, ours_, kIntoPlaceName),
                    report_.find(name_, ours_, kCpuPerGb),
                    report_.find(name_, kIntoPlaceName, kCpuPerGb), bar(Bar::at_most(1.1)));
  }
  void beside_peer(const Row* peer, double share) {
    if (peer == nullptr) return;
    ratios_.of_rows(fmt::format("{}: {} of {} / {}", name_, kThroughput, ours_, peer->subject),
                    report_.find(name_, ours_, kThroughput), peer, bar(Bar::at_least(share)));
  }
  void beside_peers(Bytes bytes, bool is_unlimited) {
    if (bytes < kPayloadCounts) return;
    beside_peer(best_tcp_peer(report_, name_), 1);
    if (bytes < kLarge || !is_unlimited) return;
    for (const char* const copying : {kZeromqTcpName, kNngTcpName})
      beside_peer(report_.find(name_, copying, kThroughput), 1.3);
  }

 private:
  [[nodiscard]] Bar bar(Bar wanted) const {
    return ours_ != kLinkPutName ? std::move(wanted) : Bar::none();
  }

  Ratios& ratios_;
  const Report& report_;
  std::string name_;
  std::string_view ours_;
};

/// Ends that sleep beside a socket whose ends sleep; ends that poll beside a peer that polls.
void add_waits(Ratios& ratios, const std::string& name, double polled) {
  ratios.in_case(name, kStreamName, kIntoPlaceName, Bar::at_most(1.5));
  ratios.in_case(name, kStreamPolledName, kLibfabricTcpName, Bar::at_most(polled));
}

void add_case(Ratios& ratios, const Report& report, const Rate& rate, std::string_view question,
              Bytes bytes) {
  for (const char* const ours : {kStreamName, kStreamBlockName, kFabricName, kLinkPutName}) {
    Speeds speeds(ratios, report, link_case_name(rate, question, bytes), ours);
    if (question == kOneWay && bytes >= kLarge) speeds.beside_limit(rate.is_limited() ? 0.95 : 0.9);
    speeds.beside_peers(bytes, question == kOneWay && !rate.is_limited());
  }
}

}  // namespace

void add_link_findings(Report& report, const Settings& settings) {
  Ratios ratios(report);
  for (const Rate& rate : settings.rates) {
    const std::string smallest = link_case_name(rate, kRoundTrip, kSmallest);
    for (const char* const ours : {kStreamName, kStreamPolledName})
      ratios.in_case(smallest, ours, kTcpPingPongName, Bar::at_most(1.2));
    ratios.in_case(smallest, kLinkPutName, kTcpPingPongName, Bar::none());
    add_waits(ratios, smallest, 1.5);
    add_waits(ratios, link_case_name(rate, kRoundTrip, kPayloadCounts), 1.2);
    for (const std::string_view question : kLinkQuestions)
      for (const Bytes bytes : settings.common.sizes)
        add_case(ratios, report, rate, question, bytes);
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
