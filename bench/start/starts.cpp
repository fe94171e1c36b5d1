#include "starts.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <gantry/runtime.hpp>
#include <limits>

#include "../support/program/sizes.hpp"

namespace gantry::bench {
namespace {

constexpr std::array kDirectReads = {DirectReads{Bytes{4} << 20, 4}, DirectReads{Bytes{4} << 20, 8},
                                     DirectReads{Bytes{4} << 20, 32},
                                     DirectReads{Bytes{1} << 20, 32}};

}  // namespace

Result<std::pair<ScratchDirectory, ProgramGuard>> make_folder(Bytes bytes, unsigned files) {
  auto folder = ScratchDirectory::create();
  if (!folder) return Unexpected(folder.error());
  auto guard = ProgramGuard::start({.leftovers = {folder->path()}});
  if (!guard) return Unexpected(guard.error());
  std::error_code failed;
  const auto space = std::filesystem::space(folder->path(), failed);
  if (!failed && space.available >= files * bytes)
    return std::pair(*std::move(folder), *std::move(guard));
  return Unexpected({Code::system,
                     fmt::format("{}: its disk lacks room for {} files of {}", folder->path(),
                                 files, format_size(bytes)),
                     "choose smaller --sizes, or set TMPDIR to a folder of another disk"});
}

Result<std::shared_ptr<FileIo>> best_file_io() {
  auto io = make_file_io("io_uring");
  return io ? io : make_plain_file_io(to_string(io.error()));
}

double peak_bytes() noexcept {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024;
}

Result<void> run_disks(const Settings& settings, const std::string& folder, Report& report,
                       const std::function<std::string(const Disk&)>& name_of, const RunDisk& run) {
  for (const Disk& disk : {kAsIs, kOneGb, kHalfGb}) {
    if (std::ranges::find(settings.disks, disk.name) == settings.disks.end()) continue;
    const bool is_held = disk.bytes_per_second != 0;
    const auto limit = is_held ? DiskLimit::create(folder, disk.bytes_per_second)
                               : Result<DiskLimit>(Unexpected(Error{}));
    if (is_held && !limit) {
      report.skipped.push_back({name_of(disk), to_string(limit.error())});
      continue;
    }
    if (auto ran = run(disk, is_held ? &*limit : nullptr); !ran) return ran;
  }
  return {};
}

Result<DirectReads> choose_reads(const std::string& case_name, std::string_view subject,
                                 Report& report,
                                 const std::function<Result<double>(const DirectReads&)>& time_ns) {
  std::array<std::vector<double>, kDirectReads.size()> times;
  for (unsigned round = 0; round < kChoosingRounds; ++round)
    for (std::size_t i = 0; i < times.size(); ++i) {
      const auto time = time_ns(kDirectReads[i]);
      if (!time) return Unexpected(time.error());
      times[i].push_back(*time);
    }
  DirectReads best;
  std::string text = "medians before the rounds";
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < times.size(); ++i) {
    const double time = median(times[i]);
    text +=
        fmt::format("{} {} {}", i == 0 ? ":" : ",", to_string(kDirectReads[i]), time_text(time));
    if (time < least) best = kDirectReads[i];
    least = std::min(least, time);
  }
  note_choice(report, case_name, subject, to_string(best) + "; " + text);
  return best;
}

Result<void> use_up_burst(const std::string& path, Bytes file_bytes) {
  constexpr Bytes kBurst = Bytes{256} << 20, kMost = Bytes{16} << 20;
  auto memory = fresh_memory(std::min(file_bytes, kMost));
  if (!memory) return Unexpected(memory.error());
  const ByteSpan into(memory->data(), std::min(file_bytes, kMost));
  for (Bytes read = 0; read < kBurst; read += into.size())
    if (auto done = read_directly(path, {}, into); !done) return done;
  return {};
}

void serve(Link& link, const DiskLimit* limit, const std::function<Result<void>()>& prepare,
           const std::function<Result<Answer>(const Command&)>& obey) {
  auto ready = limit == nullptr ? Result<void>() : limit->join();
  if (ready) ready = prepare();
  if (ready) return obey_commands(link, obey);
  link.send(Answer::failure(to_string(ready.error())));
}

void note_choice(Report& report, const std::string& case_name, std::string_view subject,
                 const std::string& said) {
  const auto is_this = [&](const Chosen& one) {
    return one.case_name == case_name && one.subject == subject;
  };
  if (!said.empty() && std::ranges::none_of(report.chosen, is_this))
    report.chosen.push_back({case_name, std::string(subject), said});
}

void add_start(Series& series, double bytes, double wall_ns, const RoundFigures& figures) {
  series.add(kLatencyP50, "ns", wall_ns);
  series.add(kThroughput, "GB/s", bytes / wall_ns);
  series.add(kCpuPerGb, "s/GB", figures.cpu_ns / bytes);
  series.add(kCpuTime, "ns", figures.cpu_ns);
  series.add(kPeakMemory, "B", figures.peak_bytes);
}

}  // namespace gantry::bench
