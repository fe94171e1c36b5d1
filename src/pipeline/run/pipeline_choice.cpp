#include <algorithm>

#include "pipeline/job/extents.hpp"
#include "pipeline/run/pipeline_run.hpp"

// What a run chooses before most of its chunks go: their size, how many at a time, staging.
namespace gantry {
namespace {

constexpr unsigned kDepth = 4;
constexpr unsigned kSharedDepth = 3;        // the next are ready when one ends
constexpr std::uint64_t kFewestSteps = 64;  // steps that make a measurement worthwhile
constexpr std::chrono::nanoseconds kTelling = std::chrono::microseconds(150);
constexpr std::chrono::nanoseconds kShortJob = std::chrono::milliseconds(1);
constexpr unsigned kGrowth = 8;
constexpr Bytes kUnifiedBytes = Bytes{16} << 20;

std::chrono::nanoseconds longest(const MeasuredChunk& chunk) noexcept {
  return std::max({chunk.copy_in, chunk.compute, chunk.copy_out});
}

MeasuredChunk least_of(const MeasuredChunk& one, const MeasuredChunk& other) noexcept {
  return {one.steps, std::min(one.copy_in, other.copy_in), std::min(one.compute, other.compute),
          std::min(one.copy_out, other.copy_out), std::min(one.all, other.all)};
}

}  // namespace

Result<PlanInput> PipelineRun::plan_input() {
  const DeviceFacts& facts = device_.facts();
  GANTRY_ASSIGN(const DeviceMemory memory, device_.memory());
  PlanInput input;
  input.steps = steps_left();
  for (const RunArray& array : arrays_) {
    const auto& argument = *array.argument;
    const bool is_array = argument.reads() || argument.writes();
    input.fixed_bytes += array.partials_bytes;
    if (!is_array || array.staging == Staging::shared) continue;
    input.step_bytes += argument.step_bytes;
    input.fixed_bytes += (argument.halo.before + argument.halo.after) * argument.step_bytes;
    input.fewest = std::max(input.fewest, 4 * (argument.halo.before + argument.halo.after));
    if (array.staging != Staging::ring) continue;
    input.is_staged_in |= argument.reads();
    input.is_staged_out |= argument.writes();
  }
  // Memory that is the host's belongs to everybody. Copies there are quick while the ring is in a
  // cache, and touching more than a cache gains nothing.
  const Bytes small = kUnifiedBytes + 16 * input.fixed_bytes;
  // In so small a ring small chunks gain little, and what a short measurement says of them is
  // noise: the CPUs compute, copy and measure.
  if (facts.unified_memory && input.step_bytes != 0)
    input.fewest =
        std::max(input.fewest, std::min(kUnifiedBytes / 4 / input.step_bytes, input.steps / 16));
  const Bytes usable =
      facts.unified_memory ? std::min(small, memory.free_bytes / 4) : memory.free_bytes / 10 * 8;
  input.device_bytes = options_.device_bytes != 0 ? options_.device_bytes : usable;
  return input;
}

Result<ChunkChoice> PipelineRun::choose() {
  if (options_.mode == PipelineMode::unbatched) {
    report_.plan.reasons.emplace_back("one chunk: asked for");
    return ChunkChoice{steps_left(), 1};
  }
  if (options_.chunk_steps != 0) return choose_by_hand();
  if (is_all_shared() && !is_sequential()) return choose_shared();
  GANTRY_ASSIGN(const PlanInput input, plan_input());
  const bool is_measured = options_.mode == PipelineMode::automatic && input.steps >= kFewestSteps;
  auto choice = is_measured ? measure() : default_chunks(input, report_.plan);
  if (!choice) return choice;
  if (options_.depth > choice->depth) {  // which must fit, too
    GANTRY_ASSIGN(const PlanInput now, plan_input());
    choice->chunk_steps = std::min(choice->chunk_steps, most_steps(now, options_.depth));
  }
  if (options_.depth != 0) choice->depth = options_.depth;
  choice->chunk_steps = in_grains(choice->chunk_steps);
  if (is_sequential()) choice->depth = 1;
  return choice;
}

Result<ChunkChoice> PipelineRun::choose_by_hand() {
  const std::uint64_t chunk = std::min(options_.chunk_steps, steps_left());
  const unsigned wanted = options_.depth != 0 ? options_.depth : kDepth;
  report_.plan.reasons.push_back(fmt::format("chunks of {} steps: asked for", chunk));
  return ChunkChoice{chunk, is_sequential() ? 1 : wanted};
}

bool PipelineRun::is_all_shared() const noexcept {
  std::size_t count = 0;
  for (const RunArray& array : arrays_) {
    if (!array.argument->reads() && !array.argument->writes()) continue;
    if (array.staging != Staging::shared) return false;
    ++count;
  }
  return count != 0;
}

// Chunks that do not begin at a multiple of the grain would be copied.
std::uint64_t PipelineRun::in_grains(std::uint64_t steps) const noexcept {
  return std::max(steps / cut_.grain, std::uint64_t{1}) * cut_.grain;
}

// There is nothing to overlap with, so a chunk more is only a launch more.
ChunkChoice PipelineRun::choose_shared() {
  constexpr Bytes kMostBytes = Bytes{1} << 30;  // so that errors and timelines name a place
  Bytes all = 0, largest = 1;
  for (const RunArray& array : arrays_) {
    if (!array.argument->reads() && !array.argument->writes()) continue;
    all += array.argument->step_bytes;
    largest = std::max(largest, array.argument->step_bytes);
  }
  // A buffer has the halos, too: an eighth is left for them.
  const std::uint64_t fits = device_.facts().max_buffer_bytes / 8 * 7 / largest;
  const std::uint64_t most = in_grains(std::min(fits, kMostBytes / std::max<Bytes>(all, 1)));
  const std::uint64_t first = std::max(cut_.head, steps_.first);
  const std::uint64_t last = std::max(std::min(cut_.tail, steps_.last), first + 1);
  const std::uint64_t middle = last - first;
  const std::uint64_t chunks = (middle - 1) / most + 1;
  const std::uint64_t chunk = in_grains((middle - 1) / chunks + cut_.grain);
  report_.plan.reasons.push_back(
      fmt::format("chunks of {} steps: nothing is copied, so that no chunk hides another", chunk));
  const bool is_one = chunk >= steps_.count();
  return {chunk, options_.depth != 0 ? options_.depth : is_one ? 1 : kSharedDepth};
}

Result<MeasuredChunk> PipelineRun::probe(ChunkRing& ring, std::uint64_t steps) {
  const auto begin = Clock::now();
  probe_failure_ = executor_->run_one_by_one(ring, steps);
  if (probe_failure_) return named(probe_failure_->error, probe_failure_->chunk);
  const ChunkTimes& times = executor_->last_times();
  return MeasuredChunk{steps, times.copy_in.span(), times.compute.span(), times.copy_out.span(),
                       Clock::now() - begin};
}

Result<ChunkRing> PipelineRun::probe_ring(std::uint64_t steps, double& making_ns_per_byte) {
  const auto begin = Clock::now();
  ChunkChoice one{steps, 1};
  GANTRY_ASSIGN(ChunkRing ring, make_ring(one));
  making_ns_per_byte = static_cast<double>((Clock::now() - begin).count()) /
                       static_cast<double>(std::max<Bytes>(ring.device_bytes(), 1));
  return ring;
}

// Runs the first chunks, one at a time and each larger than the one before, until they tell
// something. The first shows nothing, since all is cold.
Result<ChunkChoice> PipelineRun::measure() {
  constexpr Bytes kFirstBytes = Bytes{64} << 10;
  constexpr std::uint64_t kFirstSteps = 4096;  // where steps have no bytes
  GANTRY_ASSIGN(PlanInput input, plan_input());
  const std::uint64_t by_size =
      input.step_bytes == 0 ? kFirstSteps : kFirstBytes / std::min(kFirstBytes, input.step_bytes);
  const std::uint64_t first =
      in_grains(std::max<std::uint64_t>(1, std::min(by_size, input.steps / 256)));
  const std::uint64_t most = in_grains(std::min(
      {std::max<std::uint64_t>(input.steps / 32, first), 64 * first, most_steps(input, 1)}));
  const auto before = registering_.registrar ? registering_.registrar->report() : RegistrarReport{};
  double making = 0;
  GANTRY_ASSIGN(ChunkRing ring, probe_ring(std::min(first, most), making));
  GANTRY_ASSIGN(const MeasuredChunk cold, probe(ring, ring.chunk_steps()));
  const std::chrono::duration<double, std::nano> all =
      cold.all * (static_cast<double>(input.steps) / static_cast<double>(cold.steps));
  if (all < kShortJob) {
    report_.plan.reasons.emplace_back("the job is too short to be measured");
    GANTRY_ASSIGN(input, plan_input());
    return default_chunks(input, report_.plan);
  }
  GANTRY_ASSIGN(MeasuredChunk small, probe(ring, ring.chunk_steps()));
  GANTRY_ASSIGN(const MeasuredChunk again, probe(ring, ring.chunk_steps()));
  small = least_of(small, again);
  MeasuredChunk large = small;
  while (longest(large) < kTelling && large.steps < most) {
    if (large.steps > small.steps) small = large;
    ring = {};  // both might not fit
    GANTRY_ASSIGN(ring, probe_ring(std::min(large.steps * kGrowth, most), making));
    if (ring.chunk_steps() <= large.steps) break;  // no more memory
    GANTRY_ASSIGN(large, probe(ring, ring.chunk_steps()));
  }
  if (registering_.registrar != nullptr && ring.host_bytes() != 0) {
    const auto after = registering_.registrar->report();
    const double each = static_cast<double>((after.time - before.time).count()) /
                        static_cast<double>(ring.host_bytes());
    GANTRY_TRY(reconsider(arrays_, options_, each, registering_, report_.plan));
  }
  ring = {};
  GANTRY_ASSIGN(input, plan_input());
  input.making_ns_per_byte = making;
  return choose_by_measure(input, small, large, report_.plan);
}

}  // namespace gantry
