#include "schedule/cost/work_graph.hpp"

#include <algorithm>
#include <limits>
#include <map>

#include "base/result.hpp"
#include "schedule/cost/costs.hpp"
#include "schedule/plan.hpp"

namespace gantry {
namespace {

bool moves(const PlanStep& step) noexcept {
  return step.verb == PlanVerb::put || step.verb == PlanVerb::get;
}
/// How often an end begins a row anew.
double rows_at(const Plan& plan, const PlanPlace& place) noexcept {
  const bool is_strided = place.rect.rows > 1 && place.rect.cols < plan.tensors[place.tensor].cols;
  return is_strided ? static_cast<double>(place.rect.rows) : 0;
}
/// From whom to whom bytes, or a word, go.
std::pair<unsigned, unsigned> ends_of(const PlanStep& step) noexcept {
  return {step.verb == PlanVerb::get ? step.from.rank : step.rank, step.to.rank};
}

class GraphMaker {
 public:
  GraphMaker(const Plan& plan, const ScheduleCosts& costs) : plan_(plan), costs_(costs) {}

  Result<WorkGraph> make() {
    graph_.shares_transfers =
        costs_.topology == Topology::switched || (costs_.cpus > 0 && transfers_take_cpu(costs_));
    for (const LinkCosts& link : costs_.links)
      differing_.try_emplace({link.from, link.to}, link.costs);
    find_links();
    for (const PlanStep& step : plan_.steps) graph_.work.push_back(work_of(step));
    GANTRY_TRY(join_barriers());
    GANTRY_TRY(find_edges());
    return std::move(graph_);
  }

 private:
  [[nodiscard]] TransferCosts costs_of_link(std::pair<unsigned, unsigned> ends) const {
    const auto at = differing_.find(ends);
    return at == differing_.end() ? costs_.link : at->second;
  }
  void find_links() {
    std::vector<std::pair<unsigned, unsigned>> pairs;
    for (const PlanStep& step : plan_.steps)
      if (moves(step)) pairs.push_back(ends_of(step));
    std::ranges::sort(pairs);
    const auto same = std::ranges::unique(pairs);
    pairs.erase(same.begin(), same.end());
    first_link_.assign(std::size_t{plan_.ranks} + 1, 0);
    for (const auto& ends : pairs) {
      graph_.links.push_back({ends.first, ends.second, costs_of_link(ends)});
      graph_.barrier_s = std::max(graph_.barrier_s, graph_.links.back().costs.start_ns / kNsPerS);
      ++first_link_[ends.first + 1];
    }
    if (plan_.ranks > 1)
      graph_.barrier_s = std::max(graph_.barrier_s, costs_.link.start_ns / kNsPerS);
    for (unsigned rank = 0; rank < plan_.ranks; ++rank) first_link_[rank + 1] += first_link_[rank];
  }
  [[nodiscard]] unsigned link_of(std::pair<unsigned, unsigned> ends) const {
    const auto first = graph_.links.begin() + static_cast<std::ptrdiff_t>(first_link_[ends.first]);
    const auto last =
        graph_.links.begin() + static_cast<std::ptrdiff_t>(first_link_[ends.first + 1]);
    const auto at = std::lower_bound(
        first, last, ends.second, [](const LinkOfPlan& link, unsigned to) { return link.to < to; });
    return static_cast<unsigned>(at - graph_.links.begin());
  }

  [[nodiscard]] Work work_of(const PlanStep& step) const {
    if (step.verb == PlanVerb::barrier) return {.kind = WorkKind::barrier};
    if (step.verb == PlanVerb::signal)
      return {.kind = WorkKind::word, .alone_s = costs_of_link(ends_of(step)).start_ns / kNsPerS};
    const Bytes bytes = plan_.tensors[step.to.tensor].type.bits / kBitsOfByte;
    const auto rows = static_cast<double>(step.to.rect.rows);
    const auto cols = static_cast<double>(step.to.rect.cols);
    const double all = rows * cols * static_cast<double>(bytes);
    if (moves(step)) return transfer_of(step, all);
    double alone = 0;
    if (step.verb == PlanVerb::gemm)
      alone = seconds_of_product(costs_.product, rows, cols,
                                 static_cast<double>(step.from.rect.cols), step.adds, bytes);
    else
      alone = seconds_of(step.verb == PlanVerb::reduce ? costs_.reduce : costs_.copy, all);
    return {.kind = WorkKind::compute, .resource = step.rank, .alone_s = alone};
  }
  [[nodiscard]] Work transfer_of(const PlanStep& step, double bytes) const {
    const unsigned link = link_of(ends_of(step));
    Work work{.kind = WorkKind::transfer, .resource = plan_.ranks + link};
    const TransferCosts& costs = graph_.links[link].costs;
    const double from_s = cpu_s_of_transfer(costs_, bytes, rows_at(plan_, step.from));
    const double to_s = cpu_s_of_transfer(costs_, bytes, rows_at(plan_, step.to));
    double slower_s = std::max(from_s, to_s);
    if (costs_.cpus > 0) slower_s = std::max(slower_s, (from_s + to_s) / costs_.cpus);
    work.alone_s = costs.start_ns / kNsPerS;
    if (!graph_.shares_transfers) {
      work.alone_s += std::max(bytes / costs.bytes_per_s, slower_s);
    } else if (bytes > 0) {
      work.bytes = bytes;
      work.cpus_of_byte = (from_s + to_s) / bytes;
      work.most_bytes_per_s =
          slower_s > 0 ? bytes / slower_s : std::numeric_limits<double>::infinity();
    }
    return work;
  }

  Result<void> join_barriers() {
    graph_.barrier_turn.assign(plan_.steps.size(), kNoStep);
    std::vector<unsigned> count(plan_.ranks);
    for (unsigned i = 0; i < plan_.steps.size(); ++i) {
      if (plan_.steps[i].verb != PlanVerb::barrier) continue;
      const unsigned turn = count[plan_.steps[i].rank]++;
      if (turn == graph_.barriers.size()) graph_.barriers.emplace_back();
      graph_.barriers[turn].push_back(i);
      graph_.barrier_turn[i] = turn;
    }
    for (const auto& turn : graph_.barriers)
      if (turn.size() != plan_.ranks)
        return fail(Code::invalid_argument, "ranks have different numbers of barriers");
    return {};
  }

  /// The step before each in its lane; kNoStep: it is the first.
  [[nodiscard]] std::vector<unsigned> lane_order() const {
    std::vector<unsigned> last(std::size_t{plan_.ranks} * plan_.lanes, kNoStep);
    std::vector<unsigned> before;
    before.reserve(plan_.steps.size());
    for (unsigned i = 0; i < plan_.steps.size(); ++i) {
      const PlanStep& step = plan_.steps[i];
      unsigned& lane = last[std::size_t{step.rank} * plan_.lanes + step.lane];
      before.push_back(lane);
      lane = i;
    }
    return before;
  }
  Result<void> find_edges() {
    const std::vector<unsigned> before = lane_order();
    const auto steps = static_cast<unsigned>(plan_.steps.size());
    graph_.missing.resize(steps);
    graph_.first_edge.assign(std::size_t{steps} + 1, 0);
    const auto each = [&](auto&& edge) {
      for (unsigned i = 0; i < steps; ++i) {
        if (before[i] != kNoStep) edge(before[i], i);
        for (const unsigned awaited : plan_.steps[i].after) edge(awaited, i);
      }
    };
    for (unsigned i = 0; i < steps; ++i)
      for (const unsigned awaited : plan_.steps[i].after)
        if (awaited >= steps)
          return fail(Code::invalid_argument, fmt::format("{} is after step {}, which there is not",
                                                          name_of_step(plan_, i), awaited));
    each([&](unsigned from, unsigned to) {
      ++graph_.missing[to];
      ++graph_.first_edge[from + 1];
    });
    for (unsigned i = 0; i < steps; ++i) graph_.first_edge[i + 1] += graph_.first_edge[i];
    graph_.edges.resize(graph_.first_edge[steps]);
    std::vector<std::size_t> next(graph_.first_edge.begin(), graph_.first_edge.end() - 1);
    each([&](unsigned from, unsigned to) { graph_.edges[next[from]++] = to; });
    return {};
  }

  const Plan& plan_;
  const ScheduleCosts& costs_;
  WorkGraph graph_;
  std::map<std::pair<unsigned, unsigned>, TransferCosts> differing_;
  std::vector<std::size_t> first_link_;  // of each rank that something leaves, and the end
};

}  // namespace

Result<WorkGraph> WorkGraph::of(const Plan& plan, const ScheduleCosts& costs) {
  return GraphMaker(plan, costs).make();
}

}  // namespace gantry
