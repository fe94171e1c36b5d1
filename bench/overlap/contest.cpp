#include "contest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <gantry/plan.hpp>
#include <random>
#include <sstream>

#include "../support/report/statistics.hpp"
#include "../support/run/rounds.hpp"
#include "mpi_ranks.hpp"

namespace gantry::bench {
namespace {

constexpr Schedule kSerialSchedule{};
constexpr Schedule kRingOfShards{.pattern = SchedulePattern::ring};
constexpr double kNs = 1e9;
constexpr double kTurnSeconds = 0.15;  // of what takes less a turn has several runs
constexpr double kMostRuns = 40;
constexpr std::array<std::uint64_t, 3> kMpiChunks = {1, 4, 16};

bool is_on_axes(const Schedule& schedule) {
  const auto chunks = schedule.chunks;
  return (chunks == 1 || chunks == 2 || chunks == 4 || chunks == 8) &&
         schedule.path == SchedulePath::put && schedule.start == ScheduleStart::own_first &&
         (schedule.shape == ScheduleShape::rows || chunks == 4);
}

double median_of(const std::vector<RankTimes>& times, double RankTimes::* what) {
  std::vector<double> figures;
  for (const RankTimes& one : times) figures.push_back(one.*what);
  return summarize(figures).value;
}

/// Bytes that the busiest link, or port, carries in one direction.
double busiest_bytes(const Plan& plan, Topology topology) {
  std::vector<double> pairs(std::size_t{plan.ranks} * plan.ranks);
  std::vector<double> into(plan.ranks);
  std::vector<double> out(plan.ranks);
  for (const PlanStep& step : plan.steps) {
    if (step.verb != PlanVerb::put && step.verb != PlanVerb::get) continue;
    const double bytes = static_cast<double>(step.to.rect.rows * step.to.rect.cols) *
                         plan.tensors[step.to.tensor].type.bits / 8;
    pairs[step.from.rank * plan.ranks + step.to.rank] += bytes;
    into[step.to.rank] += bytes;
    out[step.from.rank] += bytes;
  }
  if (topology == Topology::mesh) return std::ranges::max(pairs);
  return std::max(std::ranges::max(into), std::ranges::max(out));
}

std::string subject_of_mpi(std::uint64_t chunks) {
  if (chunks == 1) return std::string(kOpenMpi);
  return fmt::format("{} in {} chunks", kOpenMpi, chunks);
}

std::string one_line(std::string text) {
  std::ranges::replace(text, '\n', ';');
  return text;
}

std::string random_token() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random());
}

/// The ranks of one topology and what they can do.
class Contest {
 public:
  Contest(const Settings& settings, Topology topology, const std::vector<Schedule>& schedules,
          Report& report, int interrupt_descriptor)
      : settings_(settings),
        topology_(topology),
        schedules_(schedules),
        report_(report),
        interrupt_descriptor_(interrupt_descriptor) {}

  Result<void> begin() {
    // All of the space: any of it may be chosen.
    auto space = schedules_of(settings_.op);
    if (!space) return Unexpected(space.error());
    for (const Schedule& schedule : schedules_)
      if (std::ranges::find(*space, schedule) == space->end()) space->push_back(schedule);
    space_ = std::move(*space);
    for (const Schedule& schedule : space_) {
      auto plan = make_plan(settings_.op, schedule);
      if (!plan) return Unexpected(plan.error());
      plans_.push_back(std::move(*plan));
    }
    serial_ = index_of(kSerialSchedule);
    auto network = RankNetwork::make(settings_.op.ranks, topology_);
    if (!network) return Unexpected(network.error());
    network_.emplace(std::move(*network));
    auto folder = ScratchDirectory::create();
    if (!folder) return Unexpected(folder.error());
    folder_.emplace(std::move(*folder));
    if (settings_.common.peers) start_mpi();
    for (const Plan& plan : plans_) work_.push_back(PlanWork{plan});
    product_alone_ = work_.size();
    work_.push_back(PlanWork{products_of(plans_[serial_])});
    transfer_alone_ = work_.size();
    work_.push_back(PlanWork{transfers_of(plans_[serial_])});
    costs_ = work_.size();
    work_.push_back(
        CostsWork{settings_.op, folder_->path() + "/costs", folder_->path() + "/choice"});
    auto ranks =
        Ranks::start(*network_, settings_.op.ranks, random_token(), work_, interrupt_descriptor_);
    if (!ranks) return Unexpected(ranks.error());
    ranks_.emplace(std::move(*ranks));
    return {};
  }

  Result<void> run_case(double ratio, cli::Progress& progress) {
    const auto alone = ranks_->run(product_alone_, settings_.common.rounds + 1);
    if (!alone) return Unexpected(alone.error());
    const double product_s = median_of(*alone, &RankTimes::ns) / kNs;
    const double serial_s = product_s * (1 + ratio);
    runs_ = static_cast<unsigned>(std::clamp(std::ceil(kTurnSeconds / serial_s), 1.0, kMostRuns));
    const double rate = busiest_bytes(plans_[serial_], topology_) / (ratio * product_s);
    if (auto limited = network_->limit(rate); !limited) return limited;
    const auto costs = measured_costs();
    if (!costs) return Unexpected(costs.error());
    const std::string name = case_name(settings_, topology_, ratio);
    report_.chosen.push_back({name, "links", fmt::format("{:.1f} MB/s each way", rate / 1e6)});
    report_.chosen.push_back({name, "costs", one_line(to_text(*costs))});
    Rounds rounds{.name = name,
                  .count = settings_.common.rounds,
                  .interrupt_descriptor = interrupt_descriptor_};
    rounds.failed = [](std::size_t, const Error& error) -> Result<void> {
      return Unexpected(error);
    };
    add_entrant(rounds, std::string(kProductAlone), product_alone_);
    add_entrant(rounds, std::string(kTransferAlone), transfer_alone_);
    std::vector<Schedule> measured = schedules_;
    const auto choice = choices(*costs);
    if (!choice) return Unexpected(choice.error());
    for (const Schedule& one : {choice->chosen, choice->by_costs})
      if (std::ranges::find(measured, one) == measured.end()) measured.push_back(one);
    for (const Schedule& schedule : measured)
      add_entrant(rounds, subject_of(schedule), index_of(schedule));
    if (mpi_) add_mpi(rounds);
    if (auto ran = run_rounds(rounds, progress, report_); !ran) return ran;
    report_.chosen.push_back({name, std::string(kChosen), choice->decided});
    report_.chosen.push_back({name, std::string(kByCosts), to_string(choice->by_costs)});
    copy_rows(name, subject_of(choice->chosen), kChosen);
    copy_rows(name, subject_of(choice->by_costs), kByCosts);
    return predict(name, measured, *costs);
  }

 private:
  void add_entrant(Rounds& rounds, std::string subject, std::size_t work) {
    add_entrant(rounds, std::move(subject), [this, work] { return ranks_->run(work, runs_); });
  }
  /// A turn: the median of its runs, and the mean of what they took.
  void add_entrant(Rounds& rounds, std::string subject,
                   std::function<Result<std::vector<RankTimes>>()> run) {
    rounds.entrants.push_back(
        {std::move(subject), [this, run = std::move(run)](Series& series) -> Result<void> {
           const auto sent = network_->sent_bytes();
           const auto times = run();
           if (!times) return Unexpected(times.error());
           const auto after = network_->sent_bytes();
           double cpu_ns = 0;
           for (const RankTimes& one : *times) cpu_ns += one.cpu_ns;
           series.add(kLatencyP50, "ns", median_of(*times, &RankTimes::ns));
           series.add(kCpu, "ns", cpu_ns / runs_);
           if (sent && after)
             series.add(kWireBytes, "B", static_cast<double>(*after - *sent) / runs_);
           return {};
         }});
  }

  /// Before our ranks: a guard is started while this process has one thread.
  void start_mpi() {
    const auto& op = settings_.op;
    auto made = MpiRanks::start({.program = kMpiOverlap,
                                 .ranks = op.ranks,
                                 .network = &*network_,
                                 .words = {std::string(to_string(op.kind)), std::to_string(op.m),
                                           std::to_string(op.n), std::to_string(op.k)}},
                                folder_->path());
    if (made) {
      mpi_.emplace(std::move(*made));
      for (Link& link : mpi_->links()) mpi_links_.push_back(&link);
    } else {
      report_.skipped.push_back({fmt::format("{} at {}-{}", kOpenMpi, name_of(topology_), op.ranks),
                                 to_string(made.error())});
    }
  }
  void add_mpi(Rounds& rounds) {
    for (const std::uint64_t chunks : kMpiChunks)
      add_entrant(rounds, subject_of_mpi(chunks),
                  [this, chunks]() -> Result<std::vector<RankTimes>> {
                    std::vector<RankTimes> all;
                    for (unsigned i = 0; i < runs_; ++i) {
                      const auto one = ask_ranks(mpi_links_, Command{.warmups = chunks, .trips = 1},
                                                 interrupt_descriptor_);
                      if (!one) return Unexpected(one.error());
                      all.push_back(*one);
                    }
                    return all;
                  });
  }

  /// At the rate that the links have now.
  Result<ScheduleCosts> measured_costs() {
    if (const auto done = ranks_->run(costs_, 1); !done) return Unexpected(done.error());
    std::ifstream file(std::get<CostsWork>(work_[costs_]).costs_file);
    std::stringstream text;
    text << file.rdbuf();
    return parse_costs(text.str());
  }

  struct Choices {
    Schedule chosen;
    std::string decided;
    Schedule by_costs;
  };
  /// What the ranks took a moment before, and what the costs alone say.
  Result<Choices> choices(const ScheduleCosts& costs) {
    std::ifstream file(std::get<CostsWork>(work_[costs_]).choice_file);
    std::string schedule;
    Choices found;
    std::getline(file, schedule);
    std::getline(file, found.decided);
    const auto by_costs = choose(settings_.op, costs);
    if (!by_costs) return Unexpected(by_costs.error());
    for (const auto& [one, into] :
         {std::pair(parse_schedule(schedule), &found.chosen),
          std::pair(Result<Schedule>(by_costs->schedule), &found.by_costs)}) {
      if (!one) return Unexpected(one.error());
      const auto same = canonical(settings_.op, *one);
      if (!same) return Unexpected(same.error());
      *into = *same;
    }
    return found;
  }

  Result<void> predict(const std::string& name, const std::vector<Schedule>& measured,
                       const ScheduleCosts& costs) {
    for (const Schedule& schedule : measured) {
      const auto simulated = simulate(plans_[index_of(schedule)], costs);
      if (!simulated) return Unexpected(simulated.error());
      double ns = simulated->seconds * kNs;
      report_.rows.push_back(
          {name, subject_of(schedule), 0, kPredicted, "ns", summarize({&ns, 1})});
    }
    return {};
  }
  [[nodiscard]] std::size_t index_of(const Schedule& schedule) const {
    return static_cast<std::size_t>(std::ranges::find(space_, schedule) - space_.begin());
  }
  void copy_rows(const std::string& name, const std::string& from, std::string_view to) {
    std::vector<Row> copies;
    for (const Row& row : report_.rows)
      if (row.case_name == name && row.subject == from) copies.push_back(row);
    for (Row& row : copies) {
      row.subject = to;
      report_.rows.push_back(std::move(row));
    }
  }

  const Settings& settings_;
  const Topology topology_;
  const std::vector<Schedule>& schedules_;
  Report& report_;
  const int interrupt_descriptor_;
  std::vector<Schedule> space_;
  std::vector<Plan> plans_;  // of the space
  std::vector<Work> work_;   // these, then the limits and what costs are measured by
  std::size_t serial_ = 0;
  std::size_t product_alone_ = 0;
  std::size_t transfer_alone_ = 0;
  std::size_t costs_ = 0;
  unsigned runs_ = 1;  // of a turn
  std::optional<ScratchDirectory> folder_;
  std::optional<RankNetwork> network_;
  std::optional<MpiRanks> mpi_;
  std::vector<Link*> mpi_links_;
  std::optional<Ranks> ranks_;
};

}  // namespace

std::string case_name(const Settings& settings, Topology topology, double ratio) {
  return fmt::format("{}{}-{} {}", settings.prefix, name_of(topology), settings.op.ranks, ratio);
}

std::string subject_of(const Schedule& schedule) {
  if (schedule == kSerialSchedule) return std::string(kSerial);
  if (schedule == kRingOfShards) return std::string(kRing);
  return to_string(schedule);
}

Result<std::vector<Schedule>> contestants(const Settings& settings) {
  const auto space = schedules_of(settings.op);
  if (!space) return Unexpected(space.error());
  std::vector<Schedule> taken = {kSerialSchedule, kRingOfShards};
  for (const Schedule& schedule : *space)
    if (std::ranges::find(taken, schedule) == taken.end() && (settings.all || is_on_axes(schedule)))
      taken.push_back(schedule);
  return taken;
}

Result<void> measure_topology(const Settings& settings, Topology topology,
                              const std::vector<Schedule>& schedules, cli::Progress& progress,
                              int interrupt_descriptor, Report& report) {
  Contest contest(settings, topology, schedules, report, interrupt_descriptor);
  if (auto begun = contest.begin(); !begun) return begun;
  for (const double ratio : settings.ratios)
    if (auto ran = contest.run_case(ratio, progress); !ran) return ran;
  return {};
}

}  // namespace gantry::bench
