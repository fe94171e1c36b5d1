#include "trace/chrome.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "directory.hpp"
#include "tools/command_line/json_text.hpp"

namespace gantry::cli {
namespace {

using trace::Event;
using trace::EventKind;
using trace::MessageId;
using trace::Track;

std::string quoted(const std::string& text) {
  return json_text(nlohmann::json(text));
}

/// What is written in large pieces.
class Output {
 public:
  explicit Output(OutputWriter& file) : file_(file) {}

  void add(std::string_view text) {
    text_ += text;
    if (text_.size() > kAtOnce) flush();
  }
  [[nodiscard]] Result<void> finish() {
    flush();
    return done_;
  }

 private:
  static constexpr std::size_t kAtOnce = std::size_t{1} << 20;
  void flush() {
    if (done_) done_ = file_.write(text_);
    text_.clear();
  }

  OutputWriter& file_;
  Result<void> done_{};
  std::string text_;
};

std::string title_of(const Track& track) {
  switch (track.kind) {
    case trace::EndKind::producer:
      return track.channel + " (producer)";
    case trace::EndKind::consumer:
      return track.channel + " (consumer)";
    case trace::EndKind::inbox:
      return track.channel + " (inbox)";
    case trace::EndKind::thread:
      return "thread " + track.channel;
    case trace::EndKind::rank:
      return "group " + track.channel;
    case trace::EndKind::link:
      return "link to " + track.channel;
    case trace::EndKind::queue:
      return "queue " + track.channel;
  }
  return track.channel;
}

std::string name_of(const Event& event) {
  if (event.kind == EventKind::span || event.kind == EventKind::step ||
      event.kind == EventKind::transfer || event.kind == EventKind::operation)
    return event.what;
  const std::string kind(to_string(event.kind));
  if (event.kind == EventKind::wait) return kind + " for " + event.what;
  if (event.kind == EventKind::arrival) return kind + " of " + event.what;
  if (event.kind == EventKind::control) return "message " + event.what;
  return event.kind == EventKind::copy ? fmt::format("{} ({})", kind, event.what) : kind;
}

std::string text_of(const MessageId& message) {
  return fmt::format("{}/{}", message.channel, message.sequence);
}

std::string arguments_of(const Event& event) {
  std::string text;
  const auto add = [&text](std::string_view name, const std::string& value) {
    text += fmt::format("{}\"{}\":{}", text.empty() ? "" : ",", name, value);
  };
  if (event.message.sequence != 0) {
    add("message", quoted(text_of(event.message)));
    add("sequence", fmt::to_string(event.message.sequence));
  }
  const bool has_bytes = event.kind == EventKind::send || event.kind == EventKind::receive ||
                         event.kind == EventKind::copy || event.bytes != 0;
  if (has_bytes) add("bytes", fmt::to_string(event.bytes));
  if (event.kind == EventKind::step || event.kind == EventKind::arrival)
    add("step", fmt::to_string(event.number));
  if (event.kind == EventKind::transfer) add("transfer", fmt::to_string(event.number));
  if (event.kind == EventKind::copy) add("chunks", fmt::to_string(event.chunks));
  if (event.cause.sequence != 0) add("because_of", quoted(text_of(event.cause)));
  if (event.peer != 0) add("process", fmt::to_string(event.peer));
  return text;
}

/// Where an event stands: the track's number and the event.
struct Spot {
  std::size_t track = 0;
  const Event* event = nullptr;
};

constexpr std::uint64_t kLeastNs = 1;  // of a slice: an arrow needs one around its end

std::uint64_t length_of(const Event& event) noexcept {
  return std::max(event.duration_ns, kLeastNs);
}

std::uint64_t last_ns_of(const Event& event) noexcept {
  return event.begin_ns + length_of(event) - kLeastNs;
}

bool is_moment(const Event& event) noexcept {
  return event.kind == EventKind::publish || event.kind == EventKind::release ||
         event.kind == EventKind::wake || event.kind == EventKind::arrival ||
         event.kind == EventKind::control;
}

/// For each event a lane of its track, from 0. An end does one thing after another; of what a rank,
/// a link or a queue does, much goes on at once: then slices of one lane do not overlap. A thread's
/// spans lie within each other, but those of tasks may cross: then not in one lane.
std::vector<std::size_t> lanes_of(const Track& track) {
  std::vector<std::size_t> lanes(track.events.size());
  if (track.kind < trace::EndKind::thread) return lanes;
  const bool nests = track.kind == trace::EndKind::thread;
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < lanes.size(); ++i)
    if (!is_moment(track.events[i])) order.push_back(i);
  std::ranges::sort(order, {}, [&](std::size_t i) {  // the outer first
    return std::tuple(track.events[i].begin_ns, ~length_of(track.events[i]), i);
  });
  std::vector<std::vector<std::uint64_t>> ends;  // of each lane's open slices, the inner last
  for (const std::size_t i : order) {
    const std::uint64_t begin = track.events[i].begin_ns;
    const std::uint64_t end = begin + length_of(track.events[i]);
    const auto free = std::ranges::find_if(ends, [&](std::vector<std::uint64_t>& open) {
      while (!open.empty() && open.back() <= begin) open.pop_back();
      return open.empty() || (nests && end <= open.back());
    });
    lanes[i] = static_cast<std::size_t>(free - ends.begin());
    (free == ends.end() ? ends.emplace_back() : *free).push_back(end);
  }
  return lanes;
}

class Writer {
 public:
  Writer(const trace::Trace& trace, const std::string& channel, OutputWriter& file)
      : trace_(trace), output_(file), start_ns_(trace.from_ns) {
    const bool is_whole =
        std::ranges::find(trace.tracks, channel, &Track::channel) != trace.tracks.end();
    const auto is_named = [&](const Track& track) {
      return track.kind != trace::EndKind::thread &&
             (track.channel == channel || (!is_whole && names_channel(channel, track.channel)));
    };
    std::set<std::int32_t> pids;  // of those that have an end of it
    for (const Track& track : trace.tracks)
      if (is_named(track)) pids.insert(track.pid);
    for (const Track& track : trace.tracks) {
      const bool is_end = track.kind < trace::EndKind::thread;
      const bool is_wanted =
          channel.empty() || is_named(track) || (!is_end && pids.contains(track.pid));
      if (is_wanted && (!track.events.empty() || track.written != 0)) tracks_.push_back(&track);
    }
    for (const Track* track : tracks_)
      for (const Event& event : track->events) {
        start_ns_ = std::min(start_ns_, event.begin_ns);
        if (event.kind != EventKind::receive) continue;
        const std::uint64_t arrival = last_ns_of(event);
        auto& first = arrived_.try_emplace(event.message, arrival).first->second;
        first = std::min(first, arrival);
      }
  }

  [[nodiscard]] Result<ChromeSummary> write() {
    output_.add("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n");
    write_processes();
    tids_ = tracks_.size();
    for (std::size_t track = 0; track < tracks_.size(); ++track) write_track(track);
    write_ways();
    output_.add(
        fmt::format("\n],\"otherData\":{{\"clock\":\"CLOCK_MONOTONIC\",\"start_ns\":{},"
                    "\"lost_events\":{},\"notes\":{}}}}}\n",
                    start_ns_, summary_.lost, json_text(nlohmann::json(trace_.notes))));
    if (auto written = output_.finish(); !written) return tl::unexpected(written.error());
    return summary_;
  }

 private:
  /// Microseconds since the start, as the format wants them.
  [[nodiscard]] std::string time(std::uint64_t ns) const {
    const std::uint64_t since = ns - std::min(ns, start_ns_);
    return fmt::format("{}.{:03}", since / 1000, since % 1000);
  }
  /// A small message is noted behind its publication; by then a reader may have received it.
  [[nodiscard]] std::uint64_t begin_of(const Event& event) const {
    if (event.kind != EventKind::send) return event.begin_ns;
    const auto arrived = arrived_.find(event.message);
    return arrived == arrived_.end() ? event.begin_ns : std::min(event.begin_ns, arrived->second);
  }
  [[nodiscard]] std::uint64_t arrow_end_of(const Event& event) const {
    return event.kind == EventKind::receive ? last_ns_of(event) : begin_of(event);
  }
  /// One event; `rest` begins with a comma.
  void add(char phase, std::int32_t pid, std::size_t tid, const std::string& name,
           std::string_view rest) {
    output_.add(fmt::format(R"({}{{"ph":"{}","pid":{},"tid":{},"name":{}{}}})", between_, phase,
                            pid, tid, quoted(name), rest));
    between_ = ",\n";
  }
  void write_processes();
  void write_track(std::size_t index);
  void write_event(std::int32_t pid, std::size_t tid, const Event& event);
  void name_thread(const Track& track, std::size_t tid, const std::string& name);
  void write_ways();
  void write_arrow(const Spot& from, const Spot& to, const char* name);

  const trace::Trace& trace_;
  Output output_;
  std::uint64_t start_ns_;
  std::vector<const Track*> tracks_;
  std::map<MessageId, std::uint64_t> arrived_;  // the first arrival's end
  std::string_view between_;
  std::uint64_t arrows_ = 0;
  std::size_t tids_ = 0;  // that have been given out: one to each track, and to each further lane
  ChromeSummary summary_;
};

void Writer::write_processes() {
  for (const trace::TracedProcess& process : trace_.processes) {
    const auto is_its = [&](const Track* track) { return track->pid == process.pid; };
    if (std::ranges::none_of(tracks_, is_its)) continue;
    ++summary_.processes;
    add('M', process.pid, 0, "process_name",
        fmt::format(R"(,"args":{{"name":{}}})", quoted(process.name)));
    if (process.ended_ns)
      add('i', process.pid, 0, process.died ? "death" : "end",
          fmt::format(R"(,"s":"p","ts":{})", time(*process.ended_ns)));
  }
}

void Writer::write_track(std::size_t index) {
  const Track& track = *tracks_[index];
  ++summary_.tracks;
  summary_.lost += track.lost;
  name_thread(track, index + 1, title_of(track));
  if (track.lost != 0)
    add('i', track.pid, index + 1, fmt::format("{} events lost", track.lost),
        fmt::format(R"(,"s":"t","ts":{})",
                    time(track.events.empty() ? start_ns_ : track.events.front().begin_ns)));
  const std::vector<std::size_t> lanes = lanes_of(track);
  const std::size_t most = lanes.empty() ? 0 : *std::ranges::max_element(lanes);
  for (std::size_t lane = 1; lane <= most; ++lane)
    name_thread(track, tids_ + lane, fmt::format("{} ({})", title_of(track), lane + 1));
  for (std::size_t i = 0; i < lanes.size(); ++i)
    write_event(track.pid, lanes[i] == 0 ? index + 1 : tids_ + lanes[i], track.events[i]);
  tids_ += most;
}

void Writer::name_thread(const Track& track, std::size_t tid, const std::string& name) {
  add('M', track.pid, tid, "thread_name", fmt::format(R"(,"args":{{"name":{}}})", quoted(name)));
}

void Writer::write_event(std::int32_t pid, std::size_t tid, const Event& event) {
  ++summary_.events;
  const bool is_short = is_moment(event);
  const std::string how = is_short ? R"("s":"t")" : "\"dur\":" + time(start_ns_ + length_of(event));
  add(is_short ? 'i' : 'X', pid, tid, name_of(event),
      fmt::format(R"(,"cat":"gantry","ts":{},{},"args":{{{}}})", time(begin_of(event)), how,
                  arguments_of(event)));
}

/// Both ends lie within their slices, and the second is never before the first.
void Writer::write_arrow(const Spot& from, const Spot& to, const char* name) {
  ++arrows_;
  add('s', tracks_[from.track]->pid, from.track + 1, name,
      fmt::format(R"(,"cat":"gantry","id":{},"ts":{})", arrows_, time(arrow_end_of(*from.event))));
  add('f', tracks_[to.track]->pid, to.track + 1, name,
      fmt::format(R"(,"cat":"gantry","bp":"e","id":{},"ts":{})", arrows_,
                  time(arrow_end_of(*to.event))));
}

void Writer::write_ways() {
  std::map<MessageId, Spot> sends;
  std::map<std::pair<MessageId, std::int32_t>, Spot> arrivals;
  for (std::size_t track = 0; track < tracks_.size(); ++track)
    for (const Event& event : tracks_[track]->events) {
      if (event.kind == EventKind::send) sends[event.message] = {track, &event};
      if (event.kind == EventKind::receive)
        arrivals[{event.message, tracks_[track]->pid}] = {track, &event};
    }
  summary_.sent = sends.size();
  for (std::size_t track = 0; track < tracks_.size(); ++track)
    for (const Event& event : tracks_[track]->events) {
      if (event.kind == EventKind::receive) {
        ++summary_.received;
        const auto sent = sends.find(event.message);
        if (sent == sends.end()) continue;
        ++summary_.flows;
        write_arrow(sent->second, {track, &event}, "message");
      }
      if (event.kind != EventKind::send) continue;
      const auto cause = arrivals.find({event.cause, tracks_[track]->pid});
      if (cause != arrivals.end()) write_arrow(cause->second, {track, &event}, "because of");
    }
}

}  // namespace

Result<ChromeSummary> write_chrome(const trace::Trace& trace, const std::string& channel,
                                   OutputWriter& file) {
  return Writer(trace, channel, file).write();
}

}  // namespace gantry::cli
