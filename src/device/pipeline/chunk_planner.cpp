#include "device/pipeline/chunk_planner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <span>

namespace gantry {
namespace {

using Stream = PipelinePlan::Stream;

constexpr unsigned kMostDepth = 6;
constexpr double kFeltShare = 0.05;  // a stream below this part of the longest is always hidden

double ns(std::chrono::nanoseconds time) noexcept {
  return static_cast<double>(time.count());
}

// The line through both points. If a large chunk took no longer than a small one, start and rate
// are unknown: half of each.
Stream line_of(std::uint64_t small_steps, std::chrono::nanoseconds small, std::uint64_t large_steps,
               std::chrono::nanoseconds large) noexcept {
  if (large_steps <= small_steps)
    return {{}, ns(large) / static_cast<double>(std::max<std::uint64_t>(large_steps, 1))};
  if (large <= small) return {large / 2, ns(large) / 2 / static_cast<double>(large_steps)};
  const double slope = (ns(large) - ns(small)) / static_cast<double>(large_steps - small_steps);
  const double start = std::max(0.0, ns(small) - slope * static_cast<double>(small_steps));
  return {std::chrono::nanoseconds(static_cast<std::int64_t>(start)), slope};
}

double time_of(const Stream& stream, double steps) noexcept {
  return ns(stream.start) + stream.ns_per_step * steps;
}

/// The host's copies into a ring, the device's three streams, the host's copies out of a ring.
struct Streams {
  Stream stage_in, copy_in, compute, copy_out, stage_out;

  [[nodiscard]] std::array<double, 5> times(std::uint64_t chunk) const noexcept {
    const auto steps = static_cast<double>(chunk);
    return {time_of(stage_in, steps), time_of(copy_in, steps), time_of(compute, steps),
            time_of(copy_out, steps), time_of(stage_out, steps)};
  }
};

// Predicts a run in chunks of that many steps: one passes all streams, the others follow in the
// longest; before that the slots are made.
double predict(const PlanInput& input, const Streams& streams, double overhead_ns, unsigned depth,
               std::uint64_t chunk) noexcept {
  const auto size = static_cast<double>(chunk);
  const std::array<double, 5> times = streams.times(chunk);
  const double longest = *std::max_element(times.begin(), times.end());
  const double chunks = std::ceil(static_cast<double>(input.steps) / size);
  const double slot =
      size * static_cast<double>(input.step_bytes) + static_cast<double>(input.fixed_bytes);
  const double making = std::min<double>(depth, chunks) * slot * input.making_ns_per_byte;
  return making + std::accumulate(times.begin(), times.end(), 3 * overhead_ns) +
         (chunks - 1) * (longest + overhead_ns);
}

// A slot for each noticeable stream, for each side that is staged, and one to spare, which hides
// the time in which a slot is handed back.
unsigned depth_for(const PlanInput& input, const Streams& streams, std::uint64_t chunk) noexcept {
  const std::array<double, 5> all = streams.times(chunk);
  const auto times = std::span(all).subspan(1, 3);  // the device's
  const double longest = *std::max_element(times.begin(), times.end());
  const auto felt = std::count_if(times.begin(), times.end(),
                                  [&](double time) { return time > kFeltShare * longest; });
  return std::min(kMostDepth, static_cast<unsigned>(felt) + (input.is_staged_in ? 1 : 0) +
                                  (input.is_staged_out ? 1 : 0) + 1);
}

std::string stream_text(std::string_view name, const Stream& stream, Bytes step_bytes) {
  return fmt::format("{} {:.1f} us + {:.3f} ns a step of {} bytes", name, ns(stream.start) / 1e3,
                     stream.ns_per_step, step_bytes);
}

// Of a ring; nothing where there is none.
std::string stages_text(const Streams& streams) {
  const double in = streams.stage_in.ns_per_step, out = streams.stage_out.ns_per_step;
  return in == 0 && out == 0 ? "" : fmt::format("the ring {:.3f} and {:.3f} ns a step; ", in, out);
}

}  // namespace

std::chrono::nanoseconds time_from(double ns) noexcept {
  constexpr double kMost = 1e18;  // limit for 64 bits: 30 years
  return std::chrono::nanoseconds(static_cast<std::int64_t>(std::min(ns, kMost)));
}

std::uint64_t most_steps(const PlanInput& input, unsigned depth) noexcept {
  const Bytes each = input.device_bytes / std::max(depth, 1u);
  if (each <= input.fixed_bytes || input.step_bytes == 0)
    return input.step_bytes == 0 ? input.steps : 1;
  return std::clamp<std::uint64_t>((each - input.fixed_bytes) / input.step_bytes, 1, input.steps);
}

ChunkChoice choose_by_measure(const PlanInput& input, const MeasuredChunk& small,
                              const MeasuredChunk& large, PipelinePlan& plan) {
  const auto line = [&](std::chrono::nanoseconds MeasuredChunk::* part) {
    return line_of(small.steps, small.*part, large.steps, large.*part);
  };
  const Streams streams{line(&MeasuredChunk::stage_in), line(&MeasuredChunk::copy_in),
                        line(&MeasuredChunk::compute), line(&MeasuredChunk::copy_out),
                        line(&MeasuredChunk::stage_out)};
  plan.copy_in = streams.copy_in;
  plan.compute = streams.compute;
  plan.copy_out = streams.copy_out;
  const double overhead = std::max(0.0, ns(small.all - small.copy_in - small.compute -
                                           small.copy_out - small.stage_in - small.stage_out)) /
                          3;
  unsigned depth = depth_for(input, streams, large.steps);
  const std::uint64_t most = most_steps(input, depth);
  std::uint64_t best = std::min(most, input.steps);
  double least = predict(input, streams, overhead, depth, best);
  // From large to small, so that of equals the larger is taken.
  for (std::uint64_t chunk = best; chunk > std::min(input.fewest, most);) {
    chunk = std::max<std::uint64_t>(1, chunk - chunk / 4 - (chunk < 4 ? 1 : 0));
    const double time = predict(input, streams, overhead, depth, chunk);
    if (time < least * 0.995) least = time, best = chunk;
    if (chunk == 1) break;
  }
  best = std::max(best, std::min(input.fewest, most));
  // Chunks get the same size, so that the last one is not tiny.
  const std::uint64_t chunks = 1 + (input.steps - 1) / best;
  best = 1 + (input.steps - 1) / chunks;
  depth = static_cast<unsigned>(std::min<std::uint64_t>(depth, chunks));
  plan.predicted = time_from(least);
  plan.reasons.push_back(
      fmt::format("measured: {}{}; {}; {}; {:.1f} us of the host's own for each chunk, "
                  "{:.3f} ns to make a byte of a slot",
                  stages_text(streams), stream_text("copy-in", plan.copy_in, input.step_bytes),
                  stream_text("compute", plan.compute, input.step_bytes),
                  stream_text("copy-out", plan.copy_out, input.step_bytes), overhead / 1e3,
                  input.making_ns_per_byte));
  plan.reasons.push_back(fmt::format(
      "chunks of {} steps: of all sizes up to {} (device memory for {} of them) the least time "
      "predicted, {:.2f} ms",
      best, most, depth, least / 1e6));
  return {best, depth};
}

ChunkChoice default_chunks(const PlanInput& input, PipelinePlan& plan) {
  constexpr Bytes kChunkBytes = Bytes{8} << 20;
  constexpr Bytes kSmallBytes = Bytes{256} << 10;
  constexpr unsigned kDepth = 4;
  const std::uint64_t most = most_steps(input, kDepth);
  const Bytes step = std::max<Bytes>(input.step_bytes, 1);
  const std::uint64_t small = std::max<std::uint64_t>(kSmallBytes / step, input.fewest);
  const std::uint64_t normal = std::max<std::uint64_t>(kChunkBytes / step, input.fewest);
  std::uint64_t chunk = std::min(normal, std::max(small, 1 + (input.steps - 1) / kDepth));
  chunk = std::clamp<std::uint64_t>(chunk, 1, std::min(most, input.steps));
  const std::uint64_t chunks = 1 + (input.steps - 1) / chunk;
  plan.reasons.push_back(
      fmt::format("chunks of {} steps without a measurement: about {} KiB, or a quarter of the job",
                  chunk, kChunkBytes >> 10));
  return {chunk, static_cast<unsigned>(std::min<std::uint64_t>(kDepth, chunks))};
}

}  // namespace gantry
