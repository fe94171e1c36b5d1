#include <algorithm>
#include <cmath>
#include <gantry/plan.hpp>
#include <limits>
#include <map>
#include <queue>

#include "core/base/assert.hpp"
#include "core/base/result.hpp"
#include "ranks/schedule/cost/costs.hpp"
#include "ranks/schedule/plan.hpp"

namespace gantry {
namespace {

// ---- a plan's steps as work for resources, and who waits for whom ----------------------------

constexpr unsigned kNoStep = ~0u;

enum class WorkKind : std::uint8_t { compute, transfer, word, barrier };

/// A step, as far as its time goes.
struct Work {
  WorkKind kind = WorkKind::compute;
  unsigned resource = 0;    ///< Of compute its rank; of a transfer ranks + its link.
  double alone_s = 0;       ///< Beside nothing; of a transfer on a shared port without its bytes.
  double bytes = 0;         ///< Of a transfer on a shared port, or with CPU time.
  double cpus_of_byte = 0;  ///< CPU time of one of them, at both ends.
  double most_bytes_per_s = 0;  ///< As many as the slower end's CPU lets pass.
};

/// A directed pair of ranks between which something moves.
struct LinkOfPlan {
  unsigned from = 0;
  unsigned to = 0;
  TransferCosts costs;
};

/// Steps, and edges to those that may begin behind them. The n-th barriers of all ranks wait for
/// each other by `barrier_turn`.
struct WorkGraph {
  [[nodiscard]] std::span<const unsigned> behind(unsigned step) const noexcept {
    return std::span(edges).subspan(first_edge[step], first_edge[step + 1] - first_edge[step]);
  }

  std::vector<Work> work;               // of each step
  std::vector<unsigned> missing;        // of each step: how many it waits for
  std::vector<std::size_t> first_edge;  // of each step, and the end
  std::vector<unsigned> edges;
  std::vector<LinkOfPlan> links;       // by from and to
  std::vector<unsigned> barrier_turn;  // of each step that is one: which of its rank's it is
  std::vector<std::vector<unsigned>> barriers;  // of each turn: one of each rank
  double barrier_s = 0;                         // from the last one's arrival to the end
  bool shares_transfers = false;                // ports or CPUs
};

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

  /// Errors: `invalid_argument` for a step that waits for one which there is not, for ranks with
  /// different numbers of barriers.
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
    const Bytes bytes = element_bytes(plan_.tensors[step.to.tensor]);
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

// ---- virtual time ----------------------------------------------------------------------------

/// When something ends, in its clock. Of several at once the lower step comes first, so that the
/// result depends on nothing but the plan.
struct Event {
  double at = 0;
  unsigned step = 0;
  unsigned version = 0;  // of its resource; an older one is void
};
struct IsLater {
  bool operator()(const Event& one, const Event& other) const noexcept {
    return one.at != other.at ? one.at > other.at : one.step > other.step;
  }
};
using Events = std::priority_queue<Event, std::vector<Event>, IsLater>;

/// What does one step at a time: a rank that computes, or a link.
struct Resource {
  unsigned first = kNoStep;  // steps that may begin, in a list
  unsigned last = kNoStep;
  unsigned current = kNoStep;
  unsigned version = 0;
  bool is_flowing = false;  // a transfer whose bytes share something; otherwise it is starting
  double left = 0;          // seconds at full speed, or bytes
  double rate = 1;
  double since = 0;  // in its clock
};

/// Two clocks: real time, and CPU time, which passes more slowly while more CPUs are wanted than
/// there are. What computes ends by the second one, so that a change touches nothing but its pace.
/// Transfers keep their rate: who serves links sleeps most of the time, and gets a CPU at once.
///   I1  A step begins when all that it waits for has ended and its resource is free, and not
///   later. I2  Nothing depends on addresses or hashes.
class Simulator {
 public:
  Simulator(const Plan& plan, const ScheduleCosts& costs, WorkGraph graph)
      : plan_(plan),
        costs_(costs),
        graph_(std::move(graph)),
        shares_cpus_(costs.cpus > 0),
        resources_(plan.ranks + graph_.links.size()),
        next_(plan.steps.size(), kNoStep),
        arrived_(graph_.barriers.size()),
        out_(plan.ranks),
        in_(plan.ranks),
        touching_(plan.ranks),
        touched_since_(plan.ranks) {
    result_.ranks.resize(plan.ranks);
    result_.steps.resize(plan.steps.size());
    if (costs.topology != Topology::switched) return;
    links_out_.resize(plan.ranks);
    links_in_.resize(plan.ranks);
    for (unsigned i = 0; i < graph_.links.size(); ++i) {
      links_out_[graph_.links[i].from].push_back(i);
      links_in_[graph_.links[i].to].push_back(i);
    }
  }

  Result<Simulated> run() {
    for (unsigned step = 0; step < graph_.work.size(); ++step)
      if (graph_.missing[step] == 0) release(step);
    while (advance()) {
    }
    if (ended_ != graph_.work.size()) {
      const auto stuck =
          std::ranges::find_if(graph_.missing, [](unsigned count) { return count > 0; });
      const bool is_barrier = stuck == graph_.missing.end();
      return fail(
          Code::invalid_argument,
          is_barrier
              ? "a barrier to which not all ranks come"
              : fmt::format(
                    "{} never begins",
                    name_of_step(plan_, static_cast<unsigned>(stuck - graph_.missing.begin()))),
          "steps wait for each other");
    }
    return finish();
  }

 private:
  // ---- time --------------------------------------------------------------------------------

  /// Takes the next event. False: there is none.
  bool advance() {
    drop_void(real_);
    drop_void(cpu_);
    if (real_.empty() && cpu_.empty()) return false;
    const double pace = pace_of_cpus();
    const double due = cpu_.empty() ? 0 : std::max(0.0, cpu_.top().at - cpu_now_);
    const double cpu_at = due > 0 ? now_ + due / pace : now_;  // never, at no pace
    const bool takes_real = cpu_.empty() || (!real_.empty() && real_.top().at <= cpu_at);
    Events& events = takes_real ? real_ : cpu_;
    const Event event = events.top();
    events.pop();
    if (takes_real) {
      cpu_now_ += std::max(0.0, event.at - now_) * pace;
      now_ = std::max(now_, event.at);
    } else {
      now_ = cpu_at;
      cpu_now_ = std::max(cpu_now_, event.at);
    }
    end_of(event.step);
    return true;
  }
  void drop_void(Events& events) {
    while (!events.empty() && is_void(events.top())) events.pop();
  }
  [[nodiscard]] bool is_void(const Event& event) const {
    const Work& work = graph_.work[event.step];
    if (work.kind == WorkKind::word || work.kind == WorkKind::barrier) return false;
    return resources_[work.resource].version != event.version;
  }
  [[nodiscard]] double pace_of_cpus() const noexcept {
    if (!shares_cpus_) return 1;
    // Transfers alone may want all; then one of them ends next.
    const double left = flows_ == 0 ? costs_.cpus : std::max(0.0, costs_.cpus - flowing_cpus_);
    return computing_ > left ? left / computing_ : 1;
  }
  [[nodiscard]] bool uses_cpu(const Work& work) const noexcept {
    return shares_cpus_ && work.kind == WorkKind::compute;
  }

  // ---- what begins -------------------------------------------------------------------------

  void release(unsigned step) {
    const Work& work = graph_.work[step];
    if (work.kind == WorkKind::barrier) return arrive(step);
    if (work.kind == WorkKind::word) {
      result_.steps[step].begin_s = now_;
      return real_.push({now_ + work.alone_s, step, 0});
    }
    Resource& resource = resources_[work.resource];
    if (resource.current == kNoStep) return begin(step);
    if (resource.first == kNoStep)
      resource.first = step;
    else
      next_[resource.last] = step;
    resource.last = step;
  }
  void arrive(unsigned step) {
    result_.steps[step].begin_s = now_;
    const unsigned turn = graph_.barrier_turn[step];
    GANTRY_DEBUG_ASSERT(arrived_[turn] < plan_.ranks);
    if (++arrived_[turn] < plan_.ranks) return;
    for (const unsigned one : graph_.barriers[turn]) real_.push({now_ + graph_.barrier_s, one, 0});
  }
  void begin(unsigned step) {
    const Work& work = graph_.work[step];
    Resource& resource = resources_[work.resource];
    GANTRY_DEBUG_ASSERT(resource.current == kNoStep);  // I1
    GANTRY_DEBUG_ASSERT(graph_.missing[step] == 0);    // I1
    resource.current = step;
    resource.left = work.alone_s;
    resource.rate = 1;
    resource.is_flowing = false;
    result_.steps[step].begin_s = now_;
    if (work.kind == WorkKind::transfer) {
      const LinkOfPlan& link = link_of(work);
      touch(link.from);
      touch(link.to);
    } else {
      ++computing_;
      resource.rate = product_rate(step);
    }
    resource.since = clock_of(work);
    schedule(resource);
  }
  /// A product that begins or goes on beside transfers is slower.
  [[nodiscard]] double product_rate(unsigned step) const {
    const PlanStep& one = plan_.steps[step];
    const bool is_beside = one.verb == PlanVerb::gemm && touching_[one.rank] > 0;
    return is_beside ? 1 / costs_.beside_transfers : 1;
  }
  void touch(unsigned rank) {
    if (touching_[rank]++ > 0) return;
    touched_since_[rank] = now_;
    change_product(rank);
  }
  void leave(unsigned rank) {
    GANTRY_DEBUG_ASSERT(touching_[rank] > 0);
    if (--touching_[rank] > 0) return;
    result_.ranks[rank].links_s += now_ - touched_since_[rank];
    change_product(rank);
  }
  void change_product(unsigned rank) {
    Resource& resource = resources_[rank];
    if (resource.current != kNoStep) change_rate(resource, product_rate(resource.current));
  }

  // ---- rates -------------------------------------------------------------------------------

  [[nodiscard]] const LinkOfPlan& link_of(const Work& work) const {
    return graph_.links[work.resource - plan_.ranks];
  }
  [[nodiscard]] double clock_of(const Work& work) const noexcept {
    return uses_cpu(work) ? cpu_now_ : now_;
  }
  void schedule(Resource& resource) {
    const Work& work = graph_.work[resource.current];
    (uses_cpu(work) ? cpu_ : real_)
        .push(
            {resource.since + resource.left / resource.rate, resource.current, ++resource.version});
  }
  void change_rate(Resource& resource, double rate) {
    if (rate == resource.rate) return;
    const Work& work = graph_.work[resource.current];
    const double clock = clock_of(work);
    resource.left = std::max(0.0, resource.left - (clock - resource.since) * resource.rate);
    resource.since = clock;
    if (resource.is_flowing) flowing_cpus_ += (rate - resource.rate) * work.cpus_of_byte;
    resource.rate = rate;
    schedule(resource);
  }
  [[nodiscard]] double flow_rate(const Work& work) const {
    const LinkOfPlan& link = link_of(work);
    const double most = std::min(link.costs.bytes_per_s, work.most_bytes_per_s);
    if (costs_.topology == Topology::mesh) return most;
    const unsigned sharing = std::max(out_[link.from], in_[link.to]);
    return std::min(most, costs_.port_bytes_per_s / sharing);
  }
  /// The start is over; its bytes flow, and take their share.
  void begin_flow(Resource& resource, const Work& work) {
    const LinkOfPlan& link = link_of(work);
    ++out_[link.from];
    ++in_[link.to];
    resource.is_flowing = true;
    resource.left = work.bytes;
    resource.rate = flow_rate(work);
    resource.since = clock_of(work);
    if (flows_++ == 0) flowing_cpus_ = 0;  // rounding does not add up
    flowing_cpus_ += resource.rate * work.cpus_of_byte;
    schedule(resource);
    share_ports(link);
  }
  void end_flow(Resource& resource, const Work& work) {
    const LinkOfPlan& link = link_of(work);
    --out_[link.from];
    --in_[link.to];
    --flows_;
    flowing_cpus_ -= resource.rate * work.cpus_of_byte;
    resource.is_flowing = false;
    share_ports(link);
  }
  void share_ports(const LinkOfPlan& changed) {
    if (costs_.topology == Topology::mesh) return;
    for (const auto* const links : {&links_out_[changed.from], &links_in_[changed.to]})
      for (const unsigned one : *links) {
        Resource& resource = resources_[plan_.ranks + one];
        if (resource.is_flowing) change_rate(resource, flow_rate(graph_.work[resource.current]));
      }
  }

  // ---- what ends ---------------------------------------------------------------------------

  void end_of(unsigned step) {
    const Work& work = graph_.work[step];
    if (work.kind == WorkKind::compute || work.kind == WorkKind::transfer) {
      Resource& resource = resources_[work.resource];
      if (work.kind == WorkKind::transfer) {
        if (graph_.shares_transfers && !resource.is_flowing && work.bytes > 0)
          return begin_flow(resource, work);
        end_transfer(resource, work);
      } else {
        --computing_;
        RankTimes& rank = result_.ranks[work.resource];
        rank.compute_s += now_ - result_.steps[step].begin_s;
        rank.compute_alone_s += work.alone_s;
      }
      free(resource);
    }
    ++ended_;
    result_.steps[step].end_s = now_;
    double& end = result_.ranks[plan_.steps[step].rank].end_s;
    end = std::max(end, now_);
    for (const unsigned behind : graph_.behind(step))
      if (--graph_.missing[behind] == 0) release(behind);
  }
  void end_transfer(Resource& resource, const Work& work) {
    const LinkOfPlan& link = link_of(work);
    if (resource.is_flowing) end_flow(resource, work);
    leave(link.from);
    leave(link.to);
    double& end = result_.ranks[link.to].end_s;
    end = std::max(end, now_);
  }
  void free(Resource& resource) {
    resource.current = kNoStep;
    const unsigned step = resource.first;
    if (step == kNoStep) return;
    resource.first = next_[step];
    begin(step);
  }

  Simulated finish() {
    result_.seconds = now_;
    for (unsigned rank = 0; rank < plan_.ranks; ++rank) {
      RankTimes& times = result_.ranks[rank];
      times.exposed_s = now_ - times.compute_s;
      const RankTimes& last = result_.ranks[result_.last_rank];
      if (times.end_s > last.end_s ||
          (times.end_s == last.end_s && times.compute_s > last.compute_s))
        result_.last_rank = rank;
    }
    return std::move(result_);
  }

  const Plan& plan_;
  const ScheduleCosts& costs_;
  WorkGraph graph_;
  const bool shares_cpus_;
  double now_ = 0;
  double cpu_now_ = 0;
  Events real_;
  Events cpu_;
  std::vector<Resource> resources_;  // ranks, then links
  std::vector<unsigned> next_;       // of each step that waits for its resource: who is behind it
  std::vector<unsigned> arrived_;    // of each turn of barriers
  std::vector<unsigned> out_, in_;   // of each rank: transfers whose bytes flow
  std::vector<unsigned> touching_;   // of each rank: transfers that come or go
  std::vector<double> touched_since_;
  std::vector<std::vector<unsigned>> links_out_, links_in_;  // of each rank's ports
  unsigned computing_ = 0;
  unsigned flows_ = 0;
  double flowing_cpus_ = 0;  // what all flows want at full pace
  std::size_t ended_ = 0;
  Simulated result_;
};

}  // namespace

Result<Simulated> simulate(const Plan& plan, const ScheduleCosts& costs) {
  return guarded([&]() -> Result<Simulated> {
    GANTRY_TRY(check_shape(plan));
    GANTRY_TRY(check_costs(costs));
    GANTRY_ASSIGN(WorkGraph graph, GraphMaker(plan, costs).make());
    return Simulator(plan, costs, std::move(graph)).run();
  });
}

}  // namespace gantry
