#include "looks.hpp"

#include <algorithm>

namespace gantry::cli {

Result<std::vector<Row>> Looks::look() {
  auto channels = list(which_, interrupt_);
  if (!channels) return tl::unexpected(channels.error());
  std::map<std::string, Seen> seen;
  std::vector<Row> rows;
  for (ChannelStatus& channel : *channels) {
    const auto before = seen_.find(channel.name);
    if (before != seen_.end()) remember_process(channel, before->second);
    Row row{.channel = std::move(channel)};
    if (before != seen_.end()) rate(row, before->second);
    seen[row.channel.name] = {row.channel.producer_pid,      row.channel.producer_who,
                              row.channel.producer.messages, row.channel.producer.bytes,
                              row.channel.answered,          row.channel.age};
    rows.push_back(std::move(row));
  }
  seen_ = std::move(seen);
  std::ranges::sort(rows, [](const Row& one, const Row& other) {
    return one.bytes_per_s != other.bytes_per_s ? one.bytes_per_s > other.bytes_per_s
                                                : one.channel.name < other.channel.name;
  });
  return rows;
}

// A stopped producer's queue of callers fills up; then nobody is told who it is.
void Looks::remember_process(ChannelStatus& channel, const Seen& before) {
  if (channel.answered) return;
  if (channel.producer_pid == 0 || channel.producer_pid == before.pid)
    channel.producer_who = before.who;
  if (channel.producer_pid != 0 || before.pid == 0) return;
  channel.producer_pid = before.pid;
  channel.producer_state = process_state(before.pid);
}

// By the clock of the end itself, at the moments of its two answers: a look takes as long as the
// slowest end, and what this one moved must not depend on that.
void Looks::rate(Row& row, const Seen& before) {
  const auto& [pid, who, messages, bytes, answered, age] = before;
  const MetricsReport& producer = row.channel.producer;
  row.is_known = answered && row.channel.answered && pid == row.channel.producer_pid &&
                 producer.messages >= messages && producer.bytes >= bytes && row.channel.age > age;
  if (!row.is_known) return;
  const double seconds = std::chrono::duration<double>(row.channel.age - age).count();
  row.messages_per_s = static_cast<double>(producer.messages - messages) / seconds;
  row.bytes_per_s = static_cast<double>(producer.bytes - bytes) / seconds;
}

}  // namespace gantry::cli
