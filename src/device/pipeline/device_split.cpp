#include "device/pipeline/device_split.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <thread>

#include "core/base/assert.hpp"
#include "core/base/os/worker_thread.hpp"
#include "core/base/text_lines.hpp"
#include "device/pipeline/device_run.hpp"
#include "device/pipeline/job_check.hpp"

namespace gantry {

std::vector<StepRange> split_by_rate(StepRange steps, std::span<const double> rates,
                                     std::uint64_t grain) {
  const double all = std::accumulate(rates.begin(), rates.end(), 0.0);
  const auto equal = 1.0 / static_cast<double>(rates.size());
  std::vector<StepRange> ranges;
  double share = 0;
  for (std::uint64_t first = steps.first; const double rate : rates) {
    share += all > 0 ? rate / all : equal;
    auto last = steps.first +
                static_cast<std::uint64_t>(std::round(static_cast<double>(steps.count()) * share));
    if (grain > 1 && steps.count() / grain > rates.size()) last -= last % grain;
    if (ranges.size() + 1 == rates.size()) last = steps.last;
    last = std::clamp(last, first, steps.last);
    ranges.push_back({first, last});
    first = last;
  }
  GANTRY_DEBUG_ASSERT(ranges.empty() || ranges.back().last == steps.last);
  return ranges;
}

// One job on several devices: a run for each, over its own range of the steps.

namespace {

using Argument = PipelineJob::Argument;
using Kind = Argument::Kind;

// this part of the job is run first, and tells the rates
constexpr std::uint64_t kSampleShare = 16;
constexpr std::uint64_t kGrain = 128;  // satisfies any alignment of bytes that devices want

struct Partial {
  Chunk chunk;
  std::vector<std::byte> bytes;
};

/// One device's work and its outcome.
struct Member {
  Device* device = nullptr;
  PipelineJob job;                             // with a kernel of the device's
  std::vector<std::vector<Partial>> partials;  // of each argument
  StepRange range = {};
  std::optional<Result<PipelineReport>> outcome = {};
};

Result<void> check_ends(const PipelineJob& job) {
  std::size_t index = 0;
  for (const Argument& array : job.arguments()) {
    const bool reads = array.reads() || array.kind == Kind::broadcast;
    if ((reads && array.source.kind != PipelineSource::Kind::memory &&
         array.source.kind != PipelineSource::Kind::reshaped) ||
        (array.writes() && array.sink.kind != PipelineSink::Kind::memory))
      return fail(Code::unsupported,
                  fmt::format("argument {}: {} has one place at a time, and several devices want "
                              "several",
                              index, reads ? array.source.name : array.sink.name),
                  "give it memory, or run it on one device");
    ++index;
  }
  return {};
}

// Devices end their chunks in an unknown order, so folding comes afterwards.
Result<PipelineJob> job_for(Device& device, const PipelineJob& job,
                            std::vector<std::vector<Partial>>& partials) {
  GANTRY_ASSIGN(Kernel kernel, job.kernel_on(device));
  PipelineJob mine = job.with_kernel(std::move(kernel));
  for (std::size_t i = 0; i < partials.size(); ++i)
    if (job.arguments()[i].kind == Kind::reduction)
      mine.set_fold(i, [&kept = partials[i]](ConstByteSpan bytes, const Chunk& chunk) {
        kept.push_back({chunk, {bytes.begin(), bytes.end()}});
        return Result<void>{};
      });
  return mine;
}

void run_range(Member& member, const PipelineOptions& options) noexcept {
  member.outcome =
      caught([&] { return run_steps(*member.device, member.job, options, member.range); });
}

/// Runs each member's range at the same time. Of those that failed, the first by steps is the
/// error.
class Round {
 public:
  Round(std::span<const std::unique_ptr<Member>> members, const PipelineOptions& options)
      : members_(members), options_(options) {}

  [[nodiscard]] Result<void> run(std::span<const StepRange> ranges) {
    {
      Threads threads;
      for (std::size_t i = 0; i < members_.size(); ++i) {
        members_[i]->range = ranges[i];
        members_[i]->outcome.reset();
        if (ranges[i].count() != 0) GANTRY_TRY(start(threads, *members_[i]));
      }
    }
    for (const auto& member : members_)
      if (member->outcome && !*member->outcome)
        return prefixed(member->outcome->error(), "{}", member->device->facts().name);
    return {};
  }

 private:
  /// Joins all at its end.
  struct Threads {
    ~Threads() {
      for (std::thread& one : running) one.join();
    }
    std::vector<std::thread> running;
  };

  [[nodiscard]] Result<void> start(Threads& threads, Member& member) {
    threads.running.reserve(members_.size());
    GANTRY_ASSIGN(std::thread thread,
                  start_thread("a thread", [&member, this] { run_range(member, options_); }));
    threads.running.push_back(std::move(thread));
    return {};
  }

  const std::span<const std::unique_ptr<Member>> members_;
  const PipelineOptions& options_;
};

std::vector<double> rates_of(std::span<const std::unique_ptr<Member>> members) {
  std::vector<double> rates;
  for (const auto& member : members) {
    const bool is_known = member->outcome && *member->outcome;
    const double time =
        is_known
            ? static_cast<double>(((*member->outcome)->elapsed - (*member->outcome)->setup).count())
            : 0;
    rates.push_back(time > 0 ? static_cast<double>(member->range.count()) / time : 0);
  }
  return rates;
}

void take_shares(std::span<const std::unique_ptr<Member>> members, PipelineTeamReport& report) {
  for (const auto& member : members) {
    if (!member->outcome) continue;
    report.shares.push_back({member->device->facts().name, member->range.first,
                             member->range.count(), **std::move(member->outcome)});
  }
}

Result<void> fold_all(const PipelineJob& job, std::span<const std::unique_ptr<Member>> members) {
  for (std::size_t i = 0; i < job.arguments().size(); ++i) {
    std::vector<Partial> all;
    for (const auto& member : members)
      std::ranges::move(member->partials[i], std::back_inserter(all));
    // Further partial results of a chunk have no steps, and stand before the chunk behind it.
    std::ranges::sort(
        all, {}, [](const Partial& one) { return std::pair(one.chunk.first, one.chunk.steps); });
    for (std::uint64_t chunks = 0; Partial & partial : all) {
      chunks += partial.chunk.steps != 0 ? 1 : 0;
      partial.chunk.index = chunks - 1;
      GANTRY_TRY(job.arguments()[i].fold(partial.bytes, partial.chunk));
    }
  }
  return {};
}

Result<PipelineTeamReport> run_team(std::span<Device* const> devices, const PipelineJob& job,
                                    const PipelineOptions& options) {
  const auto begin = Deadline::Clock::now();
  GANTRY_TRY(check_job(job, options));
  GANTRY_TRY(check_ends(job));
  std::vector<std::unique_ptr<Member>> members;
  for (Device* const device : devices) {
    std::vector<std::vector<Partial>> none(job.arguments().size());
    members.push_back(std::make_unique<Member>(Member{device, job, std::move(none)}));
    GANTRY_ASSIGN(members.back()->job, job_for(*device, job, members.back()->partials));
  }
  PipelineTeamReport report;
  Round round(members, options);
  const StepRange all{0, job.steps()};
  const std::vector<double> equal(members.size(), 1.0);
  const StepRange sample{0, members.size() == 1 ? 0 : job.steps() / kSampleShare};
  GANTRY_TRY(round.run(split_by_rate(sample, equal, kGrain)));
  report.rates = rates_of(members);
  take_shares(members, report);
  GANTRY_TRY(round.run(split_by_rate({sample.last, all.last}, report.rates, kGrain)));
  take_shares(members, report);
  GANTRY_TRY(fold_all(job, members));
  report.elapsed = Deadline::Clock::now() - begin;
  return report;
}

}  // namespace

Result<PipelineTeamReport> run_pipeline(std::span<Device* const> devices, const PipelineJob& job,
                                        const PipelineOptions& options) {
  if (devices.empty() || std::ranges::count(devices, nullptr) != 0)
    return fail(Code::invalid_argument, "a job for no device");
  return caught([&] { return run_team(devices, job, options); });
}

}  // namespace gantry
