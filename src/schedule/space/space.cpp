#include <algorithm>
#include <set>
#include <string>

#include "base/result.hpp"
#include "schedule/space/space.hpp"

// All points of the space, and what a user forbids.
namespace gantry {
namespace {

constexpr unsigned kMostChunksOfSpace = 16;
constexpr unsigned kMostRanksToCompare = 8;  // plan by plan; with more it would take seconds

bool copies(const OperatorSplit& split) noexcept {
  const Schedule& schedule = split.schedule();
  const bool brings_own =
      split.op().kind == OverlapKind::all_to_all_gemm &&
      (schedule.pattern == SchedulePattern::serial ||
       (schedule.pattern == SchedulePattern::at_once && schedule.start == ScheduleStart::even &&
        schedule.grain == ScheduleGrain::per_step));
  return split.op().ranks > 1 && (split.is_staged() || brings_own);
}

/// Whether products are cut along it. Rows of a gather are cut by every schedule but the serial
/// one; so are those of a scatter.
bool splits(const OperatorSplit& split, ScheduleShape what) noexcept {
  const Schedule& schedule = split.schedule();
  if (schedule.pattern == SchedulePattern::serial) return false;
  if (what == ScheduleShape::rows)
    return schedule.shape == ScheduleShape::rows || schedule.start == ScheduleStart::own_first ||
           schedule.grain == ScheduleGrain::per_piece || schedule.pattern == SchedulePattern::ring;
  return split.comes_in() && schedule.shape == ScheduleShape::depth &&
         (schedule.grain == ScheduleGrain::per_piece ||
          schedule.pattern == SchedulePattern::at_once);
}

/// Where there are fewer rows or columns than chunks, decisions that differ may come to the same.
Result<void> drop_same_plans(const OverlapOperator& op, std::vector<Schedule>& all) {
  std::set<std::string> seen;
  std::vector<Schedule> different;
  for (const Schedule& schedule : all) {
    GANTRY_ASSIGN(Plan plan, make_plan(op, schedule));
    plan.about.clear();
    if (seen.insert(to_text(plan)).second) different.push_back(schedule);
  }
  all = std::move(different);
  return {};
}

Result<std::vector<Schedule>> list(const OverlapOperator& op,
                                   const ScheduleConstraints& constraints) {
  GANTRY_ASSIGN(OperatorSplit split, OperatorSplit::of(op, {}));
  std::vector<Schedule> all = points_of(split);
  std::erase_if(all, [&](const Schedule& schedule) {
    split.cut(schedule);
    return !allows(constraints, split);
  });
  if (split.is_uneven() && op.ranks <= kMostRanksToCompare) GANTRY_TRY(drop_same_plans(op, all));
  return all;
}

}  // namespace

std::vector<Schedule> points_of(const OperatorSplit& split) {
  const unsigned ranks = split.op().ranks;
  const unsigned last = ranks > kMostChunksOfSpace ? kMostChunksOfSpace + 1 : kMostChunksOfSpace;
  std::vector<Schedule> all;
  all.reserve(std::size_t{2} + 16 * std::size_t{last} * 2);
  const auto add = [&](const Schedule& one) {
    const Schedule same = split.canonical(one);
    const bool is_last = one.chunks > kMostChunksOfSpace && same.chunks > kMostChunksOfSpace;
    if (same == one || (is_last && same.pattern == one.pattern && same.grain == one.grain &&
                        same.start == one.start))
      all.push_back(same);
  };
  for (const auto path : {SchedulePath::put, SchedulePath::get}) add({.path = path});
  for (const auto pattern : {SchedulePattern::ring, SchedulePattern::at_once})
    for (const auto shape : {ScheduleShape::rows, ScheduleShape::depth})
      for (const auto start : {ScheduleStart::even, ScheduleStart::own_first})
        for (const auto grain : {ScheduleGrain::per_step, ScheduleGrain::per_piece})
          for (unsigned chunks = 1; chunks <= last; ++chunks)
            for (const auto path : {SchedulePath::put, SchedulePath::get})
              add({pattern, shape, start, grain, chunks > kMostChunksOfSpace ? ranks : chunks,
                   path});
  return all;
}

bool allows(const ScheduleConstraints& constraints, const OperatorSplit& split) noexcept {
  if (constraints.at_most != ~Bytes{0} && split.memory() > constraints.at_most) return false;
  if (constraints.no_split && splits(split, *constraints.no_split)) return false;
  if (constraints.same_place && copies(split)) return false;
  return !constraints.replicated ||
         (split.op().kind == OverlapKind::all_gather_gemm && !split.is_staged());
}

Result<std::vector<Schedule>> schedules_of(const OverlapOperator& op,
                                           const ScheduleConstraints& constraints) {
  return guarded([&] { return list(op, constraints); });
}

Result<Schedule> canonical(const OverlapOperator& op, const Schedule& schedule) {
  return guarded([&]() -> Result<Schedule> {
    GANTRY_ASSIGN(const OperatorSplit split, OperatorSplit::of(op, schedule));
    return split.schedule();
  });
}

Result<Bytes> memory_of(const OverlapOperator& op, const Schedule& schedule) {
  return guarded([&]() -> Result<Bytes> {
    GANTRY_ASSIGN(const OperatorSplit split, OperatorSplit::of(op, schedule));
    return split.memory();
  });
}

}  // namespace gantry
