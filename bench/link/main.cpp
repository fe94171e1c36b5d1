// gantry bench link: what it costs to hand a message to a process of another host, by Gantry and by
// what people use instead.

#include <fmt/format.h>

#include <algorithm>

#include "../support/program/program.hpp"
#include "../support/program/sizes.hpp"
#include "../support/report/findings.hpp"
#include "../support/trips/run_case.hpp"
#include "cases.hpp"
#include "findings.hpp"
#include "subjects.hpp"

namespace gantry::bench {
namespace {

constexpr Bytes kBesides = Bytes{512} << 20;  // what all processes take besides the payloads
constexpr std::size_t kCpusForAll = 4;        // of two ends and a thread that helps each

/// Two namespaces, or loopback after one line that says why.
Network make_network(const Settings& settings) {
  if (settings.stays_on_loopback) return Network::over_loopback();
  auto made = Network::make_namespaces();
  if (made) return std::move(*made);
  complain(settings.common.bench,
           fmt::format("{}; all runs over loopback, without rates", to_string(made.error())));
  return Network::over_loopback();
}

std::vector<SubjectKind> kinds_of(const Settings& settings, const Network& network,
                                  Report& report) {
  std::vector<SubjectKind> kinds = own_link_subjects(network);
  const auto wants = [&](std::string_view subject) { return settings.wants(subject); };
  std::erase_if(kinds, [&](const SubjectKind& kind) { return !wants(kind.name); });
  if (settings.wants_peers())
    for (SubjectKind& peer : tcp_peers(network, report, wants)) kinds.push_back(std::move(peer));
  return kinds;
}

/// What the largest of them needs with several in flight.
double needed_by_one(std::span<const SubjectKind> kinds, Bytes bytes) {
  const Case largest{.name = {}, .bytes = bytes, .directory = {}, .in_flight = kLinkInFlight};
  double needed = 0;
  for (const SubjectKind& kind : kinds)
    if (kind.takes(largest)) needed = std::max(needed, bytes_needed(kind, largest));
  return needed + static_cast<double>(kBesides);
}

Result<void> measure_link_case(Case what, std::span<const SubjectKind> kinds, const Plan& plan,
                               cli::Progress& progress, Report& report) {
  const auto scratch = ScratchDirectory::create();
  if (!scratch) return Unexpected(scratch.error());
  what.directory = scratch->path();
  const auto cpus = allowed_cpus();
  what.crowded = cpus && cpus->size() < kCpusForAll;
  return run_case(what, kinds, plan, progress, report);
}

/// A case for each rate that the wire can be given, and for each size.
Result<void> measure_all(const Settings& settings, const Network& network, const Plan& plan,
                         Report& report) {
  const auto kinds = kinds_of(settings, network, report);
  const auto sizes = sizes_that_fit(settings.common.sizes, report,
                                    [&](Bytes bytes) { return needed_by_one(kinds, bytes); });
  if (!sizes) return Unexpected(sizes.error());
  std::size_t count = 0;
  for (const Rate& rate : settings.rates) count += link_cases(settings, rate, *sizes).size();
  cli::Progress progress("bench " + report.bench, count * plan.rounds);
  for (const Rate& rate : settings.rates) {
    if (auto limited = network.limit(rate); !limited) {
      report.skipped.push_back({rate.name, to_string(limited.error())});
      continue;
    }
    for (const Case& what : link_cases(settings, rate, *sizes))
      if (auto ran = measure_link_case(what, kinds, plan, progress, report); !ran) return ran;
  }
  return {};
}

Result<Report> measure(Settings& settings, int interrupt_descriptor) {
  auto begun = pinned_report(settings.common.bench);
  if (!begun) return begun;
  Report& report = *begun;
  const Network network = make_network(settings);
  report.chosen.push_back({"", "network", network.text()});
  const Bytes free = report.machine.memory_free_bytes;
  const Plan plan{.rounds = settings.common.rounds,
                  .cpus = report.cpus.value(),
                  .interrupt_descriptor = interrupt_descriptor,
                  .free_bytes = free - std::min(free, kBesides),
                  .wire_bytes = [&network] { return network.received_bytes(); }};
  if (auto done = measure_all(settings, network, plan, report); !done)
    return Unexpected(done.error());
  add_link_findings(report, settings);
  return begun;
}

std::string readable(const Settings&, const Report& report) {
  std::string text = fmt::format("network: {}\n", report.chosen.front().text);
  return text + to_table(report, kIntoPlaceName) + wire_text(report) + findings_text(report);
}

}  // namespace
}  // namespace gantry::bench

int main(int argc, char** argv) {
  using namespace gantry::bench;
  return run_benchmark<Settings>(argc, argv, {"link", manual, measure, readable});
}
