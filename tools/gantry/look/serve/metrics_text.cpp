#include "look/serve/metrics_text.hpp"
#include "channel_view.hpp"
#include "tools/command_line/json_text.hpp"

#include <algorithm>

#ifdef GANTRY_HAVE_PROMETHEUS
#include <fmt/format.h>
#include <prometheus/text_serializer.h>

#include <ctime>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

namespace gantry::cli {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;

constexpr std::size_t kMostLabelBytes = 128;

/// What is said of every channel (or consumer, ...) that answers. A name that ends in _total is a
/// counter's.
template <class Of>
struct Column {
  const char* name;
  const char* help;
  double (*value)(const Of&);
};

template <class Number>
double real(Number number) {
  return static_cast<double>(number);
}
double seconds(std::uint64_t ns) {
  return static_cast<double>(ns) / 1e9;
}
double seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

constexpr Column<ChannelStatus> kOfChannels[] = {
    {"gantry_channel_messages_total", "Messages published; by an inbox: received.",
     [](const ChannelStatus& it) { return real(it.producer.messages); }},
    {"gantry_channel_payload_bytes_total", "Payload of those messages.",
     [](const ChannelStatus& it) { return real(it.producer.bytes); }},
    {"gantry_channel_copy_seconds_total", "Time spent copying payload before it was handed over.",
     [](const ChannelStatus& it) { return seconds(it.producer.copy_ns); }},
    {"gantry_channel_cpu_seconds_total", "CPU time inside the producer's calls.",
     [](const ChannelStatus& it) { return seconds(it.producer.cpu_ns); }},
    {"gantry_channel_wait_seconds_total", "Time in which the producer waited for a credit.",
     [](const ChannelStatus& it) { return seconds(it.producer.wait_ns); }},
    {"gantry_channel_depth_messages", "Published and not taken by the consumer furthest behind.",
     [](const ChannelStatus& it) { return real(it.depth()); }},
    {"gantry_channel_backlog_messages", "Messages that wait for a first consumer.",
     [](const ChannelStatus& it) { return real(it.backlog); }},
    {"gantry_channel_credits", "Messages that may be unreleased.",
     [](const ChannelStatus& it) { return real(it.slots); }},
    {"gantry_channel_credits_used", "Messages that are unreleased.",
     [](const ChannelStatus& it) { return real(it.slots_charged); }},
    {"gantry_channel_in_flight_bytes", "Payload of the messages that are unreleased.",
     [](const ChannelStatus& it) { return real(it.bytes_charged); }},
    {"gantry_channel_consumers", "Consumers that are connected.",
     [](const ChannelStatus& it) { return real(it.consumers.size()); }},
    {"gantry_channel_senders", "Producers that are connected, of an inbox.",
     [](const ChannelStatus& it) { return real(it.senders.size()); }},
    {"gantry_channel_age_seconds", "Time since the channel was opened.",
     [](const ChannelStatus& it) { return seconds(it.age); }},
    {"gantry_pool_bytes", "Payload memory that the channel's pool has taken from the system.",
     [](const ChannelStatus& it) { return real(it.slab_bytes); }},
    {"gantry_pool_live_bytes", "Part of the pool that is in use.",
     [](const ChannelStatus& it) { return real(it.live_bytes); }},
    {"gantry_pool_peak_bytes", "The most of it that ever was in use.",
     [](const ChannelStatus& it) { return real(it.peak_bytes); }},
    {"gantry_pool_registrations", "Registrations that its registrars hold.",
     [](const ChannelStatus& it) { return real(it.registrations); }},
    {"gantry_pool_refused_registrations", "Parts of its memory that a registrar has refused.",
     [](const ChannelStatus& it) { return real(it.refused_registrations); }},
    {"gantry_pool_budget_bytes", "The most the pool may grow to.",
     [](const ChannelStatus& it) { return real(it.budget_bytes); }},
};

constexpr Column<ConsumerStatus> kOfConsumers[] = {
    {"gantry_consumer_messages_total", "Messages that the consumer has taken.",
     [](const ConsumerStatus& it) { return real(it.metrics.messages); }},
    {"gantry_consumer_payload_bytes_total", "Payload of those messages.",
     [](const ConsumerStatus& it) { return real(it.metrics.bytes); }},
    {"gantry_consumer_dropped_messages_total", "Messages that it lost, being slow.",
     [](const ConsumerStatus& it) { return real(it.dropped); }},
    {"gantry_consumer_cpu_seconds_total", "CPU time inside the consumer's calls.",
     [](const ConsumerStatus& it) { return seconds(it.metrics.cpu_ns); }},
    {"gantry_consumer_wait_seconds_total", "Time in which it waited for a message.",
     [](const ConsumerStatus& it) { return seconds(it.metrics.wait_ns); }},
    {"gantry_consumer_unread_messages", "Messages published to it and not taken.",
     [](const ConsumerStatus& it) { return real(it.unread); }},
    {"gantry_consumer_held_messages", "Messages that it has not released.",
     [](const ConsumerStatus& it) { return real(it.held.size()); }},
    {"gantry_consumer_held_bytes", "Their payload.",
     [](const ConsumerStatus& it) { return real(it.held_bytes()); }},
    {"gantry_consumer_oldest_held_seconds", "Time since the oldest of them was published.",
     [](const ConsumerStatus& it) { return it.held.empty() ? 0 : seconds(it.held.front().age); }},
    {"gantry_consumer_idle_seconds", "Time since it last took a message, or joined.",
     [](const ConsumerStatus& it) { return seconds(it.idle); }},
    {"gantry_consumer_stuck", "1: it is stopped, or holds the producer up and takes nothing.",
     [](const ConsumerStatus& it) { return it.is_stuck() ? 1.0 : 0.0; }},
};

constexpr Column<SenderStatus> kOfSenders[] = {
    {"gantry_sender_messages_total", "Messages that an inbox has received from the sender.",
     [](const SenderStatus& it) { return real(it.messages); }},
    {"gantry_sender_payload_bytes_total", "Payload of those messages.",
     [](const SenderStatus& it) { return real(it.bytes); }},
    {"gantry_sender_idle_seconds", "Time since its last message was received, or it connected.",
     [](const SenderStatus& it) { return seconds(it.idle); }},
    {"gantry_sender_credits", "Messages that the sender may have out.",
     [](const SenderStatus& it) { return real(it.credits); }},
    {"gantry_sender_unread_messages", "Messages that it published and the inbox has not taken.",
     [](const SenderStatus& it) { return real(it.unread); }},
    {"gantry_sender_held_messages", "Messages that the inbox has taken and not released.",
     [](const SenderStatus& it) { return real(it.held); }},
    {"gantry_sender_waits", "1: the sender sleeps until a credit comes back.",
     [](const SenderStatus& it) { return it.waits ? 1.0 : 0.0; }},
};

constexpr Column<DepartedStatus> kOfDeparted[] = {
    {"gantry_departed_held_messages", "Messages that a consumer holds which has left.",
     [](const DepartedStatus& it) { return real(it.messages); }},
    {"gantry_departed_held_bytes", "Their payload.",
     [](const DepartedStatus& it) { return real(it.bytes); }},
    {"gantry_departed_oldest_held_seconds", "Time since the oldest of them was published.",
     [](const DepartedStatus& it) { return seconds(it.age); }},
};

constexpr Column<RankStatus> kOfRanks[] = {
    {"gantry_rank_runs_total", "Runs of plans that the rank has begun.",
     [](const RankStatus& it) { return real(it.runs); }},
    {"gantry_rank_plan_steps", "Steps of its plan.",
     [](const RankStatus& it) { return real(it.steps); }},
    {"gantry_rank_plan_steps_ended", "Those of them that have ended in the newest run.",
     [](const RankStatus& it) { return real(it.ended); }},
    {"gantry_rank_state_seconds", "Time since the rank's state began.",
     [](const RankStatus& it) { return seconds(it.in_state); }},
};

/// UTF-8 of a length that a series can bear: a hostile end chooses some of these texts.
std::string label_text(const std::string& text) {
  using nlohmann::json;
  const std::string sound = json_text(json(text.substr(0, kMostLabelBytes)));
  return json::parse(sound).get<std::string>();
}

/// Families in the order in which they are begun.
class Families {
 public:
  MetricFamily& begin(const std::string& name, const std::string& help) {
    const MetricType type = name.ends_with("_total") ? MetricType::Counter : MetricType::Gauge;
    return all_.emplace_back(MetricFamily{name, help, type, {}});
  }
  static ClientMetric& add(MetricFamily& family, const Labels& labels, double value) {
    ClientMetric& metric = family.metric.emplace_back();
    metric.label = labels;
    metric.counter.value = value;
    metric.gauge.value = value;
    return metric;
  }
  template <class Of, std::size_t kCount>
  void add_all(const Column<Of> (&columns)[kCount],
               const std::vector<std::pair<Labels, const Of*>>& all) {
    for (const Column<Of>& column : columns) {
      MetricFamily& family = begin(column.name, column.help);
      for (const auto& [labels, one] : all) add(family, labels, column.value(*one));
    }
  }
  [[nodiscard]] std::string text() {
    std::erase_if(all_, [](const MetricFamily& family) { return family.metric.empty(); });
    std::ostringstream text;
    prometheus::TextSerializer().Serialize(text, all_);
    return std::move(text).str();
  }

 private:
  std::vector<MetricFamily> all_;
};

/// Those of a look, with their labels. A process may have several ends of one channel; no two
/// series may have the same labels.
struct Ends {
  std::vector<std::pair<Labels, const ChannelStatus*>> channels;
  std::vector<std::pair<Labels, const ConsumerStatus*>> consumers;
  std::vector<std::pair<Labels, const SenderStatus*>> senders;
  std::vector<std::pair<Labels, const DepartedStatus*>> departed;
  std::vector<std::pair<Labels, const RankStatus*>> ranks;
  std::vector<std::pair<Labels, double>> up;

  explicit Ends(const Snapshot& snapshot) {
    for (const Row& row : snapshot.rows) add(row.channel);
    for (const RankStatus& rank : snapshot.ranks)
      ranks.emplace_back(unique({{"group", label_text(rank.group)},
                                 {"rank", fmt::to_string(rank.rank)},
                                 {"pid", fmt::to_string(rank.pid)}}),
                         &rank);
  }

  /// A stage's labels are the same in each run. A label without a value is none.
  static Labels named(Labels labels, const EndName& who) {
    if (!who.stage.empty()) {
      labels.push_back({"stage", label_text(who.stage)});
      labels.push_back({"replica", fmt::to_string(who.replica)});
    }
    if (!who.command.empty()) labels.push_back({"command", label_text(who.command)});
    if (!who.host.empty()) labels.push_back({"host", label_text(who.host)});
    return labels;
  }

 private:
  void add(const ChannelStatus& channel) {
    const Labels labels = unique({{"channel", label_text(channel.shown_name())}});
    const std::string name = labels[0].value;
    up.emplace_back(labels, channel.answered ? 1 : 0);
    if (!channel.answered) return;
    channels.emplace_back(labels, &channel);
    const auto end = [&](const char* role, const auto& one) {
      const std::string who =
          one.who.stage.empty() ? fmt::to_string(one.pid) : label_text(one.who.text());
      return std::pair(named(unique({{"channel", name}, {role, who}}), one.who), &one);
    };
    for (const auto& one : channel.consumers) consumers.push_back(end("consumer", one));
    for (const auto& one : channel.senders) senders.push_back(end("sender", one));
    for (const auto& one : channel.departed) departed.push_back(end("departed", one));
  }
  // The second process 12 of a kind is "12#2".
  Labels unique(Labels labels) {
    const std::string first = labels.back().value;
    for (int i = 2; !seen_.insert(labels).second; ++i)
      labels.back().value = fmt::format("{}#{}", first, i);
    return labels;
  }
  std::set<Labels> seen_;
};

void add_copies(Families& families, const Ends& ends) {
  const auto add = [&](const char* name, const char* help, auto of) {
    MetricFamily& family = families.begin(name, help);
    for (const auto& [labels, channel] : ends.channels)
      for (std::size_t i = 0; i < kCopyEngines; ++i) {
        Labels with_engine = labels;
        with_engine.push_back({"engine", std::string(to_string(static_cast<CopyEngine>(i)))});
        Families::add(family, with_engine, real((channel->producer.*of)[i]));
      }
  };
  add("gantry_channel_copies_total", "Copies of payload, by who made them.",
      &MetricsReport::copies);
  add("gantry_channel_copied_bytes_total", "The bytes of those copies.",
      &MetricsReport::copied_bytes);
}

void add_info(Families& families, const Ends& ends) {
  MetricFamily& up = families.begin("gantry_channel_up", "1: the channel says how it stands.");
  for (const auto& [labels, is_up] : ends.up) Families::add(up, labels, is_up);
  MetricFamily& info =
      families.begin("gantry_channel_info", "Always 1: what kind of channel it is.");
  for (const auto& [labels, channel] : ends.channels) {
    Labels more = Ends::named(labels, channel->producer_who);
    more.push_back({"producer", fmt::to_string(channel->producer_pid)});
    more.push_back({"kind", kind_text(*channel)});
    more.push_back({"mode", std::string(to_string(channel->mode))});
    more.push_back(
        {"path", channel->path.bytes == 0 ? "" : std::string(to_string(channel->path.engine))});
    Families::add(info, more, 1);
  }
}

/// Bucket by bucket, as Prometheus adds them up: those that took at most so long.
void add_hand_offs(Families& families, const Ends& ends) {
  MetricFamily& family = families.begin(
      "gantry_consumer_handoff_seconds",
      "From published, or asked for if later, until the message is in the consumer's hands.");
  family.type = MetricType::Histogram;
  constexpr auto& kBounds = ConsumerStatus::kHandoffBoundsNs;
  for (const auto& [labels, consumer] : ends.consumers) {
    auto& histogram = Families::add(family, labels, 0).histogram;
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < consumer->handoffs.size(); ++i) {
      sum += std::min(consumer->handoffs[i], ~std::uint64_t{0} - sum);
      histogram.bucket.push_back({sum, i < kBounds.size()
                                           ? seconds(kBounds[i])
                                           : std::numeric_limits<double>::infinity()});
    }
    histogram.sample_count = sum;
    histogram.sample_sum = seconds(consumer->metrics.handoff_total_ns);
  }
}

void add_self(Families& families, const Snapshot& snapshot) {
  timespec used{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  const auto add = [&](const char* name, const char* help, double value) {
    Families::add(families.begin(name, help), {}, value);
  };
  add("gantry_peers_gone_total",
      "Ends and ranks whose process has ended, and which were there at the look before.",
      real(snapshot.gone_total));
  add("gantry_serve_looks_total", "Looks at all channels.", real(snapshot.number));
  add("gantry_serve_failed_looks_total", "Those of them that found nothing.",
      real(snapshot.failed_looks));
  add("gantry_serve_look_seconds", "How long the newest look took.", seconds(snapshot.took));
  add("process_cpu_seconds_total", "CPU time of this server.",
      static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) / 1e9);
}

}  // namespace

std::string metrics_text(const Snapshot& snapshot) {
  const Ends ends(snapshot);
  Families families;
  add_info(families, ends);
  families.add_all(kOfChannels, ends.channels);
  add_copies(families, ends);
  families.add_all(kOfConsumers, ends.consumers);
  add_hand_offs(families, ends);
  families.add_all(kOfSenders, ends.senders);
  families.add_all(kOfDeparted, ends.departed);
  families.add_all(kOfRanks, ends.ranks);
  add_self(families, snapshot);
  return families.text();
}

}  // namespace gantry::cli

#else

namespace gantry::cli {

std::string metrics_text(const Snapshot& /*snapshot*/) {
  return {};
}

}  // namespace gantry::cli

#endif

namespace gantry::cli {

std::string as_open_metrics(const std::string& text) {
  constexpr std::string_view kTotal = "_total";
  std::string open;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string line = text.substr(at, end - at);
    const std::size_t name_end = line.find(' ', std::string_view("# HELP ").size());
    if (line.starts_with("# ") && std::string_view(line).substr(0, name_end).ends_with(kTotal))
      line.erase(name_end - kTotal.size(), kTotal.size());
    open += line + "\n";
    at = end + 1;
  }
  return open + "# EOF\n";
}

}  // namespace gantry::cli
