#include <algorithm>
#include <memory>
#include <optional>
#include <span>

#include "core/base/assert.hpp"
#include "core/base/text_lines.hpp"
#include "device/pipeline/chunk_executor.hpp"
#include "device/pipeline/chunk_planner.hpp"
#include "device/pipeline/device_run.hpp"
#include "device/pipeline/device_split.hpp"
#include "device/pipeline/job_check.hpp"
#include "device/pipeline/staging.hpp"

namespace gantry {
namespace {

using Kind = PipelineJob::Argument::Kind;

bool is_full(Code code) noexcept {
  return code == Code::device_full || code == Code::too_large;
}

constexpr unsigned kDepth = 4;
constexpr unsigned kSharedDepth = 3;        // the next are ready when one ends
constexpr std::uint64_t kFewestSteps = 64;  // steps that make a measurement worthwhile
constexpr std::chrono::nanoseconds kTelling = std::chrono::microseconds(150);
constexpr std::chrono::nanoseconds kShortJob = std::chrono::milliseconds(1);
constexpr unsigned kGrowth = 8;
// Making rings, to measure them, takes some 5 ms of a GPU's driver.
constexpr std::chrono::nanoseconds kWorthRings = std::chrono::milliseconds(20);
constexpr Bytes kTrialBytes = Bytes{8} << 20;
constexpr Bytes kUnifiedBytes = Bytes{16} << 20;

std::chrono::nanoseconds longest(const MeasuredChunk& chunk) noexcept {
  return std::max({chunk.copy_in, chunk.compute, chunk.copy_out});
}

MeasuredChunk least_of(const MeasuredChunk& one, const MeasuredChunk& other) noexcept {
  return {one.steps,
          std::min(one.copy_in, other.copy_in),
          std::min(one.compute, other.compute),
          std::min(one.copy_out, other.copy_out),
          std::min(one.all, other.all),
          std::min(one.stage_in, other.stage_in),
          std::min(one.stage_out, other.stage_out)};
}

MeasuredChunk without_ring(MeasuredChunk chunk) noexcept {
  chunk.all -= chunk.stage_in + chunk.stage_out;
  chunk.stage_in = chunk.stage_out = {};
  return chunk;
}

double in_ms(std::chrono::nanoseconds time) noexcept {
  return static_cast<double>(time.count()) / 1e6;
}

void put(std::span<RunArray* const> arrays, Staging staging) noexcept {
  for (RunArray* array : arrays) array->staging = staging;
}

/// One run of a job, from its check to its report.
class PipelineRun {
 public:
  /// Runs only `steps` of the job; halos reach beyond them.
  PipelineRun(Device& device, const PipelineJob& job, const PipelineOptions& options,
              const StepRange& steps)
      : device_(device), job_(job), options_(options), steps_(steps) {}

  [[nodiscard]] Result<PipelineReport> run() {
    const auto begin = Clock::now();
    report_.plan.mode = options_.mode;
    GANTRY_TRY(prepare());
    report_.setup = Clock::now() - begin;
    auto choice = choose();
    if (!choice) {
      executor_->halt();
      const ChunkChoice smaller{probe_failure_ ? (probe_failure_->chunk.steps + 1) / 2 : 0, 2};
      if (!probe_failure_ || !may_retry(*probe_failure_, smaller))
        return tl::unexpected(std::move(choice).error());
      ++report_.shrinks;
      choice = smaller;
    }
    GANTRY_TRY(flow(*choice));
    report_.registering = registering_.spent;
    executor_->report(report_);
    for (const RunArray& array : arrays_) report_.plan.staging.push_back(array.staging);
    executor_.reset();
    arrays_.clear();  // unregistering is part of the time, too
    report_.elapsed = Clock::now() - begin;
    return std::move(report_);
  }

 private:
  using Failure = ChunkExecutor::Failure;
  using Clock = Deadline::Clock;

  [[nodiscard]] bool is_sequential() const noexcept {
    return options_.mode == PipelineMode::sequential ||
           options_.mode == PipelineMode::sequential_pinned ||
           options_.mode == PipelineMode::unbatched;
  }
  [[nodiscard]] std::uint64_t steps_left() const noexcept {
    return steps_.last - executor_->steps_done();
  }
  [[nodiscard]] Result<void> prepare() {
    GANTRY_ASSIGN(Kernel kernel, job_.kernel_on(device_));
    GANTRY_ASSIGN(zero_copy_, zero_copy_of(device_.facts(), options_));
    GANTRY_ASSIGN(registering_, make_registering(device_, options_));
    GANTRY_ASSIGN(FileLanes files, FileLanes::open(device_, job_, options_, report_.plan));
    GANTRY_TRY(check_halos());
    GANTRY_ASSIGN(arrays_, bind_arrays(job_, options_, device_.facts(), zero_copy_, registering_,
                                       files.in.get(), report_.plan));
    cut_ = {1, 0, job_.steps()};
    if (zero_copy_.alignment != 0 && options_.chunk_steps == 0)
      cut_ = cut_of(arrays_, job_.steps(), zero_copy_.alignment);
    executor_ = std::make_unique<ChunkExecutor>(device_, job_, options_, std::move(kernel), arrays_,
                                                cut_, steps_.first);
    GANTRY_TRY(executor_->open(is_sequential(), std::move(files)));
    return bring_broadcasts();
  }

  // The host makes the steps at the edges first, and would waste its memory on them.
  [[nodiscard]] Result<void> check_halos() const {
    GANTRY_ASSIGN(const DeviceMemory memory, device_.memory());
    for (std::size_t i = 0; i < job_.arguments().size(); ++i) {
      const auto& argument = job_.arguments()[i];
      const Bytes size = (argument.halo.before + argument.halo.after) * argument.step_bytes;
      if (size <= memory.free_bytes) continue;
      return named({Code::device_full,
                    fmt::format("{}: the halo of argument {} takes {} bytes: {} are free",
                                device_.facts().name, i, size, memory.free_bytes),
                    {}},
                   {0, steps_.first, 1});
    }
    return {};
  }

  [[nodiscard]] Result<void> bring_broadcasts() {
    for (std::size_t i = 0; i < arrays_.size(); ++i) {
      if (arrays_[i].argument->kind != Kind::broadcast) continue;
      const auto brought = caught([&] { return bring_broadcast(arrays_[i]); });
      if (brought) continue;
      executor_->halt();
      return prefixed(brought.error(), "chunk 0: the broadcast, argument {}", i);
    }
    return {};
  }

  [[nodiscard]] Result<void> bring_broadcast(RunArray& array) {
    const PipelineSource& source = array.argument->source;
    if (array.staging == Staging::shared) {
      GANTRY_ASSIGN(array.whole, device_.over(shared_whole(source), source.held));
      return {};
    }
    GANTRY_ASSIGN(array.whole, gantry::bring_broadcast(device_, executor_->copy_in_queue(), source,
                                                       options_.file_io, limit_of(options_)));
    report_.bytes_in += source.size;
    report_.plan.device_bytes += source.size;
    return {};
  }

  [[nodiscard]] Result<PlanInput> plan_input() {
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

  [[nodiscard]] Result<ChunkChoice> choose() {
    if (options_.mode == PipelineMode::unbatched) {
      report_.plan.reasons.emplace_back("one chunk: asked for");
      return ChunkChoice{steps_left(), 1};
    }
    if (options_.chunk_steps != 0) return choose_by_hand();
    if (is_all_shared() && !is_sequential()) return choose_shared();
    GANTRY_ASSIGN(const PlanInput input, plan_input());
    const bool is_measured =
        options_.mode == PipelineMode::automatic && input.steps >= kFewestSteps;
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

  [[nodiscard]] Result<ChunkChoice> choose_by_hand() {
    const std::uint64_t chunk = std::min(options_.chunk_steps, steps_left());
    const unsigned wanted = options_.depth != 0 ? options_.depth : kDepth;
    report_.plan.reasons.push_back(fmt::format("chunks of {} steps: asked for", chunk));
    return ChunkChoice{chunk, is_sequential() ? 1 : wanted};
  }

  // What a ring costs is measured where the caller's memory as it is would take long; but of memory
  // that will be used again it is always.
  [[nodiscard]] Result<ChunkChoice> measure() {
    const std::vector<RunArray*> arrays = free_to_choose(arrays_, options_, registering_);
    std::optional<Way> direct;
    if (!arrays.empty() && options_.uses <= 1) {
      put(arrays, Staging::direct);
      GANTRY_ASSIGN(direct, direct_way());
      if (direct->time < kWorthRings) {
        report_.plan = std::move(direct->plan);
        report_.plan.reasons.emplace_back("the job is too short to measure a ring");
        return direct->choice;
      }
      put(arrays, Staging::ring);
    }
    Measured measured;
    GANTRY_ASSIGN(const auto short_job, measure_chunks(measured));
    if (short_job) return *short_job;
    return choose_way(arrays, measured, std::move(direct));
  }

  /// For jobs that need no copies.
  // There is nothing to overlap with, so a chunk more is only a launch more.
  [[nodiscard]] ChunkChoice choose_shared() {
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
    report_.plan.reasons.push_back(fmt::format(
        "chunks of {} steps: nothing is copied, so that no chunk hides another", chunk));
    const bool is_one = chunk >= steps_.count();
    return {chunk, options_.depth != 0 ? options_.depth : is_one ? 1 : kSharedDepth};
  }

  [[nodiscard]] bool is_all_shared() const noexcept {
    std::size_t count = 0;
    for (const RunArray& array : arrays_) {
      if (!array.argument->reads() && !array.argument->writes()) continue;
      if (array.staging != Staging::shared) return false;
      ++count;
    }
    return count != 0;
  }

  // Chunks that do not begin at a multiple of the grain would be copied.
  [[nodiscard]] std::uint64_t in_grains(std::uint64_t steps) const noexcept {
    return std::max(steps / cut_.grain, std::uint64_t{1}) * cut_.grain;
  }
  struct Measured {
    MeasuredChunk small, large;
    double making_ns_per_byte = 0;       ///< Of the last ring.
    double registering_ns_per_byte = 0;  ///< Of its host memory.
    std::string why_plain;               ///< Why that is not registered.
  };
  /// One way for the caller's memory to the device, its plan, and the time it is predicted to take.
  struct Way {
    Staging staging;
    PipelinePlan plan;
    ChunkChoice choice;
    std::chrono::nanoseconds time;
  };
  // By way of a ring; from the caller's memory, once it is registered; or as it is (`direct`, if
  // that was tried).
  [[nodiscard]] Result<ChunkChoice> choose_way(std::span<RunArray* const> arrays,
                                               const Measured& measured,
                                               std::optional<Way> direct) {
    GANTRY_ASSIGN(Way best, measured_way(measured, Staging::ring));
    std::string times = fmt::format("by way of a ring {:.2f} ms", in_ms(best.time));
    // Of about equal ones the later is taken: it leaves the host's CPUs more to others.
    const auto weigh = [&](Way way, std::string_view name) {
      times += fmt::format(", {} {:.2f} ms", name, in_ms(way.time));
      if (in_ms(way.time) < 1.05 * in_ms(best.time)) best = std::move(way);
    };
    if (!arrays.empty()) {
      put(arrays, Staging::in_place);
      Measured bare = measured;
      for (MeasuredChunk* chunk : {&bare.small, &bare.large}) *chunk = without_ring(*chunk);
      GANTRY_ASSIGN(Way in_place, measured_way(bare, Staging::in_place));
      const double registering = measured.registering_ns_per_byte *
                                 static_cast<double>(bytes_of(arrays)) /
                                 static_cast<double>(std::max<std::uint64_t>(options_.uses, 1));
      in_place.time += time_from(registering);
      weigh(std::move(in_place), "registered in place");
      if (direct) weigh(*std::move(direct), "as it is");
      best.plan.reasons.push_back(
          fmt::format("the caller's memory, of {} uses: {}", options_.uses, times));
    }
    put(arrays, best.staging);
    if (best.staging == Staging::direct && !measured.why_plain.empty())
      best.plan.reasons.push_back(not_registered(measured.why_plain));
    report_.plan = std::move(best.plan);
    if (best.staging == Staging::in_place) register_all(arrays, registering_, report_.plan);
    return best.choice;
  }

  // Runs the next chunks, one at a time and each larger than the one before, until they tell
  // something. The first shows nothing, since all is cold. A choice: there is too little to
  // measure.
  [[nodiscard]] Result<std::optional<ChunkChoice>> measure_chunks(Measured& measured) {
    constexpr Bytes kFirstBytes = Bytes{64} << 10;
    constexpr std::uint64_t kFirstSteps = 4096;  // where steps have no bytes
    GANTRY_ASSIGN(PlanInput input, plan_input());
    const std::uint64_t by_size =
        input.step_bytes == 0 ? kFirstSteps : kFirstBytes / std::min(kFirstBytes, input.step_bytes);
    const std::uint64_t first =
        in_grains(std::max<std::uint64_t>(1, std::min(by_size, input.steps / 256)));
    const std::uint64_t most = in_grains(std::min(
        {std::max<std::uint64_t>(input.steps / 32, first), 64 * first, most_steps(input, 1)}));
    GANTRY_ASSIGN(ChunkRing ring, probe_ring(std::min(first, most), measured));
    GANTRY_ASSIGN(const MeasuredChunk cold, probe(ring, ring.chunk_steps()));
    const std::chrono::duration<double, std::nano> all =
        cold.all * (static_cast<double>(input.steps) / static_cast<double>(cold.steps));
    if (all < kShortJob) {
      report_.plan.reasons.emplace_back("the job is too short to be measured");
      GANTRY_ASSIGN(input, plan_input());
      return default_chunks(input, report_.plan);
    }
    GANTRY_ASSIGN(measured.small, probe(ring, ring.chunk_steps()));
    GANTRY_ASSIGN(const MeasuredChunk again, probe(ring, ring.chunk_steps()));
    measured.large = measured.small = least_of(measured.small, again);
    while (longest(measured.large) < kTelling && measured.large.steps < most) {
      if (measured.large.steps > measured.small.steps) measured.small = measured.large;
      ring = {};  // both might not fit
      GANTRY_ASSIGN(ring, probe_ring(std::min(measured.large.steps * kGrowth, most), measured));
      if (ring.chunk_steps() <= measured.large.steps) break;  // no more memory
      GANTRY_ASSIGN(measured.large, probe(ring, ring.chunk_steps()));
    }
    return std::nullopt;
  }

  // The plan for what was measured. The arrays are labelled `staging`, and not registered yet.
  [[nodiscard]] Result<Way> measured_way(const Measured& measured, Staging staging) {
    Way way{staging, report_.plan, {}, {}};
    GANTRY_ASSIGN(PlanInput input, plan_input());
    input.making_ns_per_byte = measured.making_ns_per_byte;
    way.choice = choose_by_measure(input, measured.small, measured.large, way.plan);
    way.time = way.plan.predicted;
    return way;
  }

  // Memory as it is: only a trial tells what the driver does with it. The first is cold. Both are
  // chunks as they would be then, so that nothing is lost by them.
  [[nodiscard]] Result<Way> direct_way() {
    GANTRY_ASSIGN(const PlanInput before, plan_input());
    const std::uint64_t by_size = kTrialBytes / std::max<Bytes>(before.step_bytes, 1);
    const std::uint64_t steps = in_grains(
        std::clamp<std::uint64_t>(before.steps / 16, 1, std::max<std::uint64_t>(by_size, 1)));
    Measured unused;
    GANTRY_ASSIGN(ChunkRing ring, probe_ring(std::min(steps, most_steps(before, 1)), unused));
    GANTRY_TRY(probe(ring, ring.chunk_steps()));
    GANTRY_ASSIGN(const MeasuredChunk chunk, probe(ring, ring.chunk_steps()));
    Way way{Staging::direct, report_.plan, {}, {}};
    const auto rate = [&](std::chrono::nanoseconds time) {
      return PipelinePlan::Stream{
          {}, static_cast<double>(time.count()) / static_cast<double>(chunk.steps)};
    };
    way.plan.copy_in = rate(chunk.copy_in);
    way.plan.compute = rate(chunk.compute);
    way.plan.copy_out = rate(chunk.copy_out);
    way.plan.reasons.push_back(
        fmt::format("measured: a trial chunk of {} steps as they are, {:.2f} ms", chunk.steps,
                    in_ms(chunk.all)));
    GANTRY_ASSIGN(const PlanInput input, plan_input());
    way.choice = default_chunks(input, way.plan);
    const double all = rate(chunk.all).ns_per_step * static_cast<double>(input.steps);
    way.time = way.plan.predicted = time_from(all);
    return way;
  }

  [[nodiscard]] Result<ChunkRing> probe_ring(std::uint64_t steps, Measured& measured) {
    const auto registering = [this] {
      return registering_.registrar ? registering_.registrar->report().time
                                    : std::chrono::nanoseconds{};
    };
    const auto per_byte = [](std::chrono::nanoseconds time, Bytes bytes) {
      return static_cast<double>(time.count()) / static_cast<double>(std::max<Bytes>(bytes, 1));
    };
    const auto begin = Clock::now();
    const std::chrono::nanoseconds registered = registering();
    ChunkChoice one{steps, 1};
    GANTRY_ASSIGN(ChunkRing ring, make_ring(one));
    // A ring that the device computes on has no memory of the device.
    const Bytes made = ring.device_bytes() != 0 ? ring.device_bytes() : ring.host_bytes();
    measured.making_ns_per_byte = per_byte(Clock::now() - begin, made);
    measured.why_plain = ring.why_plain();
    measured.registering_ns_per_byte = per_byte(registering() - registered, ring.host_bytes());
    return ring;
  }

  /// Runs the next steps as one chunk, timed.
  [[nodiscard]] Result<MeasuredChunk> probe(ChunkRing& ring, std::uint64_t steps) {
    const auto begin = Clock::now();
    probe_failure_ = executor_->run_one_by_one(ring, steps);
    if (probe_failure_) return named(probe_failure_->error, probe_failure_->chunk);
    const ChunkTimes& times = executor_->last_times();
    MeasuredChunk measured{steps, times.copy_in.span(), times.compute.span(), times.copy_out.span(),
                           Clock::now() - begin};
    // Where the host computes, its copies and its kernels take turns; that is in `all`.
    if (device_.facts().unified_memory) return measured;
    measured.stage_in = times.stage_in.span();
    measured.stage_out = times.stage_out.span();
    return measured;
  }

  [[nodiscard]] Result<void> flow(ChunkChoice choice) {
    while (steps_left() != 0) {
      GANTRY_ASSIGN(ChunkRing ring, make_ring(choice));
      auto failure = is_sequential() || choice.depth == 1
                         ? executor_->run_one_by_one(ring, steps_left())
                         : executor_->run_overlapped(ring, steps_left());
      finish(ring);
      if (!failure) break;
      executor_->halt();
      if (!may_retry(*failure, choice)) return named(std::move(failure->error), failure->chunk);
      choice.chunk_steps = (choice.chunk_steps + 1) / 2;
      ++report_.shrinks;
    }
    return {};
  }

  [[nodiscard]] Result<ChunkRing> make_ring(ChunkChoice& choice) {
    for (;;) {
      GANTRY_ASSERT(choice.chunk_steps > 0);
      const std::uint64_t chunks = 1 + (steps_left() - 1) / choice.chunk_steps;
      const auto depth = static_cast<unsigned>(std::min<std::uint64_t>(choice.depth, chunks));
      auto ring =
          ChunkRing::make(device_, arrays_, choice.chunk_steps, depth, registering_.registrar);
      if (ring) return ring;
      const bool is_least = choice.chunk_steps == 1 && depth == 1;
      if (!is_full(ring.error().code) || is_least || options_.mode == PipelineMode::unbatched)
        return named(std::move(ring).error(), {executor_->chunks_done(), executor_->steps_done(),
                                               std::min(choice.chunk_steps, steps_left())});
      if (choice.chunk_steps > 1)
        choice.chunk_steps = (choice.chunk_steps + 1) / 2;
      else
        choice.depth = depth - 1;
      ++report_.shrinks;
      report_.plan.reasons.push_back(fmt::format("made smaller, to {} steps, {} under way: {}",
                                                 choice.chunk_steps, choice.depth,
                                                 ring.error().message));
    }
  }

  // A chunk whose results may have landed on its own input cannot be computed again; nor can one
  // whose results sinks and folds have seen.
  [[nodiscard]] bool may_retry(const ChunkFailure& failure, const ChunkChoice& choice) const {
    using Stage = ChunkFailure::Stage;
    const bool is_shared = std::ranges::count(arrays_, Staging::shared, &RunArray::staging) != 0;
    const bool has_results =
        failure.stage == Stage::copy_out || (failure.stage == Stage::compute && is_shared);
    const bool is_intact = !has_results || !overwrites_inputs(job_);
    return failure.stage != Stage::ends && is_full(failure.error.code) && choice.chunk_steps > 1 &&
           is_intact && options_.mode != PipelineMode::unbatched;
  }

  [[nodiscard]] tl::unexpected<Error> named(Error error, const Chunk& chunk) const {
    return prefixed(std::move(error), "{}", to_string(chunk));
  }
  void finish(const ChunkRing& ring) {
    PipelinePlan& plan = report_.plan;
    plan.chunk_steps = ring.chunk_steps();
    plan.depth = ring.depth();
    plan.chunks = executor_->chunks_done();
    plan.device_bytes = std::max(plan.device_bytes, ring.device_bytes());
    plan.ring_bytes = ring.host_bytes();
    if (!ring.why_plain().empty()) plan.reasons.push_back(not_registered(ring.why_plain()));
  }

  [[nodiscard]] static std::string not_registered(std::string_view why) {
    return fmt::format("the ring is not registered: {}", why);
  }

  Device& device_;
  const PipelineJob& job_;
  const PipelineOptions& options_;
  const StepRange steps_;
  PipelineReport report_;
  ZeroCopy zero_copy_;
  Registering registering_;
  std::vector<RunArray> arrays_;
  ChunkCut cut_;
  std::unique_ptr<ChunkExecutor> executor_;
  Failure probe_failure_;  // the failure that ended the measurement
};

}  // namespace

Result<PipelineReport> run_pipeline(Device& device, const PipelineJob& job,
                                    const PipelineOptions& options) {
  return caught([&]() -> Result<PipelineReport> {
    GANTRY_TRY(check_job(job, options));
    return run_steps(device, job, options, {0, job.steps()});
  });
}

Result<PipelineReport> run_steps(Device& device, const PipelineJob& job,
                                 const PipelineOptions& options, const StepRange& steps) {
  return PipelineRun(device, job, options, steps).run();
}

}  // namespace gantry
