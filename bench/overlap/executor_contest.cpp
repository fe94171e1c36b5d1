#include "executor_contest.hpp"

#include <fmt/format.h>
#include <poll.h>

#include "../support/report/findings.hpp"
#include "../support/run/rounds.hpp"
#include "executor_ranks.hpp"

namespace gantry::bench {
namespace {

constexpr std::string_view kByPlan = "plan";
constexpr std::string_view kByHand = "by-hand";
constexpr std::string_view kCpuPerOperation = "cpu_per_operation";
constexpr double kMostNsPerOperation = 2000;
constexpr double kMostShare = 1.03;
constexpr int kExchangeAnswerMs = 120'000;
constexpr std::uint64_t kTrips = 40;

struct ExecutorCase {
  std::string_view name;
  LinkKind kind;
  Exchange exchange;
  bool is_large = false;  // the products take most of the time
};
// Pieces of 2 KiB, and of 64 KiB with products of some 3 ms of one CPU.
constexpr Exchange kSmall{8, 64, 32};
constexpr Exchange kLarge{32, 512, 2048};
constexpr std::array kCases = {ExecutorCase{"executor shared 2K", LinkKind::shared, kSmall},
                               ExecutorCase{"executor stream 2K", LinkKind::stream, kSmall},
                               ExecutorCase{"executor shared 64K", LinkKind::shared, kLarge, true},
                               ExecutorCase{"executor stream 64K", LinkKind::stream, kLarge, true}};

Result<void> take_turn(ExecutorRanks& ranks, const Command& command, int interrupt_descriptor,
                       Series& series) {
  for (Child& child : ranks.children()) child.link().send(command);
  double ns = 0;
  double cpu_ns = 0;
  for (Child& child : ranks.children()) {
    std::array<pollfd, 2> entries = {
        {{child.link().descriptor(), POLLIN, 0}, {interrupt_descriptor, POLLIN, 0}}};
    if (::poll(entries.data(), entries.size(), kExchangeAnswerMs) == 0)
      return Unexpected({Code::timed_out, child.role() + " says nothing", ""});
    if (entries[1].revents != 0) return Unexpected({Code::interrupted, "interrupted", ""});
    const auto answer = child.link().receive<Answer>();
    if (!answer) return Unexpected({Code::peer_gone, child.role() + " is gone", ""});
    if (answer->kind == Answer::Kind::failed)
      return Unexpected({Code::system, answer->text.data(), ""});
    ns = std::max(ns, answer->p50_ns);
    cpu_ns += answer->cpu_ns;
  }
  series.add(kLatencyP50, "ns", ns);
  series.add(kCpuPerOperation, "ns", cpu_ns / (2 * Exchange::kOperations));
  return {};
}

}  // namespace

std::size_t cases_of_executor() {
  return kCases.size();
}

Result<void> measure_executor(const Settings& settings, cli::Progress& progress,
                              int interrupt_descriptor, Report& report) {
  for (const ExecutorCase& one : kCases) {
    auto ranks = ExecutorRanks::start(one.kind, one.exchange);
    if (!ranks) return Unexpected(ranks.error());
    Rounds rounds{.name = std::string(one.name),
                  .bytes = one.exchange.piece_bytes(),
                  .count = settings.common.rounds,
                  .interrupt_descriptor = interrupt_descriptor};
    rounds.failed = [&](std::size_t at, const Error& error) {
      return skip_unless(true, report, rounds.entrants[at].subject, rounds.name, error);
    };
    for (std::uint64_t way = 0; way < 2; ++way)
      rounds.entrants.push_back(
          {std::string(way == 0 ? kByPlan : kByHand), [&, way](Series& series) {
             return take_turn(*ranks, {.warmups = way, .trips = kTrips}, interrupt_descriptor,
                              series);
           }});
    if (auto ran = run_rounds(rounds, progress, report); !ran) return ran;
  }
  return {};
}

void add_executor_findings(Report& report) {
  Ratios ratios(report);
  for (const ExecutorCase& one : kCases) {
    const std::string name(one.name);
    const Row* const plan = report.find(name, kByPlan, kCpuPerOperation);
    const Row* const hand = report.find(name, kByHand, kCpuPerOperation);
    if (plan == nullptr || hand == nullptr) continue;
    const double more = plan->summary.value - hand->summary.value;
    if (!one.is_large)
      ratios.figure(name + ": ns of CPU an operation, beyond by-hand", more,
                    Bar::at_most(kMostNsPerOperation));
    ratios.of_rows(name + ": plan / by-hand", report.find(name, kByPlan, kLatencyP50),
                   report.find(name, kByHand, kLatencyP50),
                   one.is_large ? Bar::at_most(kMostShare) : Bar::none());
  }
}

}  // namespace gantry::bench
