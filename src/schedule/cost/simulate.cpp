#include <algorithm>
#include <cmath>

#include "base/result.hpp"
#include "schedule/cost/costs.hpp"
#include "schedule/cost/work_graph.hpp"
#include "schedule/plan_shape.hpp"

namespace gantry {
namespace {

/// When something ends, in its clock. Of several at once the lower step comes first, so that the
/// result depends on nothing but the plan.
struct Event {
  double at = 0;
  unsigned step = 0;
  unsigned version = 0;  // of its resource; an older one is void
};
bool is_later(const Event& one, const Event& other) noexcept {
  return one.at != other.at ? one.at > other.at : one.step > other.step;
}

class Events {
 public:
  void push(const Event& event) {
    heap_.push_back(event);
    std::ranges::push_heap(heap_, is_later);
  }
  void pop() {
    std::ranges::pop_heap(heap_, is_later);
    heap_.pop_back();
  }
  [[nodiscard]] bool empty() const noexcept { return heap_.empty(); }
  [[nodiscard]] const Event& top() const noexcept { return heap_.front(); }

 private:
  std::vector<Event> heap_;
};

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
    if (++arrived_[turn] < plan_.ranks) return;
    for (const unsigned one : graph_.barriers[turn]) real_.push({now_ + graph_.barrier_s, one, 0});
  }
  void begin(unsigned step) {
    const Work& work = graph_.work[step];
    Resource& resource = resources_[work.resource];
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
    GANTRY_ASSIGN(WorkGraph graph, WorkGraph::of(plan, costs));
    return Simulator(plan, costs, std::move(graph)).run();
  });
}

}  // namespace gantry
