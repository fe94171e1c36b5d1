// All ways of starting, taking turns.

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <limits>

#include "../support/process/process_group.hpp"
#include "../support/process/program_guard.hpp"
#include "../support/program/sizes.hpp"
#include "../support/run/rounds.hpp"
#include "disk_limit.hpp"
#include "files.hpp"
#include "loaders.hpp"
#include "settings.hpp"

namespace gantry::bench {
namespace {

constexpr Bytes kFiles = 3;      // of each size
constexpr double kMemories = 2;  // tensors, and what they are copied or unpacked from
constexpr unsigned kChoosingRounds = 3;
constexpr std::array kDirectReads = {DirectReads{Bytes{4} << 20, 4}, DirectReads{Bytes{4} << 20, 8},
                                     DirectReads{Bytes{4} << 20, 32},
                                     DirectReads{Bytes{1} << 20, 32}};

double peak_bytes() noexcept {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024;
}

/// One start, and what came of it.
Result<Answer> start_once(Loader& loader, const Weights& weights) {
  Answer answer;
  answer.kind = Answer::Kind::measured;
  const Stopwatch watch;
  if (auto loaded = loader.load(); !loaded) return Unexpected(loaded.error());
  const Spent spent = watch.spent();
  answer.p50_ns = spent.wall_ns;
  answer.cpu_ns = spent.caller_ns + spent.helper_ns;
  answer.peak_bytes = peak_bytes();
  answer.say(loader.chosen());
  if (auto checked = check_loaded(loader, weights); !checked) return Unexpected(checked.error());
  return answer;
}

void add(Series& series, double bytes, const RoundFigures& figures) {
  series.add(kLatencyP50, "ns", figures.p50_ns);
  series.add(kThroughput, "GB/s", bytes / figures.p50_ns);
  series.add(kCpuPerGb, "s/GB", figures.cpu_ns / bytes);
  series.add(kCpuTime, "ns", figures.cpu_ns);
  series.add(kPeakMemory, "B", figures.peak_bytes);
}

/// All cases of one set of files. Each start is a process that is forked for it.
class Contest {
 public:
  Contest(const Settings& settings, const Weights& weights, int interrupt_descriptor,
          Report& report)
      : weights_(weights),
        rounds_(settings.common.rounds),
        interrupt_descriptor_(interrupt_descriptor),
        report_(report) {
    for (const LoaderKind& kind : loader_kinds())
      if (settings.wants(kind.name)) kinds_.push_back(kind);
  }

  /// limit/o-direct reads as was quickest by itself before the rounds. Where nothing can be read
  /// directly it is skipped.
  Result<void> choose_reads(const std::string& name) {
    const auto direct = std::ranges::find(kinds_, kDirect, &LoaderKind::name);
    if (direct == kinds_.end()) return {};
    if (const auto file = open_to_read(weights_.path(direct->file), O_DIRECT); !file) {
      kinds_.erase(direct);
      return skip_unless(false, report_, std::string(kDirect), name, file.error());
    }
    std::array<std::vector<double>, kDirectReads.size()> times;
    for (unsigned round = 0; round < kChoosingRounds; ++round)
      for (std::size_t i = 0; i < times.size(); ++i) {
        reads_ = kDirectReads[i];
        const auto figures = start(*direct, name, nullptr);
        if (!figures) return Unexpected(figures.error());
        times[i].push_back(figures->p50_ns);
      }
    std::string text = "medians before the rounds";
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < times.size(); ++i) {
      const double time = median(times[i]);
      text +=
          fmt::format("{} {} {}", i == 0 ? ":" : ",", to_string(kDirectReads[i]), time_text(time));
      if (time < least) reads_ = kDirectReads[i];
      least = std::min(least, time);
    }
    report_.chosen.push_back({name, std::string(kDirect), to_string(reads_) + "; " + text});
    return {};
  }

  /// `limit`: null: the disk is as it is.
  Result<void> run(const std::string& name, const DiskLimit* limit, cli::Progress& progress) {
    Rounds rounds{name, weights_.bytes(), rounds_, {}, {}, interrupt_descriptor_};
    rounds.failed = [](std::size_t, const Error& error) { return Result<void>(Unexpected(error)); };
    for (const LoaderKind& kind : kinds_)
      if (kind.reads_disk || limit == nullptr)
        rounds.entrants.push_back({std::string(kind.name), [&, limit](Series& series) {
                                     return turn(kind, name, limit, series);
                                   }});
    return run_rounds(rounds, progress, report_);
  }

 private:
  Result<void> turn(const LoaderKind& kind, const std::string& name, const DiskLimit* limit,
                    Series& series) {
    const auto figures = start(kind, name, limit);
    if (!figures) return Unexpected(figures.error());
    add(series, static_cast<double>(weights_.bytes()), *figures);
    const auto is_this = [&](const Chosen& one) {
      return one.case_name == name && one.subject == kind.name;
    };
    if (!figures->said.empty() && std::ranges::none_of(report_.chosen, is_this))
      report_.chosen.push_back({name, std::string(kind.name), figures->said});
    return {};
  }

  Result<RoundFigures> start(const LoaderKind& kind, const std::string& name,
                             const DiskLimit* limit) {
    if (kind.reads_disk)
      if (auto cold = make_cold(weights_.path(kind.file)); !cold) return Unexpected(cold.error());
    ProcessGroup group(interrupt_descriptor_);
    const Role role{fmt::format("{} of {}", kind.name, name), kAnyCpu,
                    [&](Link& link) { serve(link, kind, limit); }};
    if (auto added = group.add(Party{{role}}, MayFail::never); !added)
      return Unexpected(added.error());
    if (auto ready = group.await_ready(); !ready) return Unexpected(ready.error());
    auto figures = group.run(0, {0, 1});
    group.dismiss();
    return figures;
  }

  void serve(Link& link, const LoaderKind& kind, const DiskLimit* limit) const {
    const auto loader = kind.make(weights_, reads_);
    auto ready = limit == nullptr ? Result<void>() : limit->join();
    if (ready) ready = loader->prepare();
    if (ready)
      obey_commands(link, [&](const Command&) { return start_once(*loader, weights_); });
    else
      link.send(Answer::failure(to_string(ready.error())));
  }

  const Weights& weights_;
  unsigned rounds_;
  int interrupt_descriptor_;
  Report& report_;
  std::vector<LoaderKind> kinds_;
  DirectReads reads_;
};

/// A folder for files that large, which goes whatever becomes of this process.
Result<std::pair<ScratchDirectory, ProgramGuard>> make_folder(Bytes bytes) {
  auto folder = ScratchDirectory::create();
  if (!folder) return Unexpected(folder.error());
  auto guard = ProgramGuard::start({.leftovers = {folder->path()}});
  if (!guard) return Unexpected(guard.error());
  std::error_code failed;
  const auto space = std::filesystem::space(folder->path(), failed);
  if (!failed && space.available >= kFiles * bytes)
    return std::pair(*std::move(folder), *std::move(guard));
  return Unexpected({Code::system,
                     fmt::format("{}: its disk lacks room for three files of {}", folder->path(),
                                 format_size(bytes)),
                     "choose smaller --sizes, or set TMPDIR to a folder of another disk"});
}

/// Makes the files and runs their cases.
Result<void> run_shape(const Settings& settings, const Shape& shape, Bytes bytes,
                       int interrupt_descriptor, cli::Progress& progress, Report& report) {
  const auto folder = make_folder(bytes);
  if (!folder) return Unexpected(folder.error());
  const std::string as_is = case_of(shape, bytes, kAsIs);
  progress.step(as_is + ": making it");
  const std::string& path = folder->first.path();
  const auto weights = Weights::make(path, bytes, shape.tensors, interrupt_descriptor);
  if (!weights) return Unexpected(weights.error());
  Contest contest(settings, *weights, interrupt_descriptor, report);
  if (auto chosen = contest.choose_reads(as_is); !chosen) return chosen;
  for (const Disk& disk : {kAsIs, kOneGb, kHalfGb}) {
    if (std::ranges::find(settings.disks, disk.name) == settings.disks.end()) continue;
    const std::string name = case_of(shape, bytes, disk);
    const bool is_held = disk.bytes_per_second != 0;
    const auto limit = is_held ? DiskLimit::create(path, disk.bytes_per_second)
                               : Result<DiskLimit>(Unexpected(Error{}));
    if (is_held && !limit) {
      report.skipped.push_back({name, to_string(limit.error())});
      continue;
    }
    if (auto ran = contest.run(name, is_held ? &*limit : nullptr, progress); !ran) return ran;
  }
  return {};
}

}  // namespace

Result<void> run_contest(const Settings& settings, int interrupt_descriptor, Report& report) {
  const auto sizes = sizes_that_fit(settings.common.sizes, report, [](Bytes bytes) {
    return kMemories * static_cast<double>(bytes);
  });
  if (!sizes) return Unexpected(sizes.error());
  std::vector<Shape> shapes = {kLarge, kSmall};
  std::erase_if(shapes, [&](const Shape& one) { return !settings.wants_case(one.case_name); });
  const std::size_t steps = 1 + settings.disks.size() * settings.common.rounds;
  cli::Progress progress("bench " + report.bench, sizes->size() * shapes.size() * steps);
  for (const Bytes bytes : *sizes)
    for (const Shape& shape : shapes)
      if (auto ran = run_shape(settings, shape, bytes, interrupt_descriptor, progress, report);
          !ran)
        return ran;
  return {};
}

}  // namespace gantry::bench
