#include "collective_contest.hpp"

#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <array>

#include "../support/program/sizes.hpp"
#include "../support/report/findings.hpp"
#include "../support/run/rounds.hpp"
#include "rank_answers.hpp"

namespace gantry::bench {
namespace {

constexpr std::array kRankCounts = {2u, 4u};
constexpr Bytes kBytesOfTurn = Bytes{16} << 20;
constexpr Bytes kMostTrips = 40;
constexpr Bytes kMostDirect = Bytes{1} << 20;  // beyond it takes too long, and much memory
constexpr std::string_view kPicked = "chosen";
constexpr std::string_view kCpuTime = "cpu";

std::string case_of(RankPath path, unsigned ranks, CollectiveKind kind, Bytes bytes) {
  return fmt::format("{}-{} {} {}", name_of(path), ranks, to_string(kind), format_size(bytes));
}

std::string subject_of_way(const CollectiveWay& way) {
  return way.program.empty() ? std::string(kPicked) : way.program + " " + way.variant;
}

/// All cases of one path and number of ranks.
class CollectiveContest {
 public:
  CollectiveContest(const Settings& settings, unsigned ranks, RankPath path, Report& report,
                    int interrupt_descriptor)
      : settings_(settings),
        ranks_(ranks),
        path_(path),
        report_(report),
        interrupt_descriptor_(interrupt_descriptor) {}

  Result<void> begin(const std::string& directory) {
    if (path_ == RankPath::veth) {
      auto network = RankNetwork::make(ranks_, Topology::mesh);
      if (!network) return Unexpected(network.error());
      network_.emplace(std::move(*network));
    }
    if (settings_.common.peers) start_mpi(directory);
    auto ours = CollectiveRanks::start(ranks_, path_, directory, network_ ? &*network_ : nullptr);
    if (!ours) return Unexpected(ours.error());
    ours_.emplace(std::move(*ours));
    for (Child& child : ours_->children()) our_links_.push_back(&child.link());
    return {};
  }

  Result<void> run_case(CollectiveKind kind, Bytes bytes, cli::Progress& progress) {
    Rounds rounds{.name = case_of(path_, ranks_, kind, bytes),
                  .bytes = bytes,
                  .count = settings_.common.rounds,
                  .interrupt_descriptor = interrupt_descriptor_};
    rounds.failed = [&](std::size_t at, const Error& error) {
      return skip_unless(rounds.entrants[at].subject != kOpenMpi, report_,
                         rounds.entrants[at].subject, rounds.name, error);
    };
    const auto ways = ways_of(kind);
    if (!ways) return Unexpected(ways.error());
    const Bytes trips = std::clamp<Bytes>(kBytesOfTurn / bytes, 1, kMostTrips);
    for (std::size_t way = 0; way < ways->size(); ++way)
      if ((*ways)[way].program != "all-reduce-direct" || bytes <= kMostDirect)
        add_entrant(rounds, subject_of_way((*ways)[way]), our_links_,
                    command_of(kind, bytes, trips, way));
    if (mpi_)
      add_entrant(rounds, std::string(kOpenMpi), mpi_links_, command_of(kind, bytes, trips));
    return run_rounds(rounds, progress, report_);
  }

 private:
  void start_mpi(const std::string& directory) {
    MpiJob job{.program = kMpiCollectives, .ranks = ranks_};
    if (path_ == RankPath::loopback) job.interfaces = {"btl_tcp_if_include", "lo"};
    if (network_) job.network = &*network_;
    auto made = MpiRanks::start(job, directory);
    if (!made) {
      report_.skipped.push_back(
          {fmt::format("{} at {}-{}", kOpenMpi, name_of(path_), ranks_), to_string(made.error())});
      return;
    }
    mpi_.emplace(std::move(*made));
    for (Link& link : mpi_->links()) mpi_links_.push_back(&link);
  }

  void add_entrant(Rounds& rounds, std::string subject, const std::vector<Link*>& links,
                   const Command& command) {
    rounds.entrants.push_back(
        {std::move(subject), [this, &links, command](Series& series) -> Result<void> {
           const auto times = ask_ranks(links, command, interrupt_descriptor_);
           if (!times) return Unexpected(times.error());
           series.add(kLatencyP50, "ns", times->ns);
           series.add(kCpuTime, "ns", times->cpu_ns);
           return {};
         }});
  }

  const Settings& settings_;
  const unsigned ranks_;
  const RankPath path_;
  Report& report_;
  const int interrupt_descriptor_;
  std::optional<RankNetwork> network_;
  std::optional<MpiRanks> mpi_;
  std::optional<CollectiveRanks> ours_;
  std::vector<Link*> our_links_;
  std::vector<Link*> mpi_links_;
};

template <class Visit>
void visit_cases(const Settings& settings, Visit visit) {
  for (const RankPath path : settings.paths)
    for (const unsigned ranks : kRankCounts)
      for (const CollectiveKind kind : settings.collectives)
        for (const Bytes bytes : settings.common.sizes)
          visit(case_of(path, ranks, kind, bytes), bytes);
}

}  // namespace

std::size_t cases_of_collectives(const Settings& settings) {
  return settings.paths.size() * kRankCounts.size() * settings.collectives.size() *
         settings.common.sizes.size();
}

Result<void> measure_collectives(const Settings& settings, cli::Progress& progress,
                                 int interrupt_descriptor, Report& report) {
  std::string directory = "/tmp/gantry-bench-XXXXXX";
  if (::mkdtemp(directory.data()) == nullptr) return Unexpected(system_error(directory));
  const auto remover = ProgramGuard::start({.leftovers = {directory}});
  if (!remover) return Unexpected(remover.error());
  for (const RankPath path : settings.paths)
    for (const unsigned ranks : kRankCounts) {
      CollectiveContest contest(settings, ranks, path, report, interrupt_descriptor);
      if (auto begun = contest.begin(directory); !begun) return begun;
      for (const CollectiveKind kind : settings.collectives)
        for (const Bytes bytes : settings.common.sizes)
          if (auto ran = contest.run_case(kind, bytes, progress); !ran) return ran;
    }
  return {};
}

void add_collective_findings(Report& report, const Settings& settings) {
  Ratios ratios(report);
  visit_cases(settings, [&](const std::string& name, Bytes bytes) {
    const bool is_large = bytes >= (Bytes{1} << 20);
    const Row* best = nullptr;
    for (const Row& row : report.rows)
      if (row.case_name == name && row.metric == kLatencyP50 && row.subject != kOpenMpi &&
          row.subject != kPicked && (best == nullptr || row.summary.value < best->summary.value))
        best = &row;
    if (best == nullptr) return;
    const Row fastest = *best;
    const Row* const chosen = report.find(name, kPicked, kLatencyP50);
    ratios.of_rows(name + ": openmpi / chosen", report.find(name, kOpenMpi, kLatencyP50), chosen,
                   is_large ? Bar::at_least(1.0) : Bar::none());
    ratios.of_rows(fmt::format("{}: chosen / best ({})", name, fastest.subject), chosen, &fastest,
                   Bar::none());
  });
}

}  // namespace gantry::bench
