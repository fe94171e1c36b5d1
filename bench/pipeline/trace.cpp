#include "trace.hpp"
#include "tools/command_line/json_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

namespace gantry::bench {
namespace {

using nlohmann::json;
using Time = DeviceTiming::Time;

struct Track {
  std::string_view name;
  DeviceTiming ChunkTimes::* times;
};
constexpr std::array<Track, 5> kTracks = {{{"host: into the ring", &ChunkTimes::stage_in},
                                           {"copy in", &ChunkTimes::copy_in},
                                           {"compute", &ChunkTimes::compute},
                                           {"copy out", &ChunkTimes::copy_out},
                                           {"host: out of the ring", &ChunkTimes::stage_out}}};

double us(Time::duration time) noexcept {
  return std::chrono::duration<double, std::micro>(time).count();
}

json name_event(const char* what, std::size_t process, std::size_t track, std::string_view name) {
  return {
      {"ph", "M"}, {"name", what}, {"pid", process}, {"tid", track}, {"args", {{"name", name}}}};
}

// Where a chunk has no part in a stream, no time stands there.
bool took_part(const DeviceTiming& timing) noexcept {
  return timing.ended != Time{};
}

Time begin_of(const TracedRun& run) {
  Time first = Time::max();
  for (const ChunkTimes& times : run.timeline)
    for (const Track& track : kTracks)
      if (took_part(times.*track.times)) first = std::min(first, (times.*track.times).began);
  return first;
}

void add_run(json& events, const TracedRun& run, std::size_t process) {
  const Time zero = begin_of(run);
  events.push_back(name_event("process_name", process, 0, run.name));
  for (std::size_t i = 0; i < kTracks.size(); ++i) {
    const Track& track = kTracks[i];
    events.push_back(name_event("thread_name", process, i + 1, track.name));
    for (const ChunkTimes& times : run.timeline) {
      const DeviceTiming& timing = times.*track.times;
      if (!took_part(timing)) continue;
      events.push_back({{"ph", "X"},
                        {"name", fmt::format("chunk {}", times.chunk.index)},
                        {"cat", track.name},
                        {"pid", process},
                        {"tid", i + 1},
                        {"ts", us(timing.began - zero)},
                        {"dur", us(timing.span())},
                        {"args",
                         {{"chunk", times.chunk.index},
                          {"first", times.chunk.first},
                          {"steps", times.chunk.steps},
                          {"waited_us", us(timing.began - timing.submitted)}}}});
    }
  }
}

}  // namespace

std::string to_trace(const std::vector<TracedRun>& runs) {
  json events = json::array();
  for (std::size_t i = 0; i < runs.size(); ++i) add_run(events, runs[i], i + 1);
  return cli::json_text(json{{"displayTimeUnit", "ms"}, {"traceEvents", events}}, 1) + "\n";
}

}  // namespace gantry::bench
