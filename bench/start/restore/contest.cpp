#include "contest.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "../../support/program/sizes.hpp"
#include "../../support/run/rounds.hpp"
#include "../files.hpp"
#include "../starts.hpp"
#include "restorers.hpp"

namespace gantry::bench {
namespace {

/// What a process is commanded to do: the number of Command::warmups.
enum RestoreOrder : std::uint64_t { kTouchSet, kReadAll, kTouchRest };

constexpr std::array kPackings = {"not packed", "lz4", "zstd:1"};

/// One restoring, as its process is commanded.
class Restoring {
 public:
  Restoring(const SavedMemory& saved, const RestorerKind& kind, const DirectReads& reads)
      : saved_(saved), restorer_(kind.make(saved, reads)) {}

  Result<Answer> obey(const Command& command) {
    if (command.warmups == kTouchSet) return touch_set();
    return command.warmups == kReadAll ? read_all() : touch_others();
  }

 private:
  Result<Answer> touch_set() {
    watch_.emplace();
    if (auto begun = restorer_->begin(); !begun) return Unexpected(begun.error());
    if (auto touched = touch_working_set(*restorer_, saved_); !touched)
      return Unexpected(touched.error());
    return answer();
  }
  Result<Answer> read_all() {
    if (auto finished = restorer_->finish(); !finished) return Unexpected(finished.error());
    if (auto read = read_everything(*restorer_, saved_); !read) return Unexpected(read.error());
    return answer();
  }
  Result<Answer> touch_others() {
    auto times = touch_rest(*restorer_, saved_);
    if (!times) return Unexpected(times.error());
    Answer touches;
    touches.kind = Answer::Kind::measured;
    touches.p50_ns = percentile(*times, 0.5);
    touches.p99_ns = percentile(*times, 0.99);
    touches.say(fmt::format("{} pages touched out of turn", times->size()));
    if (auto read = read_all(); !read) return read;
    return touches;
  }
  /// Of the time since the beginning.
  Answer answer() const {
    const Spent spent = watch_->spent();
    Answer answer;
    answer.kind = Answer::Kind::measured;
    answer.p50_ns = spent.wall_ns;
    answer.cpu_ns = spent.caller_ns + spent.helper_ns;
    answer.peak_bytes = peak_bytes();
    answer.say(restorer_->chosen());
    return answer;
  }

  const SavedMemory& saved_;
  const std::unique_ptr<Restorer> restorer_;
  std::optional<Stopwatch> watch_;
};

/// All cases of one memory. Each restoring is a process that is forked for it.
class RestoreContest {
 public:
  RestoreContest(const Settings& settings, const SavedMemory& saved, int interrupt_descriptor,
                 Report& report)
      : saved_(saved),
        rounds_(settings.common.rounds),
        interrupt_descriptor_(interrupt_descriptor),
        report_(report) {
    for (const RestorerKind& kind : restorer_kinds())
      if (settings.wants(kind.name)) subjects_.push_back({kind, {}});
  }

  /// Who reads directly does that as was quickest by itself before the rounds. Where nothing can be
  /// read directly they are skipped.
  Result<void> choose_ways(const std::string& name) {
    const std::string path = saved_.path(MemoryFile::working_set);
    if (const auto file = open_to_read(path, O_DIRECT); !file) {
      for (const Subject& one : subjects_)
        if (one.kind.reads_directly)
          report_.skipped.push_back(
              {fmt::format("{} in {}", one.kind.name, name), to_string(file.error())});
      std::erase_if(subjects_, [](const Subject& one) { return one.kind.reads_directly; });
    }
    for (Subject& one : subjects_) {
      if (!one.kind.reads_directly) continue;
      const auto reads = choose_reads(
          name, one.kind.name, report_, [&](const DirectReads& tried) -> Result<double> {
            const auto figures = start({one.kind, tried}, name, nullptr, {kTouchSet});
            if (!figures) return Unexpected(figures.error());
            return figures->front().p50_ns;
          });
      if (!reads) return Unexpected(reads.error());
      one.reads = *reads;
    }
    return {};
  }

  Result<void> run(const std::string& name, const DiskLimit* limit, cli::Progress& progress) {
    if (auto chosen = choose_image(name, limit); !chosen) return chosen;
    const auto fails = [](std::size_t, const Error& error) -> Result<void> {
      return Unexpected(error);
    };
    Rounds rounds{name, saved_.bytes(), rounds_, {}, fails, interrupt_descriptor_};
    for (const Subject& one : subjects_)
      rounds.entrants.push_back({std::string(one.kind.name), [&, limit](Series& series) {
                                   return turn(one, name, limit, series);
                                 }});
    return rounds.entrants.empty() ? Result<void>() : run_rounds(rounds, progress, report_);
  }

 private:
  struct Subject {
    RestorerKind kind;
    DirectReads reads;
    std::string said = {};  // how it was chosen
  };

  Result<void> choose_image(const std::string& name, const DiskLimit* limit) {
    const auto restore =
        std::ranges::find(subjects_, kRestore, [](const Subject& one) { return one.kind.name; });
    if (restore == subjects_.end()) return {};
    const auto ways = restores_from_images();
    std::vector<std::vector<double>> times(ways.size());
    for (unsigned round = 0; round < kChoosingRounds; ++round)
      for (std::size_t i = 0; i < ways.size(); ++i) {
        const auto figures = start({ways[i], {}}, name, limit, {kTouchSet});
        if (!figures) return Unexpected(figures.error());
        times[i].push_back(figures->front().p50_ns);
      }
    std::vector<double> medians;
    for (std::vector<double>& some : times) medians.push_back(median(some));
    const auto best = static_cast<std::size_t>(std::ranges::min_element(medians) - medians.begin());
    restore->kind = ways[best];
    restore->said = fmt::format("{}; medians before the rounds: not packed {}, lz4 {}, zstd:1 {}; ",
                                kPackings[best], time_text(median(times[0])),
                                time_text(median(times[1])), time_text(median(times[2])));
    return {};
  }

  /// One process touches the working set and reads the rest, another one touches pages in between.
  Result<void> turn(const Subject& subject, const std::string& name, const DiskLimit* limit,
                    Series& series) {
    const bool is_limit = subject.kind.is_limit;
    const auto figures = is_limit ? start(subject, name, limit, {kTouchSet})
                                  : start(subject, name, limit, {kTouchSet, kReadAll});
    if (!figures) return Unexpected(figures.error());
    RoundFigures usable = figures->front();
    const RoundFigures& all = figures->back();
    usable.peak_bytes = all.peak_bytes;
    add_start(series, static_cast<double>(saved_.working_set_bytes()), usable.p50_ns, usable);
    if (is_limit) return {};
    series.add(kAllTime, "ns", all.p50_ns);
    series.add(kAllCpuTime, "ns", all.cpu_ns);
    const auto touches = start(subject, name, limit, {kTouchSet, kTouchRest});
    if (!touches) return Unexpected(touches.error());
    series.add(kTouchP50, "ns", touches->back().p50_ns);
    series.add(kTouchP99, "ns", touches->back().p99_ns);
    if (subject.kind.name == kRestore || subject.kind.name == kRestoreSmall) {
      series.add(kStoredBytes, "B", static_cast<double>(saved_.stored_bytes(subject.kind.file)));
      series.add(kNonzeroBytes, "B", static_cast<double>(saved_.nonzero_bytes()));
    }
    const std::string said = subject.said + usable.said + (usable.said.empty() ? "" : "; ");
    if (!subject.kind.reads_directly)
      note_choice(report_, name, subject.kind.name, said + touches->back().said);
    return {};
  }

  /// A process for which everything is cold, and what it answers to each order.
  Result<std::vector<RoundFigures>> start(const Subject& subject, const std::string& name,
                                          const DiskLimit* limit,
                                          const std::vector<RestoreOrder>& orders) {
    for (const auto file : {MemoryFile::raw, subject.kind.file})
      if (auto cold = make_cold(saved_.path(file)); !cold) return Unexpected(cold.error());
    ProcessGroup group(interrupt_descriptor_);
    const Role role{fmt::format("{} of {}", subject.kind.name, name), kAnyCpu, [&](Link& link) {
                      Restoring restoring(saved_, subject.kind, subject.reads);
                      const auto prepare = [&] {
                        return limit == nullptr ? Result<void>()
                                                : use_up_burst(saved_.path(MemoryFile::working_set),
                                                               saved_.working_set_bytes());
                      };
                      serve(link, limit, prepare,
                            [&](const Command& command) { return restoring.obey(command); });
                    }};
    if (auto added = group.add(Party{{role}}, MayFail::never); !added)
      return Unexpected(added.error());
    if (auto ready = group.await_ready(); !ready) return Unexpected(ready.error());
    std::vector<RoundFigures> all;
    for (const RestoreOrder order : orders) {
      auto figures = group.run(0, {order, 1});
      if (!figures) return Unexpected(figures.error());
      all.push_back(*std::move(figures));
    }
    group.dismiss();
    return all;
  }

  const SavedMemory& saved_;
  unsigned rounds_;
  int interrupt_descriptor_;
  Report& report_;
  std::vector<Subject> subjects_;
};

/// Whether memory can be used before it is there: asked in a process of its own, as this one has to
/// stay without threads.
Result<void> can_fault(int interrupt_descriptor) {
  ProcessGroup group(interrupt_descriptor);
  const Role role{"a page that is touched", kAnyCpu, [](Link& link) {
                    auto memory = make_zeros(kPage);
                    const auto can = memory ? memory->record(true) : Unexpected(memory.error());
                    link.send(can ? Answer{} : Answer::failure(to_string(can.error())));
                  }};
  if (auto added = group.add(Party{{role}}, MayFail::never); !added) return added;
  return group.await_ready();
}

/// With the reason, unless that is Ctrl-C.
Result<void> skip_case(Report& report, const std::string& name, const Error& error) {
  if (error.code == Code::interrupted) return Unexpected(error);
  report.skipped.push_back({name, to_string(error)});
  return {};
}

/// What is lacking for a memory, or what is wrong with it; nothing: go on.
Result<void> check_order(const ContentOrder& order, bool is_guest) {
  const double needed = 2 * static_cast<double>(order.bytes);
  if (const auto lack = lack_of_memory(needed, probe_machine().memory_free_bytes); !lack.empty())
    return Unexpected({Code::not_found, lack, {}});
  if (!is_guest && order.bytes < kFewestBytes)
    return Unexpected({Code::not_found, "such memory has at least 1 MiB", {}});
  return can_fault(order.interrupt_descriptor);
}

}  // namespace

std::vector<Contents> wanted_contents(const Settings& settings) {
  std::vector<Contents> wanted;
  for (const Contents& one : kContents)
    if (settings.measures(one.case_name) && (one.case_name != kGuest || !settings.guest.empty()))
      wanted.push_back(one);
  return wanted;
}

Result<void> run_restore(const Settings& settings, const Contents& contents, Bytes bytes,
                         int interrupt_descriptor, cli::Progress& progress, Report& report) {
  const bool is_guest = contents.case_name == kGuest;
  if (is_guest) {
    if (bytes != settings.common.sizes.front()) return {};
    bytes = std::filesystem::file_size(settings.guest);
  }
  const ContentOrder order{bytes, settings.guest, interrupt_descriptor};
  const auto name_of = [&](const Disk& disk) { return case_of(contents.case_name, bytes, disk); };
  const std::string name = name_of(kAsIs);
  progress.step(name + ": making it");
  if (auto can = check_order(order, is_guest); !can) return skip_case(report, name, can.error());
  const auto folder = make_folder(bytes, kFilesOfMemory);
  if (!folder) return Unexpected(folder.error());
  const std::string& path = folder->first.path();
  const auto saved = SavedMemory::make(path, contents, order);
  if (!saved && saved.error().code != Code::not_found) return Unexpected(saved.error());
  if (!saved) return skip_case(report, name, saved.error());
  RestoreContest contest(settings, *saved, interrupt_descriptor, report);
  if (auto chosen = contest.choose_ways(name); !chosen) return chosen;
  return run_disks(settings, path, report, name_of, [&](const Disk& disk, const DiskLimit* limit) {
    return contest.run(name_of(disk), limit, progress);
  });
}

}  // namespace gantry::bench
