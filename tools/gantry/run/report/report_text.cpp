#include <fmt/format.h>

#include <algorithm>

#include "output.hpp"
#include "run/report/report.hpp"

namespace gantry::run {
namespace {

using Align = cli::Table::Align;

std::string copies_text(const ChannelReport& channel) {
  std::string text;
  for (std::size_t engine = 0; engine < kCopyEngines; ++engine) {
    if (channel.copies[engine] == 0) continue;
    text += fmt::format("{}{} {}, {}", text.empty() ? "" : "; ",
                        cli::format_count(channel.copies[engine]),
                        to_string(static_cast<CopyEngine>(engine)),
                        cli::format_bytes(channel.copied_bytes[engine]));
  }
  return text.empty() ? "none" : text;
}

std::string channels_text(const RunReport& report) {
  cli::Table table({{"channel", Align::left},
                    {"from -> to", Align::left},
                    {"messages", Align::right},
                    {"bytes", Align::right},
                    {"rate", Align::right},
                    {"hand-off p50", Align::right},
                    {"p99", Align::right},
                    {"movement/message", Align::right},
                    {"CPU-s/GB", Align::right},
                    {"waited to send", Align::right},
                    {"to receive", Align::right},
                    {"copies", Align::left}});
  for (const ChannelReport& one : report.channels)
    table.add({one.name, fmt::format("{} -> {}", one.from, one.to), cli::format_count(one.messages),
               cli::format_bytes(one.bytes), cli::format_rate(one.gb_per_s() * 1e9),
               format_ns(one.handoff_p50_ns), format_ns(one.handoff_p99_ns),
               format_ns(one.movement_ns_per_message()), fmt::format("{:.3f}", one.cpu_s_per_gb()),
               fmt::format("{:.2f} s", one.sender_wait_s),
               fmt::format("{:.2f} s", one.receiver_wait_s), copies_text(one)});
  std::string text = table.text(cli::page_width());
  if (report.transport == Transport::pipe)
    text += "hand-off and movement include what a writer waits for a slow reader\n";
  return text;
}

std::string stages_text(const RunReport& report) {
  const bool has_hosts =
      std::ranges::any_of(report.stages, [](const StageReport& one) { return !one.host.empty(); });
  cli::Table table({{has_hosts ? "stage@host" : "stage", Align::left},
                    {"replicas", Align::right},
                    {"wall", Align::right},
                    {"CPU user", Align::right},
                    {"CPU system", Align::right},
                    {"waiting", Align::right},
                    {"max memory", Align::right}});
  for (const StageReport& one : report.stages)
    table.add({one.host.empty() ? one.name : fmt::format("{}@{}", one.name, one.host),
               fmt::format("{}", one.replicas), fmt::format("{:.2f} s", one.wall_s),
               fmt::format("{:.2f} s", one.user_s), fmt::format("{:.2f} s", one.system_s),
               one.counts_waits ? fmt::format("{:.0f} %", one.waiting * 100) : "-",
               cli::format_bytes(one.max_rss_bytes)});
  return table.text(cli::page_width());
}

std::string accounts_text(const RunReport& report) {
  const Result<void> fine = report.check_accounts();
  return fine ? "every published byte was received" : fine.error().message;
}

std::string first_line(const RunReport& report) {
  const bool has_groups = std::ranges::any_of(report.stages, &StageReport::is_group);
  const bool counts = !has_groups || !report.channels.empty();
  return fmt::format("pipeline {} over {}: {:.2f} s,{} {:.2f} CPU-s in all{}{}\n", report.pipeline,
                     to_string(report.transport), report.wall_s,
                     counts ? fmt::format(" {} moved,", cli::format_bytes(report.bytes())) : "",
                     report.cpu_s(), counts ? "; " + accounts_text(report) : "",
                     has_groups ? "; what ranks exchange is not counted" : "");
}

}  // namespace

std::string format_ns(double ns) {
  return cli::format_time(std::chrono::nanoseconds(static_cast<std::int64_t>(ns)));
}

std::string to_text(const RunReport& report) {
  std::string text = first_line(report);
  if (!report.channels.empty()) text += fmt::format("\n{}", channels_text(report));
  text += fmt::format("\n{}", stages_text(report));
  if (!report.channels.empty())
    text += fmt::format("\nslowest stage: {} (it waited least)\n", report.slowest().name);
  return text;
}

}  // namespace gantry::run
