#include "work.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace gantry::bench {
namespace {

constexpr unsigned kNone = ~0u;

/// The steps that `keeps` says, in their order, without waiting for others.
template <class Keeps>
Plan part_of(const Plan& plan, Keeps keeps) {
  Plan part{.ranks = plan.ranks, .lanes = plan.lanes};
  part.tensors = plan.tensors;
  std::vector<unsigned> place(plan.steps.size(), kNone);
  for (unsigned i = 0; i < plan.steps.size(); ++i) {
    if (!keeps(plan.steps[i])) continue;
    place[i] = static_cast<unsigned>(part.steps.size());
    PlanStep step = plan.steps[i];
    std::vector<unsigned> after;
    for (const unsigned awaited : step.after)
      if (place[awaited] != kNone) after.push_back(place[awaited]);
    step.after = std::move(after);
    part.steps.push_back(std::move(step));
  }
  return part;
}

/// Whole tensors of that rank, as matrices of their own.
void give(Plan& plan, const PlanPlace& place) {
  const PlanTensor& tensor = plan.tensors[place.tensor];
  const PlanPlace whole{place.rank, place.tensor, {0, 0, tensor.rows, tensor.cols}};
  const auto is_there = [&](const PlanValue& value) {
    return value.place.rank == place.rank && value.place.tensor == place.tensor;
  };
  if (std::ranges::any_of(plan.given, is_there)) return;
  plan.given.push_back({whole, {{fmt::format("G{}_{}", place.rank, place.tensor)}}});
}

}  // namespace

Plan products_of(const Plan& plan) {
  Plan part = part_of(plan, [](const PlanStep& step) { return step.verb == PlanVerb::gemm; });
  part.about = "products alone";
  for (const PlanStep& step : part.steps) {
    give(part, step.from);
    give(part, step.other);
  }
  return part;
}

Plan transfers_of(const Plan& plan) {
  Plan part = part_of(plan, [](const PlanStep& step) {
    return step.verb == PlanVerb::put || step.verb == PlanVerb::get;
  });
  part.about = "transfers alone";
  for (const PlanStep& step : part.steps) give(part, step.from);
  return part;
}

}  // namespace gantry::bench
