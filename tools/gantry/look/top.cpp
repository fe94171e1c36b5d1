// gantry top: the channels as they are moving.
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "channel_view.hpp"
#include "commands.hpp"
#include "errors.hpp"
#include "interrupt.hpp"
#include "look/terminal.hpp"
#include "looks.hpp"
#include "options.hpp"
#include "rank_view.hpp"
#include "tools/status/channel_json.hpp"

namespace gantry::cli {
namespace {

using nlohmann::json;
constexpr std::size_t kNoteIndent = 2;  // of the lines on which a note goes on
constexpr std::uint64_t kForEver = std::numeric_limits<std::uint64_t>::max();

struct TopOptions {
  WhichChannels which;
  std::chrono::nanoseconds interval = std::chrono::seconds(1);
  std::uint64_t count = kForEver;
  bool once = false;
  bool as_json = false;
};

// ---- as text -----------------------------------------------------------------------------------

std::vector<ChannelStatus> channels_of(const std::vector<Row>& rows) {
  std::vector<ChannelStatus> channels;
  for (const Row& row : rows) channels.push_back(row.channel);
  return channels;
}

const MetricsReport& slowest_hand_off(const ChannelStatus& channel) {
  const auto slowest = std::ranges::max_element(
      channel.consumers, {}, [](const auto& consumer) { return consumer.metrics.handoff_p99_ns; });
  return slowest == channel.consumers.end() ? channel.producer : slowest->metrics;
}

std::vector<std::string> cells_of(const Row& row) {
  const ChannelStatus& channel = row.channel;
  const std::string producer = producers_text(channel);
  if (!channel.answered)
    return {printable(channel.shown_name()), producer,
            fmt::format("{}, no answer", to_string(channel.producer_state))};
  if (channel.is_inbox)
    return {printable(channel.shown_name()),
            producers_text(channel),
            consumers_text(channel),
            row.is_known ? fmt::format("{:.1f}", row.messages_per_s) : "-",
            row.is_known ? format_rate(row.bytes_per_s) : "-",
            "-",
            kind_text(channel),
            "-",
            "-",
            "-"};
  const MetricsReport& hand_off = slowest_hand_off(channel);
  return {printable(channel.shown_name()),
          producer,
          consumers_text(channel),
          row.is_known ? fmt::format("{:.1f}", row.messages_per_s) : "-",
          row.is_known ? format_rate(row.bytes_per_s) : "-",
          format_count(channel.depth()),
          fmt::format("{}/{}", channel.slots_charged, channel.slots),
          hand_off_text(hand_off.handoff_p50_ns),
          hand_off_text(hand_off.handoff_p99_ns),
          path_text(channel)};
}

std::string as_text(const std::vector<Row>& rows) {
  using enum Table::Align;
  Table table({{"CHANNEL", left},
               {"PRODUCER", left},
               {"CONSUMER", left},
               {"MESSAGES/S", right},
               {"RATE", right},
               {"DEPTH", right},
               {"CREDITS", right},
               {"P50", right},
               {"P99", right},
               {"NEWEST COPY", left}});
  for (const Row& row : rows) table.add(cells_of(row));
  const auto channels = channels_of(rows);
  // The screen shows what finds room: what is wrong comes first, and whole.
  const std::size_t width = output_width();
  std::string text = notes_text(channels, width == Table::kUnlimited ? width : width - kNoteIndent);
  if (!text.empty()) text += "\n";
  text += table.text(Table::kUnlimited);
  if (const std::string more = consumers_table(channels, false); !more.empty()) text += "\n" + more;
  return text;
}

std::string header(const std::vector<Row>& rows, bool has_keys) {
  double messages = 0;
  double bytes = 0;
  for (const Row& row : rows) {
    messages += row.messages_per_s;
    bytes += row.bytes_per_s;
  }
  return fmt::format("gantry top: {} channels, {:.1f} messages/s, {}; {} leaves\n\n", rows.size(),
                     messages, format_rate(bytes), has_keys ? "q" : "Ctrl-C");
}

std::string as_json(const std::vector<Row>& rows, std::chrono::nanoseconds interval, bool is_pair) {
  json list = json::array();
  for (const Row& row : rows) {
    json one = to_json(row.channel);
    one["messages_per_second"] = row.is_known ? json(row.messages_per_s) : json();
    one["bytes_per_second"] = row.is_known ? json(row.bytes_per_s) : json();
    list.push_back(std::move(one));
  }
  return dump({{"interval_ns", interval.count()}, {"channels", list}}, is_pair ? -1 : 2);
}

// Below the channels; a look at another host has none.
std::string ranks_text(const WhichChannels& which) {
  if (which.is_elsewhere() || !which.name().empty()) return {};
  const std::string table =
      ranks_table(list_ranks(which.directory).value_or(std::vector<RankStatus>()));
  return table.empty() ? "" : "\n" + table;
}

// ---- the two ways to run -----------------------------------------------------------------------

// Until `deadline`; false: q was pressed.
Result<bool> wait_for_key(Terminal& terminal, const Interrupt& interrupt, Deadline deadline) {
  for (;;) {
    const int keys = terminal.has_keys() ? STDIN_FILENO : -1;
    const auto ready = wait_ready(keys, POLLIN, interrupt, deadline);
    if (!ready && ready.error().code == Code::timed_out) return true;
    if (!ready) return tl::unexpected(ready.error());
    const auto key = terminal.key();
    if (key == 'q' || key == 'Q') return false;
  }
}

/// One that was there and goes is no error: nobody mistyped it.
Result<void> check_name(const TopOptions& options, const std::vector<Row>& first) {
  if (options.which.name().empty() || !first.empty()) return {};
  return tl::unexpected(no_such_channel(options.which));
}

Result<void> run_live(const TopOptions& options, Looks& looks, const Interrupt& interrupt) {
  const auto first = looks.look();
  if (!first) return tl::unexpected(first.error());
  if (auto fine = check_name(options, *first); !fine) return fine;
  Terminal terminal;
  for (;;) {
    const Deadline next = Deadline::after(options.interval);
    auto rows = looks.look();
    if (!rows) return tl::unexpected(rows.error());
    auto shown = terminal.show(header(*rows, terminal.has_keys()) + as_text(*rows) +
                               ranks_text(options.which));
    if (!shown) return shown;
    const auto goes_on = wait_for_key(terminal, interrupt, next);
    if (!goes_on) return tl::unexpected(goes_on.error());
    if (!*goes_on) return {};
  }
}

Result<void> run_plain(const TopOptions& options, Looks& looks, const Interrupt& interrupt) {
  const auto first = looks.look();
  if (!first) return tl::unexpected(first.error());
  if (auto fine = check_name(options, *first); !fine) return fine;
  for (std::uint64_t done = 0; done < options.count; ++done) {
    auto waited = wait_ready(-1, 0, interrupt, Deadline::after(options.interval));
    if (!waited && waited.error().code != Code::timed_out) return waited;
    const auto rows = looks.look();
    if (!rows) return tl::unexpected(rows.error());
    const std::string gap = done == 0 ? "" : "\n";
    const auto shown = print(options.as_json ? as_json(*rows, options.interval, options.count > 1)
                                             : gap + as_text(*rows) + ranks_text(options.which));
    if (!shown) return shown;
  }
  return {};
}

Result<void> top(TopOptions options) {
  auto interrupt = Interrupt::create();
  if (!interrupt) return tl::unexpected(interrupt.error());
  Looks looks(options.which, *interrupt);
  const bool has_limit = options.once || options.count != kForEver;
  if (options.once || (options.as_json && !has_limit)) options.count = 1;
  if (!has_limit && !options.as_json && Terminal::is_possible())
    return run_live(options, looks, *interrupt);
  return run_plain(options, looks, *interrupt);
}

Result<std::uint64_t> parse_reports(std::string_view text) {
  return parse_number(text, 1);
}

Result<std::chrono::nanoseconds> parse_interval(std::string_view text) {
  auto interval = parse_time(text);
  if (interval && *interval < std::chrono::milliseconds(10))
    return tl::unexpected(Error{Code::invalid_argument,
                                fmt::format("'{}': at least 10 ms lie between two looks", text),
                                {}});
  return interval;
}

}  // namespace

void add_top(const Command& command, int& exit_code) {
  auto options = std::make_shared<TopOptions>();
  add_parsed(*command, "--interval", options->interval, &parse_interval, "SECONDS",
             "Between two looks (default 1)");
  const auto count = add_parsed(*command, "--count", options->count, &parse_reports, "NUMBER",
                                "Print so many reports, then end");
  command->add_flag("--once", options->once, "As --count 1")->excludes(count);
  command->add_flag("--json", options->as_json,
                    "One JSON document; with --count NUMBER so many, a line each");
  add_which(*command, options->which);
  command->footer(
      std::string("The quickest first; rates are those between two looks. q or Ctrl-C leaves.\n"
                  "If standard output is not a terminal, reports follow one another.\n") +
      kWhichFooter + "Example: gantry top --interval 0.5");
  command->callback([options, &exit_code] {
    const auto done = top(*options);
    exit_code = done ? 0 : fail(done.error());
  });
}

}  // namespace gantry::cli
