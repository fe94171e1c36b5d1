#include "run/report/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace gantry::run {
namespace {

constexpr double kNsPerSecond = 1e9;
constexpr double kBytesPerGb = 1e9;

double share(double part, double whole) noexcept {
  return whole > 0 ? part / whole : 0;
}
double in_seconds(std::uint64_t ns) noexcept {
  return static_cast<double>(ns) / kNsPerSecond;
}

void add_copies(const MetricsReport& end, ChannelReport& to) {
  for (std::size_t engine = 0; engine < kCopyEngines; ++engine) {
    to.copies[engine] += end.copies[engine];
    to.copied_bytes[engine] += end.copied_bytes[engine];
  }
}

void add_link(const MetricsReport& sender, const MetricsReport& receiver, ChannelReport& to) {
  const double weight = static_cast<double>(receiver.messages);
  to.links += 1;
  to.published_messages += sender.messages;
  to.published_bytes += sender.bytes;
  to.messages += receiver.messages;
  to.bytes += receiver.bytes;
  to.handoff_p50_ns += weight * static_cast<double>(receiver.handoff_p50_ns);  // divided at the end
  to.handoff_p99_ns = std::max(to.handoff_p99_ns, static_cast<double>(receiver.handoff_p99_ns));
  to.movement_ns +=
      static_cast<double>(sender.copy_ns + receiver.copy_ns + receiver.handoff_total_ns);
  to.cpu_s += in_seconds(sender.cpu_ns + receiver.cpu_ns);
  to.sender_wait_s += in_seconds(sender.wait_ns);
  to.receiver_wait_s += in_seconds(receiver.wait_ns);
  add_copies(sender, to);
  add_copies(receiver, to);
}

ChannelReport report_channel(const Plan& plan, std::size_t index,
                             const std::vector<StageReport>& stages) {
  const Channel& channel = plan.pipeline().channels[index];
  ChannelReport report;
  report.name = channel.name;
  report.from = stages[channel.from].name;
  report.to = stages[channel.to].name;
  report.seconds = stages[channel.to].wall_s;  // all stages start with the run
  for (const Link& link : plan.links())
    if (link.channel == index) add_link(link.sender.report(), link.receiver.report(), report);
  report.handoff_p50_ns = share(report.handoff_p50_ns, static_cast<double>(report.messages));
  return report;
}

double waited_s(const Plan& plan, std::size_t stage) {
  double sum = 0;
  for (const Link& link : plan.links()) {
    if (link.from.stage == stage) sum += in_seconds(link.sender.report().wait_ns);
    if (link.to.stage == stage) sum += in_seconds(link.receiver.report().wait_ns);
  }
  return sum;
}

StageReport report_stage(const Plan& plan, std::size_t index, const Finished& finished) {
  const Stage& stage = plan.pipeline().stages[index];
  StageReport report;
  report.name = stage.name;
  report.host = stage.host_name;
  report.replicas = stage.replicas;
  report.is_group = stage.is_group;
  double lived_s = 0;
  for (const ProcessUsage& process : finished.processes) {
    if (process.id.stage != index) continue;
    lived_s += process.usage.wall_s;
    report.wall_s = std::max(report.wall_s, process.usage.wall_s);
    report.user_s += process.usage.user_s;
    report.system_s += process.usage.system_s;
    report.max_rss_bytes = std::max(report.max_rss_bytes, process.usage.max_rss_bytes);
  }
  report.counts_waits = std::ranges::any_of(plan.links(), [index](const Link& link) {
    return link.from.stage == index || link.to.stage == index;
  });
  report.waiting = std::min(1.0, share(waited_s(plan, index), lived_s));
  return report;
}

}  // namespace

double ChannelReport::gb_per_s() const noexcept {
  return share(static_cast<double>(bytes) / kBytesPerGb, seconds);
}

double ChannelReport::movement_ns_per_message() const noexcept {
  return share(movement_ns, static_cast<double>(messages));
}

double ChannelReport::cpu_s_per_gb() const noexcept {
  return share(cpu_s, static_cast<double>(bytes) / kBytesPerGb);
}

bool ChannelReport::accounted() const noexcept {
  return published_bytes == bytes && published_messages == messages;
}

std::uint64_t RunReport::bytes() const noexcept {
  return std::accumulate(
      channels.begin(), channels.end(), std::uint64_t{0},
      [](std::uint64_t sum, const ChannelReport& one) { return sum + one.bytes; });
}

double RunReport::cpu_s() const noexcept {
  return std::accumulate(stages.begin(), stages.end(), 0.0, [](double sum, const StageReport& one) {
    return sum + one.user_s + one.system_s;
  });
}

const StageReport& RunReport::slowest() const noexcept {
  return *std::ranges::min_element(stages, {}, [](const StageReport& stage) {
    return std::pair(!stage.counts_waits, stage.waiting);
  });
}

Result<void> RunReport::check_accounts() const {
  const auto wrong = std::ranges::find_if_not(channels, &ChannelReport::accounted);
  if (wrong == channels.end()) return {};
  return tl::unexpected(
      Error{Code::peer_misbehaved,
            fmt::format("channel {}: {} messages of {} bytes were published, but {} of {} received",
                        wrong->name, wrong->published_messages, wrong->published_bytes,
                        wrong->messages, wrong->bytes),
            fmt::format("stage {} must receive until the stream has ended", wrong->to)});
}

RunReport make_report(const Plan& plan, const Finished& finished) {
  RunReport report;
  report.pipeline = plan.pipeline().name;
  report.transport = plan.transport();
  report.wall_s = finished.wall_s;
  report.end = finished.end;
  report.last_words = finished.last_words;
  for (std::size_t stage = 0; stage < plan.pipeline().stages.size(); ++stage)
    report.stages.push_back(report_stage(plan, stage, finished));
  for (std::size_t channel = 0; channel < plan.pipeline().channels.size(); ++channel)
    report.channels.push_back(report_channel(plan, channel, report.stages));
  return report;
}

}  // namespace gantry::run
