#include "look/serve/death_report.hpp"

#include <fmt/format.h>

#include "output.hpp"

namespace gantry::cli {
namespace {

std::string plural(std::uint64_t count, std::string_view what) {
  return fmt::format("{} {}{}", format_count(count), what, count == 1 ? "" : "s");
}

std::string last_of(const ConsumerStatus& consumer) {
  return consumer.held.empty()
             ? fmt::format("at the last look it had received {}",
                           plural(consumer.metrics.messages, "message"))
             : fmt::format("at the last look it held {}", plural(consumer.held.size(), "message"));
}

bool is_gone(int pid) {
  const ProcessState state = process_state(pid);
  return state == ProcessState::gone || state == ProcessState::zombie;
}

}  // namespace

std::vector<Gone> DeathReport::read(const std::vector<Row>& rows,
                                    const std::vector<RankStatus>& ranks) {
  std::map<Who, Seen> now;
  for (const Row& row : rows) {
    const ChannelStatus& channel = row.channel;
    const std::string name = channel.shown_name();
    if (!channel.answered)  // nobody is missed of whom nothing was heard
      for (const auto& [who, last] : seen_)
        if (std::get<0>(who) == name) now.emplace(who, last);
    if (channel.producer_pid > 0)
      now[{name, "producer", channel.producer_pid}] = {
          channel.producer_who.text(),
          channel.ended ? "its stream had ended" : "at the last look its stream had not ended"};
    for (const ConsumerStatus& consumer : channel.consumers)
      now[{name, "consumer", consumer.pid}] = {consumer.who.text(), last_of(consumer)};
    for (const SenderStatus& sender : channel.senders)
      now[{name, "sender", sender.pid}] = {
          sender.who.text(),
          fmt::format("at the last look it had sent {}", plural(sender.messages, "message"))};
  }
  for (const RankStatus& rank : ranks)
    now[{rank.group, fmt::format("rank {}", rank.rank), rank.pid}] = {{}, rank.text()};
  std::vector<Gone> gone;
  for (const auto& [who, last] : seen_)
    if (const auto& [where, role, pid] = who; !now.contains(who) && pid > 0 && is_gone(pid))
      gone.push_back({where, role, pid, last.name, last.last, std::chrono::steady_clock::now()});
  seen_ = std::move(now);
  return gone;
}

}  // namespace gantry::cli
