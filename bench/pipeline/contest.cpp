#include "contest.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "../support/program/sizes.hpp"
#include "../support/run/rounds.hpp"
#include "limit.hpp"
#include "turns.hpp"

namespace gantry::bench {
namespace {

// No chunk takes a minute: a device that does has stopped. (With a limit `automatic` would not
// compute in the caller's memory, which a kernel that is given up would go on to use.)
constexpr std::chrono::seconds kStalled{60};

bool is_no_defect(Code code) noexcept {
  return code == Code::device_full || code == Code::too_large || code == Code::out_of_memory ||
         code == Code::unsupported;
}

PipelineOptions options_of(const Settings& settings, PipelineMode mode) {
  PipelineOptions options;
  options.mode = mode;
  options.device_bytes = settings.device_bytes;
  const bool is_automatic = mode == PipelineMode::automatic;
  if (!is_automatic) options.stall_limit = kStalled;
  if (is_automatic && settings.copies) options.staging = Staging::direct;
  options.keep_timeline = true;
  return options;
}

/// The same mode with chunks and depths by hand.
void add_sweep(const Settings& settings, const CaseKind& kind, Bytes bytes, const Tool& tool,
               PipelineMode mode, std::vector<JobSubject>& subjects) {
  for (Bytes chunk = Bytes{1} << 20; chunk <= bytes / 2; chunk *= 4)
    for (const unsigned depth : {2U, 3U, 4U, 6U}) {
      JobSubject subject{
          fmt::format("{}/{}/{} x {}", tool.name, to_string(mode), format_size(chunk), depth),
          &tool, options_of(settings, mode)};
      subject.options.chunk_steps = std::max<std::uint64_t>(1, chunk / kind.step_bytes);
      subject.options.depth = depth;
      subjects.push_back(std::move(subject));
    }
}

/// Each way to files, the run as the library chooses it. Those that are not there are skipped.
std::vector<JobSubject> ways_of(const Settings& settings, const Tool& tool, Report& report) {
  std::vector<JobSubject> subjects;
  for (const std::string_view way : kFileWays) {
    if (!settings.has_subject(way)) continue;
    JobSubject subject{fmt::format("{}/{}", tool.name, way), &tool,
                       options_of(settings, PipelineMode::automatic), way == kBlocking};
    if (!subject.is_blocking) {
      auto file_io = make_file_io(way);
      if (!file_io) {
        report.skipped.push_back({subject.name, to_string(file_io.error())});
        continue;
      }
      subject.options.file_io = *std::move(file_io);
    }
    subjects.push_back(std::move(subject));
  }
  return subjects;
}

bool is_swept(PipelineMode mode) noexcept {
  return mode == PipelineMode::automatic || mode == PipelineMode::overlapped_pinned;
}

std::vector<JobSubject> subjects_of(const Settings& settings, const CaseKind& kind, Bytes bytes,
                                    const Tool& tool) {
  std::vector<JobSubject> subjects;
  for (const PipelineMode mode : kModes) {
    if (!settings.has_mode(mode)) continue;
    subjects.push_back(
        {fmt::format("{}/{}", tool.name, to_string(mode)), &tool, options_of(settings, mode)});
    if (settings.sweeps && is_swept(mode)) add_sweep(settings, kind, bytes, tool, mode, subjects);
  }
  return subjects;
}

/// One case at one size while it is run.
class Contest {
 public:
  Contest(const Settings& settings, const CaseKind& kind, Bytes bytes, Report& report,
          int interrupt_descriptor)
      : settings_(settings),
        case_(kind, bytes),
        copy_(bytes),
        report_(report),
        interrupt_descriptor_(interrupt_descriptor) {}

  Result<void> enter(const Tool& tool) {
    if (auto built = case_.build_for(tool); !built) return leave_out(tool.name, built.error());
    std::ranges::move(case_.kind().is_of_files
                          ? ways_of(settings_, tool, report_)
                          : subjects_of(settings_, case_.kind(), case_.bytes(), tool),
                      std::back_inserter(subjects_));
    return {};
  }

  Result<void> run(cli::Progress& progress, std::vector<TracedRun>* traced) {
    Rounds rounds{case_.name(), case_.bytes(),        settings_.common.rounds, {},
                  {},           interrupt_descriptor_};
    for (const JobSubject& subject : subjects_)
      rounds.entrants.push_back(
          {subject.name, [this, &subject, traced, left = rounds.count](Series& series) mutable {
             return turn(subject, series, --left == 0 ? traced : nullptr);
           }});
    rounds.entrants.push_back({std::string(kSingleCopy), [this](Series& series) {
                                 copy_.take_turn(series);
                                 return Result<void>{};
                               }});
    rounds.failed = [&](std::size_t i, const Error& error) {
      return leave_out(rounds.entrants[i].subject, error);
    };
    return run_rounds(rounds, progress, report_);
  }

 private:
  /// Two runs, of which the second counts: what the subject before this one left in the device's
  /// kept memory, or took from it, is not its business.
  Result<void> turn(const JobSubject& subject, Series& series, std::vector<TracedRun>* traced) {
    auto took = case_.take_turn(subject);
    if (took) took = case_.take_turn(subject);
    if (!took) return Unexpected(took.error());
    case_.add(subject, *took, series);
    remember(subject, took->report.plan);
    if (traced != nullptr) traced->push_back({subject.name, std::move(took->report.timeline)});
    return {};
  }

  /// What it chose last.
  void remember(const JobSubject& subject, const PipelinePlan& plan) {
    Chosen now{case_.name(), subject.name,
               choice_text(plan, case_.kind().step_bytes) + "\n" + plan.text()};
    const auto old = std::ranges::find_if(report_.chosen, [&](const Chosen& one) {
      return one.case_name == now.case_name && one.subject == now.subject;
    });
    if (old == report_.chosen.end())
      report_.chosen.push_back(std::move(now));
    else
      *old = std::move(now);
  }

  Result<void> leave_out(const std::string& who, const Error& error) {
    return skip_unless(!is_no_defect(error.code), report_, who, case_.name(), error);
  }

  const Settings& settings_;
  BenchCase case_;
  SingleCopy copy_;
  Report& report_;
  int interrupt_descriptor_;
  std::vector<JobSubject> subjects_;
};

}  // namespace

Result<void> run_contest(const Settings& settings, const Environment& environment, Report& report,
                         std::vector<TracedRun>& traced, int interrupt_descriptor) {
  std::vector<CaseKind> kinds = case_kinds();
  std::erase_if(kinds, [&](const CaseKind& kind) {
    return std::ranges::find(settings.cases, kind.name) == settings.cases.end();
  });
  cli::Progress progress("bench " + report.bench,
                         kinds.size() * environment.sizes().size() * settings.common.rounds);
  bool is_first = true;
  for (const Bytes bytes : environment.sizes())
    for (const CaseKind& kind : kinds) {
      Contest contest(settings, kind, bytes, report, interrupt_descriptor);
      for (const Tool& tool : environment.tools())
        if (auto entered = contest.enter(tool); !entered) return entered;
      if (auto ran = contest.run(progress, is_first ? &traced : nullptr); !ran) return ran;
      is_first = false;
    }
  return {};
}

}  // namespace gantry::bench
