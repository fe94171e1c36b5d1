#include "pipeline/run/pipeline_run.hpp"

#include <algorithm>

#include "pipeline/job/extents.hpp"
#include "pipeline/job/job_check.hpp"
#include "pipeline/run/broadcast.hpp"
#include "pipeline/run/caught.hpp"

namespace gantry {
namespace {

using Kind = PipelineJob::Argument::Kind;

bool is_full(Code code) noexcept {
  return code == Code::device_full || code == Code::too_large;
}

}  // namespace

Result<PipelineReport> run_pipeline(Device& device, const PipelineJob& job,
                                    const PipelineOptions& options) {
  return caught([&]() -> Result<PipelineReport> {
    GANTRY_TRY(check_job(job, options));
    return PipelineRun(device, job, options, {0, job.steps()}).run();
  });
}

Result<PipelineReport> PipelineRun::run() {
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

// ---- before the first chunk ----------------------------------------------------------------

Result<void> PipelineRun::prepare() {
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
Result<void> PipelineRun::check_halos() const {
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

Result<void> PipelineRun::bring_broadcasts() {
  for (std::size_t i = 0; i < arrays_.size(); ++i) {
    if (arrays_[i].argument->kind != Kind::broadcast) continue;
    const auto brought = caught([&] { return bring_broadcast(arrays_[i]); });
    if (brought) continue;
    executor_->halt();
    return fail(brought.error().code,
                fmt::format("chunk 0: the broadcast, argument {}: {}", i, brought.error().message),
                brought.error().hint);
  }
  return {};
}

Result<void> PipelineRun::bring_broadcast(RunArray& array) {
  const PipelineSource& source = array.argument->source;
  if (array.staging == Staging::shared) {
    GANTRY_ASSIGN(array.whole, device_.over(shared_whole(source), source.held));
    return {};
  }
  GANTRY_ASSIGN(array.whole, gantry::bring_broadcast(device_, executor_->copy_in_queue(), source,
                                                     options_.file_io, executor_->limit()));
  report_.bytes_in += source.size;
  report_.plan.device_bytes += source.size;
  return {};
}

// ---- the flow ------------------------------------------------------------------------------

Result<void> PipelineRun::flow(ChunkChoice choice) {
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

std::string PipelineRun::not_registered(std::string_view why) {
  return fmt::format("the ring is not registered: {}", why);
}

void PipelineRun::finish(const ChunkRing& ring) {
  PipelinePlan& plan = report_.plan;
  plan.chunk_steps = ring.chunk_steps();
  plan.depth = ring.depth();
  plan.chunks = executor_->chunks_done();
  plan.device_bytes = std::max(plan.device_bytes, ring.device_bytes());
  plan.ring_bytes = ring.host_bytes();
  if (!ring.why_plain().empty()) plan.reasons.push_back(not_registered(ring.why_plain()));
}

// A chunk whose results may have landed on its own input cannot be computed again; nor can one
// whose results sinks and folds have seen.
bool PipelineRun::may_retry(const ChunkFailure& failure, const ChunkChoice& choice) const {
  using Stage = ChunkFailure::Stage;
  const bool is_shared = std::ranges::count(arrays_, Staging::shared, &RunArray::staging) != 0;
  const bool has_results =
      failure.stage == Stage::copy_out || (failure.stage == Stage::compute && is_shared);
  const bool is_intact = !has_results || !overwrites_inputs(job_);
  return failure.stage != Stage::ends && is_full(failure.error.code) && choice.chunk_steps > 1 &&
         is_intact && options_.mode != PipelineMode::unbatched;
}

Result<ChunkRing> PipelineRun::make_ring(ChunkChoice& choice) {
  for (;;) {
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

tl::unexpected<Error> PipelineRun::named(Error error, const Chunk& chunk) const {
  error.message = fmt::format("{}: {}", to_string(chunk), error.message);
  return tl::unexpected(std::move(error));
}

}  // namespace gantry
