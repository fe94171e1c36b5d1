#include "schedule/space/draft.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace gantry {
namespace {

std::string about_of(const OperatorSplit& split) {
  const OverlapOperator& op = split.op();
  std::string text = fmt::format("{} of {} x {} x {} {}: {}", to_string(op.kind), op.m, op.n, op.k,
                                 name_of(op.type), to_string(split.schedule()));
  if (!op.split.empty()) text += fmt::format(", split {}", fmt::join(op.split, " "));
  return text;
}

bool is_empty(const PlanRect& rect) noexcept {
  return rect.rows == 0 || rect.cols == 0;
}

}  // namespace

PlanDraft::PlanDraft(const OperatorSplit& split, bool one_peer_at_a_time, unsigned most_lanes)
    : computed_(split.op().ranks, kNone),
      path_(split.schedule().path),
      one_peer_at_a_time_(one_peer_at_a_time),
      most_lanes_(most_lanes) {
  plan_.ranks = split.op().ranks;
  plan_.tensors = split.tensors();
  plan_.about = about_of(split);
}

unsigned PlanDraft::lane_of(unsigned rank, unsigned peer) {
  const unsigned distance = (peer + plan_.ranks - rank) % plan_.ranks;
  const unsigned lane = one_peer_at_a_time_ ? 1 : 1 + (distance - 1) % (most_lanes_ - 1);
  plan_.lanes = std::max(plan_.lanes, lane + 1);
  return lane;
}

unsigned PlanDraft::add(PlanStep step) {
  plan_.steps.push_back(std::move(step));
  return static_cast<unsigned>(plan_.steps.size() - 1);
}

void PlanDraft::compute(PlanStep step) {
  const unsigned rank = step.rank;
  computed_[rank] = add(std::move(step));
}

unsigned PlanDraft::move(const PlanPlace& from, const PlanPlace& to, const Steps& after,
                         unsigned is_free) {
  if (is_empty(from.rect)) return kNone;
  if (path_ == SchedulePath::put)
    return add({PlanVerb::put, from.rank, lane_of(from.rank, to.rank), to, from, {}, false, after});
  Steps heard;
  if (!after.empty()) {
    heard = {add({PlanVerb::signal,
                  from.rank,
                  lane_of(from.rank, to.rank),
                  {to.rank, 0, {}},
                  {},
                  {},
                  false,
                  after})};
  }
  if (is_free != kNone) heard.push_back(is_free);
  return add({PlanVerb::get, to.rank, lane_of(to.rank, from.rank), to, from, {}, false, heard});
}

void PlanDraft::multiply(const PlanPlace& to, const PlanPlace& from, const PlanPlace& other,
                         bool adds, Steps after) {
  if (is_empty(to.rect)) return;
  if (from.rect.cols == 0) return adds ? void() : fill(to);
  compute({PlanVerb::gemm, to.rank, 0, to, from, other, adds, std::move(after)});
}

void PlanDraft::copy(const PlanPlace& to, const PlanPlace& from, Steps after) {
  if (is_empty(to.rect)) return;
  compute({PlanVerb::copy, to.rank, 0, to, from, {}, false, std::move(after)});
}

void PlanDraft::reduce(const PlanPlace& to, const PlanPlace& from, Steps after) {
  if (is_empty(to.rect)) return;
  compute({PlanVerb::reduce, to.rank, 0, to, from, {}, false, std::move(after)});
}

void PlanDraft::fill(const PlanPlace& to) {
  if (is_empty(to.rect)) return;
  compute({PlanVerb::fill, to.rank, 0, to, {}, {}, false, {}});
}

Plan PlanDraft::take() {
  return std::move(plan_);
}

}  // namespace gantry
