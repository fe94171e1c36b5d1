#include <gantry/schedule/executor.hpp>

#include <fmt/format.h>

#include <algorithm>

#include "base/result.hpp"
#include "schedule/run/plan_run.hpp"

namespace gantry {
namespace {

constexpr Bytes kLine = 64;

bool computes(const Plan& plan, unsigned rank) {
  return std::ranges::any_of(plan.steps, [&](const PlanStep& step) {
    return step.rank == rank && (step.verb == PlanVerb::gemm || step.verb == PlanVerb::copy ||
                                 step.verb == PlanVerb::reduce || step.verb == PlanVerb::fill);
  });
}

Result<std::shared_ptr<GemmLibrary>> library_for(const Plan& plan, unsigned rank,
                                                 const PlanExecutorOptions& options) {
  std::shared_ptr<GemmLibrary> library = options.gemm;
  for (std::uint32_t i = 0; i < plan.steps.size(); ++i) {
    const PlanStep& step = plan.steps[i];
    if (step.rank != rank || step.verb != PlanVerb::gemm) continue;
    if (library == nullptr) {
      GANTRY_ASSIGN(library, open_gemm());
    }
    if (!library->takes(plan.tensors[step.to.tensor].type))
      return fail(Code::unsupported, fmt::format("{}: {} has no products of that type",
                                                 name_of_step(plan, i), library->facts().library));
  }
  return library;
}

}  // namespace

// ---- memory ----------------------------------------------------------------------------------

Result<PlanBuffers> PlanBuffers::make(const Plan& plan, unsigned rank,
                                      std::span<const PlanMemory> own) {
  return guarded([&]() -> Result<PlanBuffers> {
    if (rank >= plan.ranks)
      return fail(Code::invalid_argument, fmt::format("rank {} of {}", rank, plan.ranks));
    GANTRY_TRY(check_plan(plan));  // so that the sizes are sound
    std::vector<std::optional<Bytes>> offsets(plan.tensors.size());
    Bytes size = 0;
    const auto has_own = [&](unsigned tensor) {
      return tensor < own.size() && own[tensor].data != nullptr;
    };
    const auto take = [&](const PlanPlace& place) {
      if (place.rank != rank || offsets[place.tensor] || has_own(place.tensor)) return;
      const PlanTensor& tensor = plan.tensors[place.tensor];
      offsets[place.tensor] = size;
      const Bytes bytes = static_cast<Bytes>(tensor.rows) * static_cast<Bytes>(tensor.cols) *
                          (tensor.type.bits / 8);
      size += (bytes + kLine - 1) / kLine * kLine;
    };
    for (const auto* const values : {&plan.given, &plan.wanted})
      for (const PlanValue& value : *values) take(value.place);
    for (const PlanStep& step : plan.steps) {
      if (step.verb == PlanVerb::signal || step.verb == PlanVerb::barrier) continue;
      take(step.to);
      if (step.verb != PlanVerb::fill) take(step.from);
      if (step.verb == PlanVerb::gemm) take(step.other);
    }
    PlanBuffers made;
    GANTRY_ASSIGN(Region region, Region::create(std::max(size, kLine), "gantry-plan"));
    made.region = std::make_unique<Region>(std::move(region));
    for (unsigned i = 0; i < offsets.size(); ++i)
      made.tensors.push_back(
          has_own(i)   ? own[i]
          : offsets[i] ? PlanMemory{made.region->data() + *offsets[i], 0, made.region.get()}
                       : PlanMemory{});
    return made;
  });
}

// ---- the executor ----------------------------------------------------------------------------

class PlanExecutor::Impl {
 public:
  Impl(Group::Impl& ranks, PreparedPlan what, PlanFacts costs)
      : group(ranks), prepared(std::move(what)), facts(std::move(costs)) {}

  Result<void> begin(const PlanExecutorOptions& options, Deadline deadline) {
    GANTRY_ASSIGN(gemm, library_for(prepared.plan, group.rank(), options));
    if (computes(prepared.plan, group.rank())) {
      GANTRY_ASSIGN(compute, ComputeThread::start(prepared.plan, prepared.places, gemm.get()));
    }
    group.begin_operation();
    return prepared.places.exchange(group, prepared.hash, deadline);
  }

  Group::Impl& group;
  PreparedPlan prepared;
  const PlanFacts facts;
  std::shared_ptr<GemmLibrary> gemm;
  std::unique_ptr<ComputeThread> compute;
};

PlanExecutor::PlanExecutor(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
PlanExecutor::PlanExecutor(PlanExecutor&&) noexcept = default;
PlanExecutor& PlanExecutor::operator=(PlanExecutor&&) noexcept = default;
PlanExecutor::~PlanExecutor() = default;

Result<PlanExecutor> PlanExecutor::prepare(Group& group, const Plan& plan,
                                           std::span<const PlanMemory> memory,
                                           const PlanExecutorOptions& options, Deadline deadline) {
  return guarded([&]() -> Result<PlanExecutor> {
    Group::Impl& ranks = group.impl();
    const auto held = ranks.hold();
    if (ranks.failure()) return tl::unexpected(*ranks.failure());
    const auto make = [&]() -> Result<PlanExecutor> {
      if (plan.ranks != ranks.ranks())
        return fail(Code::invalid_argument,
                    fmt::format("a plan for {} ranks in a group of {}", plan.ranks, ranks.ranks()));
      GANTRY_ASSIGN(PlanFacts facts, check_plan(plan, options.limits));
      PreparedPlan prepared{plan, hash_of(plan), RankScript(plan, ranks.rank()), PlanPlaces(plan)};
      auto impl = std::make_unique<Impl>(ranks, std::move(prepared), std::move(facts));
      // The places look into the plan where it stays.
      GANTRY_ASSIGN(impl->prepared.places,
                    PlanPlaces::of(impl->prepared.plan, ranks.rank(), memory));
      GANTRY_TRY(impl->begin(options, deadline));
      return PlanExecutor(std::move(impl));
    };
    auto made = make();
    if (made) return made;
    return tl::unexpected(ranks.break_with(made.error()));
  });
}

Result<PlanRun> PlanExecutor::run(Deadline deadline) {
  return guarded([&]() -> Result<PlanRun> {
    Group::Impl& group = impl_->group;
    const auto held = group.hold();
    if (group.failure()) return tl::unexpected(*group.failure());
    group.begin_operation();
    auto run = PlanRunLoop(impl_->prepared, group, impl_->compute.get()).go(deadline);
    if (run) return run;
    const Error first = group.break_with(run.error());
    if (impl_->compute) impl_->compute->cancel();
    return tl::unexpected(first);
  });
}

const PlanFacts& PlanExecutor::facts() const noexcept {
  return impl_->facts;
}

}  // namespace gantry
