// All ways of starting, taking turns.

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>

#include "../support/program/sizes.hpp"
#include "../support/run/rounds.hpp"
#include "estimates.hpp"
#include "files.hpp"
#include "keeping.hpp"
#include "restore/contest.hpp"
#include "starts.hpp"

namespace gantry::bench {
namespace {

constexpr double kMemories = 2;      // tensors, and what they are copied or unpacked from
constexpr std::size_t kStarts = 21;  // of one worker, where nothing is loaded

/// What a process is commanded to do: the number of Command::warmups.
enum Order : std::uint64_t { kStart, kStartAndRead, kTellMemory, kStartOften };

/// One start, and what came of it. CPU time is that of reading, too, if that is part of the order.
Result<Answer> start_once(Loader& loader, const Weights& weights, bool is_read) {
  Answer answer;
  answer.kind = Answer::Kind::measured;
  const Stopwatch watch;
  if (auto loaded = loader.load(); !loaded) return Unexpected(loaded.error());
  Spent spent = watch.spent();
  answer.p50_ns = spent.wall_ns;
  answer.peak_bytes = peak_bytes();
  answer.say(loader.chosen());
  if (auto checked = check_loaded(loader, weights); !checked) return Unexpected(checked.error());
  if (is_read) spent = watch.spent();
  answer.cpu_ns = spent.caller_ns + spent.helper_ns;
  return answer;
}

/// Many starts, each of which gives back what the one before it had; the median.
Result<Answer> start_often(Loader& loader) {
  std::array<double, kStarts> times{};
  for (double& time : times) {
    loader.drop();
    const Stopwatch watch;
    if (auto loaded = loader.load(); !loaded) return Unexpected(loaded.error());
    time = watch.spent().wall_ns;
  }
  Answer answer;
  answer.kind = Answer::Kind::measured;
  answer.p50_ns = median(times);
  return answer;
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
    const auto is_out = [&](const LoaderKind& kind) { return !settings.wants(kind.name); };
    std::erase_if(kinds_, is_out);
    std::erase_if(keep_kinds_, is_out);
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
    const auto chosen = gantry::bench::choose_reads(
        name, kDirect, report_, [&](const DirectReads& reads) -> Result<double> {
          reads_ = reads;
          const auto figures = start(*direct, name, nullptr);
          if (!figures) return Unexpected(figures.error());
          return figures->p50_ns;
        });
    if (!chosen) return Unexpected(chosen.error());
    reads_ = *chosen;
    return {};
  }

  /// `limit`: null: the disk is as it is.
  Result<void> run(const std::string& name, const DiskLimit* limit, cli::Progress& progress) {
    Rounds rounds{name, weights_.bytes(), rounds_, {}, fails, interrupt_descriptor_};
    for (const LoaderKind& kind : kinds_)
      if (kind.reads_disk || limit == nullptr)
        rounds.entrants.push_back({std::string(kind.name), [&, limit](Series& series) {
                                     return turn(kind, name, limit, series);
                                   }});
    return run_rounds(rounds, progress, report_);
  }

  /// So many workers, from the page cache or a keeper; each way for which there is memory.
  Result<void> keep(const std::string& name, unsigned workers, cli::Progress& progress) {
    Rounds rounds{name, weights_.bytes(), rounds_, {}, fails, interrupt_descriptor_};
    for (const LoaderKind& kind : keep_kinds_)
      if (const std::string lack = lack_of(kind, workers); !lack.empty())
        report_.skipped.push_back({fmt::format("{} in {}", kind.name, name), lack});
      else
        rounds.entrants.push_back({std::string(kind.name), [&, workers](Series& series) {
                                     return keep_turn(kind, name, workers, series);
                                   }});
    if (!rounds.entrants.empty()) return run_rounds(rounds, progress, report_);
    return {};
  }

 private:
  /// The page cache has the file as well.
  std::string lack_of(const LoaderKind& kind, unsigned workers) const {
    if (kind.kept == PageKind::hugetlb) return lack_of_huge_pages(weights_.bytes());
    const unsigned images = kind.kept ? 1 : workers;
    return lack_of_memory(static_cast<double>(weights_.bytes()) * (images + 1),
                          probe_machine().memory_free_bytes);
  }

  /// Nobody may.
  static Result<void> fails(std::size_t, const Error& error) { return Unexpected(error); }

  Result<void> turn(const LoaderKind& kind, const std::string& name, const DiskLimit* limit,
                    Series& series) {
    const auto figures = start(kind, name, limit);
    if (!figures) return Unexpected(figures.error());
    add_start(series, static_cast<double>(weights_.bytes()), figures->p50_ns, *figures);
    note_choice(report_, name, kind.name, figures->said);
    return {};
  }

  Result<RoundFigures> start(const LoaderKind& kind, const std::string& name,
                             const DiskLimit* limit) {
    if (kind.reads_disk)
      if (auto cold = make_cold(weights_.path(kind.file)); !cold) return Unexpected(cold.error());
    ProcessGroup group(interrupt_descriptor_);
    if (auto ready = fork(group, kind, name, 1, limit); !ready) return Unexpected(ready.error());
    auto figures = group.run(0, {kStart, 1});
    group.dismiss();
    return figures;
  }

  /// All workers load and read it at once, then tell their memory.
  Result<void> keep_turn(const LoaderKind& kind, const std::string& name, unsigned workers,
                         Series& series) {
    if (auto warm = make_warm(weights_.path(kind.file)); !warm) return warm;
    ProcessGroup group(interrupt_descriptor_);
    const std::size_t party = kind.kept ? 1 : 0;  // of the workers
    if (kind.kept) {
      const Role role = keeper_role("the keeper of " + name, kind, weights_, workers + 1);
      if (auto added = group.add(Party{{role}}, MayFail::never); !added) return added;
    }
    if (auto ready = fork(group, kind, name, workers, nullptr); !ready) return ready;
    const Stopwatch watch;
    auto figures = group.run(party, {kStartAndRead, 1});
    const double wall = watch.spent().wall_ns;
    if (!figures) return Unexpected(figures.error());
    const auto memory = group.run(party, {kTellMemory, 1});
    if (!memory) return Unexpected(memory.error());
    figures->peak_bytes = workers * memory->peak_bytes;
    if (kind.kept)
      if (auto added = add_keeper(group, party, *figures); !added) return added;
    group.dismiss();
    add_start(series, workers * static_cast<double>(weights_.bytes()), wall, *figures);
    series.add(kUsableTime, "ns", figures->p50_ns);
    return {};
  }

  /// Adds what the keeper took, and has all workers attach again and again.
  static Result<void> add_keeper(ProcessGroup& group, std::size_t workers, RoundFigures& figures) {
    const auto keeper = group.run(0, {kTellMemory, 1});
    if (!keeper) return Unexpected(keeper.error());
    figures.cpu_ns += keeper->cpu_ns;
    figures.peak_bytes += keeper->peak_bytes;
    const auto often = group.run(workers, {kStartOften, 1});
    if (!often) return Unexpected(often.error());
    figures.p50_ns = often->p50_ns;
    return {};
  }

  Result<void> fork(ProcessGroup& group, const LoaderKind& kind, const std::string& name,
                    unsigned workers, const DiskLimit* limit) const {
    const unsigned sharers = workers + (kind.kept ? 1 : 0);
    const Role role{fmt::format("{} of {}", kind.name, name), kAnyCpu,
                    [&, sharers, limit](Link& link) { load_for(link, kind, sharers, limit); }};
    const Party party{std::vector<Role>(workers, role)};
    if (auto added = group.add(party, MayFail::never); !added) return added;
    return group.await_ready();
  }

  void load_for(Link& link, const LoaderKind& kind, unsigned sharers,
                const DiskLimit* limit) const {
    const auto loader = kind.make(weights_, reads_);
    const auto prepare = [&]() -> Result<void> {
      if (auto prepared = loader->prepare(); !prepared || limit == nullptr) return prepared;
      return use_up_burst(weights_.path(kind.file), weights_.bytes() / 2);  // one may be packed
    };
    serve(link, limit, prepare, [&](const Command& command) -> Result<Answer> {
      if (command.warmups == kStartOften) return start_often(*loader);
      if (command.warmups != kTellMemory)
        return start_once(*loader, weights_, command.warmups == kStartAndRead);
      Answer answer;
      answer.kind = Answer::Kind::measured;
      answer.peak_bytes = memory_share(sharers);
      return answer;
    });
  }

  const Weights& weights_;
  unsigned rounds_;
  int interrupt_descriptor_;
  Report& report_;
  std::vector<LoaderKind> kinds_ = loader_kinds();
  std::vector<LoaderKind> keep_kinds_ = gantry::bench::keep_kinds();
  DirectReads reads_;
};

Result<void> run_workers(Bytes bytes, Contest& contest, cli::Progress& progress) {
  for (const unsigned workers : kKeepWorkers)
    if (auto ran = contest.keep(case_of(bytes, workers), workers, progress); !ran) return ran;
  return {};
}

/// Makes the files and runs their cases.
Result<void> run_shape(const Settings& settings, const Shape& shape, Bytes bytes,
                       int interrupt_descriptor, cli::Progress& progress, Report& report) {
  const auto folder = make_folder(bytes, kFilesOfWeights);
  if (!folder) return Unexpected(folder.error());
  progress.step(case_of(shape.case_name, bytes, kAsIs) + ": making it");
  const std::string& path = folder->first.path();
  const auto weights = Weights::make(path, bytes, shape.tensors, interrupt_descriptor);
  if (!weights) return Unexpected(weights.error());
  if (shape.case_name == kEstimates.case_name)
    return run_estimates(settings, *weights, interrupt_descriptor, progress, report);
  Contest contest(settings, *weights, interrupt_descriptor, report);
  if (shape.case_name == kKeep.case_name) return run_workers(bytes, contest, progress);
  const auto name_of = [&](const Disk& disk) { return case_of(shape.case_name, bytes, disk); };
  if (auto chosen = contest.choose_reads(name_of(kAsIs)); !chosen) return chosen;
  return run_disks(settings, path, report, name_of, [&](const Disk& disk, const DiskLimit* limit) {
    return contest.run(name_of(disk), limit, progress);
  });
}

}  // namespace

Result<void> run_contest(const Settings& settings, int interrupt_descriptor, Report& report) {
  const auto sizes = sizes_that_fit(settings.common.sizes, report, [](Bytes bytes) {
    return kMemories * static_cast<double>(bytes);
  });
  if (!sizes) return Unexpected(sizes.error());
  std::vector<Shape> shapes = {kLarge, kSmall, kKeep, kEstimates};
  std::erase_if(shapes, [&](const Shape& one) { return !settings.measures(one.case_name); });
  const std::vector<Contents> contents = wanted_contents(settings);
  std::size_t steps = contents.size() * (1 + settings.disks.size() * settings.common.rounds);
  for (const Shape& shape : shapes) {
    const bool is_kept = shape.case_name == kKeep.case_name;
    const bool has_rounds = shape.case_name != kEstimates.case_name;
    steps += 1 + (is_kept ? kKeepWorkers.size() : settings.disks.size()) *
                     (has_rounds ? settings.common.rounds : 1);
  }
  cli::Progress progress("bench " + report.bench, sizes->size() * steps);
  for (const Bytes bytes : *sizes) {
    for (const Shape& shape : shapes)
      if (auto ran = run_shape(settings, shape, bytes, interrupt_descriptor, progress, report);
          !ran)
        return ran;
    for (const Contents& one : contents)
      if (auto ran = run_restore(settings, one, bytes, interrupt_descriptor, progress, report);
          !ran)
        return ran;
  }
  return {};
}

}  // namespace gantry::bench
