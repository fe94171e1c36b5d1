// gantry bench ipc: what it costs to hand a message to another process and to learn that it has
// been read, by Gantry and by what people use instead.

#include <fmt/format.h>

#include <algorithm>

#include "../peers/list.hpp"
#include "../support/program/program.hpp"
#include "../support/report/findings.hpp"
#include "../support/trips/run_case.hpp"
#include "beside.hpp"
#include "cases.hpp"
#include "findings.hpp"
#include "instructions.hpp"
#include "subjects.hpp"

namespace gantry::bench {
namespace {

constexpr Bytes kBesides = Bytes{512} << 20;  // what all processes take besides the payloads

std::vector<SubjectKind> kinds_of(const Settings& settings, Report& report) {
  std::vector<SubjectKind> kinds =
      own_subjects(settings.wants_peers() || !settings.subjects.empty());
  const auto wants = [&](std::string_view subject) { return settings.wants(subject); };
  std::erase_if(kinds, [&](const SubjectKind& kind) { return !wants(kind.name); });
  if (settings.wants_peers())
    for (SubjectKind& peer : peer_subjects(report, wants)) kinds.push_back(std::move(peer));
  return kinds;
}

/// Those that fit into memory one at a time; a peer that does not is left out.
Result<std::vector<SubjectKind>> fitting(const Case& what, std::span<const SubjectKind> kinds,
                                         Bytes free, Report& report) {
  std::vector<SubjectKind> fit;
  for (const SubjectKind& kind : kinds) {
    if (!kind.takes(what)) continue;
    const double needed = bytes_needed(kind, what) + static_cast<double>(kBesides);
    const double gib = 1 << 30;
    const std::string reason =
        fmt::format("{}: needs {:.1f} GiB, of which {:.1f} are free", what.name, needed / gib,
                    static_cast<double>(free) / gib);
    if (needed <= static_cast<double>(free))
      fit.push_back(kind);
    else if (kind.is_peer)
      report.skipped.push_back({kind.name, reason});
    else
      return Unexpected({Code::out_of_memory, reason, "choose smaller --sizes"});
  }
  return fit;
}

/// While 16 MiB after 16 MiB move on the same CPUs; how quickly they do is a row, too.
Result<void> run_beside(const Case& what, std::span<const SubjectKind> kinds, const Plan& plan,
                        cli::Progress& progress, Report& report) {
  const auto stream = StreamBeside::start(what.beside, what.directory, plan.cpus);
  if (!stream) return Unexpected(stream.error());
  const std::uint64_t before = (*stream)->messages();
  const auto began = std::chrono::steady_clock::now();
  if (auto ran = run_case(what, kinds, plan, progress, report); !ran) return ran;
  const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - began;
  const auto moved = static_cast<double>(((*stream)->messages() - before) * StreamBeside::kMessage);
  const double rate = moved / took.count();
  report.rows.push_back({what.name,
                         kStreamBesideName,
                         StreamBeside::kMessage,
                         kThroughput,
                         "GB/s",
                         {rate, rate, rate, 1}});
  return {};
}

Result<void> measure_case(Case what, std::span<const SubjectKind> kinds, const Plan& plan,
                          cli::Progress& progress, Report& report) {
  const auto scratch = ScratchDirectory::create();
  if (!scratch) return Unexpected(scratch.error());
  what.directory = scratch->path();
  const auto cpus = allowed_cpus();
  const bool is_beside = what.beside != Beside::nothing;
  what.crowded = cpus && what.readers + 1 + (is_beside ? 2 : 0) > cpus->size();
  const auto fit = fitting(what, kinds, report.machine.memory_free_bytes, report);
  if (!fit) return Unexpected(fit.error());
  if (!is_beside) return run_case(what, *fit, plan, progress, report);
  return run_beside(what, *fit, plan, progress, report);
}

Result<void> measure_all(const Settings& settings, Report& report, int interrupt_descriptor) {
  const auto kinds = kinds_of(settings, report);
  const auto cases = cases_of(settings);
  const bool is_any = std::any_of(cases.begin(), cases.end(), [&](const Case& what) {
    return std::any_of(kinds.begin(), kinds.end(),
                       [&](const auto& kind) { return kind.takes(what); });
  });
  if (!is_any && report.skipped.empty())
    return Unexpected({Code::invalid_argument,
                       cases.empty() ? "the --cases chosen have none of these --sizes"
                                     : "none of the --subjects chosen is part of these --cases",
                       "see bench/README.md for what --cases, --sizes and --subjects go together"});
  for (const Case& what : cases)  // before anything is measured
    if (auto fit = fitting(what, kinds, report.machine.memory_free_bytes, report); !fit)
      return Unexpected(fit.error());
  const Bytes free = report.machine.memory_free_bytes;
  const Plan plan{.rounds = settings.common.rounds,
                  .cpus = report.cpus.value(),
                  .interrupt_descriptor = interrupt_descriptor,
                  .free_bytes = free - std::min(free, kBesides)};
  cli::Progress progress("bench " + report.bench, cases.size() * settings.common.rounds);
  for (const Case& what : cases)
    if (auto ran = measure_case(what, kinds, plan, progress, report); !ran) return ran;
  return {};
}

Result<Report> measure(Settings& settings, int interrupt_descriptor) {
  auto begun = pinned_report(settings.common.bench);
  if (!begun) return begun;
  Report& report = *begun;
  const auto done = settings.counts_instructions
                        ? count_instructions(settings, report, interrupt_descriptor)
                        : measure_all(settings, report, interrupt_descriptor);
  if (!done) return Unexpected(done.error());
  add_findings(report, settings.wants_peers());
  return begun;
}

std::string readable(const Settings& settings, const Report& report) {
  const auto none = [](const std::string&) { return std::string{}; };
  const std::string text =
      settings.counts_instructions
          ? machine_line(report) + to_list(report, none) + skipped_lines(report)
          : to_table(report, kSyncName);
  return text + findings_text(report);
}

}  // namespace
}  // namespace gantry::bench

int main(int argc, char** argv) {
  using namespace gantry::bench;
  if (argc > 1 && argv[1] == kCounted)
    return run_counted({argv + 2, static_cast<std::size_t>(argc - 2)});
  return run_benchmark<Settings>(argc, argv, {"ipc", manual, measure, readable});
}
