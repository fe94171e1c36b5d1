#include <gantry/plan.hpp>

#include <fmt/format.h>

#include <algorithm>

#include "core/base/result.hpp"
#include "ranks/schedule/run/plan_run.hpp"

namespace gantry {
namespace {

constexpr Bytes kLine = 64;

bool is_product(const PlanStep& step) noexcept {
  return step.verb == PlanVerb::gemm;
}
bool is_of_host(const PlanStep& step) noexcept {
  return step.verb == PlanVerb::copy || step.verb == PlanVerb::reduce ||
         step.verb == PlanVerb::fill;
}

bool has_any(const Plan& plan, unsigned rank, bool (*is_one)(const PlanStep&)) {
  return std::ranges::any_of(
      plan.steps, [&](const PlanStep& step) { return step.rank == rank && is_one(step); });
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
      return tensor < own.size() && (own[tensor].data != nullptr || own[tensor].buffer != nullptr);
    };
    const auto take = [&](const PlanPlace& place) {
      if (place.rank != rank || offsets[place.tensor] || has_own(place.tensor)) return;
      const PlanTensor& tensor = plan.tensors[place.tensor];
      offsets[place.tensor] = size;
      size += (bytes_of(tensor) + kLine - 1) / kLine * kLine;
    };
    for (const auto* const values : {&plan.given, &plan.wanted})
      for (const PlanValue& value : *values) take(value.place);
    for (const PlanStep& step : plan.steps) visit_places(step, take);
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
    const Plan& plan = prepared.plan;
    const unsigned rank = group.rank();
    const bool multiplies = has_any(plan, rank, is_product);
    if (options.device == nullptr)
      for (unsigned tensor = 0; tensor < plan.tensors.size(); ++tensor)
        if (prepared.places.memory(tensor).buffer != nullptr)
          return fail(Code::invalid_argument,
                      fmt::format("rank {}, tensor {}: it lies on a device, and products are "
                                  "computed by the host",
                                  rank, plan.tensors[tensor].name),
                      "PlanExecutorOptions::device");
    if (multiplies || has_any(plan, rank, is_of_host)) {
      GANTRY_ASSIGN(computing.ended, EndedSteps::make());
    }
    if (multiplies && options.device != nullptr) {
      GANTRY_ASSIGN(computing.device,
                    DeviceSteps::start(plan, rank, prepared.places, options.device,
                                       options.device_gemm, *computing.ended));
    } else {
      GANTRY_ASSIGN(gemm, library_for(plan, rank, options));
    }
    if (has_any(plan, rank, is_of_host) || (multiplies && !computing.device)) {
      GANTRY_ASSIGN(computing.host,
                    HostSteps::start(plan, prepared.places, gemm.get(), *computing.ended));
    }
    group.begin_operation();
    prepared.operation = group.operation();
    show_plan();
    group.report().enter(RankPage::State::preparing, prepared.operation);
    return prepared.places.exchange(group, prepared.hash, deadline);
  }

  void show_plan() {
    group.report().plan(prepared.hash, prepared.plan.about, prepared.script.items().size());
  }

  Group::Impl& group;
  PreparedPlan prepared;
  const PlanFacts facts;
  std::shared_ptr<GemmLibrary> gemm;
  RankComputing computing;
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
      PreparedPlan prepared{plan, hash_of(plan),
                            RankScript(plan, ranks.rank(), options.device != nullptr),
                            PlanPlaces(plan)};
      auto impl = std::make_unique<Impl>(ranks, std::move(prepared), std::move(facts));
      // The places look into the plan where it stays.
      GANTRY_ASSIGN(impl->prepared.places,
                    PlanPlaces::of(impl->prepared.plan, ranks.rank(), memory));
      GANTRY_TRY(impl->begin(options, deadline));
      return PlanExecutor(std::move(impl));
    };
    auto made = make();
    if (made) ranks.report().enter(RankPage::State::idle);
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
    if (group.report().plan_hash() != impl_->prepared.hash) impl_->show_plan();
    group.report().begin_run(group.operation());
    auto run =
        guarded([&] { return run_plan(impl_->prepared, group, impl_->computing, deadline); });
    if (run) group.report().enter(RankPage::State::idle);
    if (run) return run;
    const Error first = group.break_with(run.error());
    impl_->computing.cancel();
    return tl::unexpected(first);
  });
}

const PlanFacts& PlanExecutor::facts() const noexcept {
  return impl_->facts;
}

}  // namespace gantry
