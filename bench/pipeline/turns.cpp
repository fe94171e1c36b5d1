#include "turns.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <set>

#include "../support/program/sizes.hpp"

namespace gantry::bench {
namespace {

double ns(std::chrono::nanoseconds time) noexcept {
  return static_cast<double>(time.count());
}

bool is_pinned(const PipelineOptions& options) noexcept {
  return options.mode == PipelineMode::sequential_pinned ||
         options.mode == PipelineMode::overlapped_pinned;
}

/// A workload's memory while the device knows it.
class Pinned {
 public:
  static Result<Pinned> make(const Tool& tool, const Workload& workload) {
    Pinned pinned;
    auto registrar = tool.device->registrar();
    if (!registrar) return Unexpected(registrar.error());
    const auto begin = Stopwatch::Clock::now();
    for (const Array& array : workload.arrays()) {
      auto registration = (*registrar)->register_memory(array.pages());
      if (!registration) return Unexpected(registration.error());
      pinned.registrations_.push_back(std::move(*registration));
    }
    pinned.spent_ = Stopwatch::Clock::now() - begin;
    return pinned;
  }
  /// What both took.
  std::chrono::nanoseconds undo() {
    const auto begin = Stopwatch::Clock::now();
    registrations_.clear();
    return spent_ + (Stopwatch::Clock::now() - begin);
  }

 private:
  std::vector<Registration> registrations_;
  std::chrono::nanoseconds spent_{};
};

}  // namespace

BenchCase::BenchCase(const CaseKind& kind, Bytes bytes)
    : kind_(kind),
      bytes_(bytes),
      name_(fmt::format("{}/{}", kind.name, format_size(bytes))),
      workload_(kind.make(std::max<std::uint64_t>(1, bytes / kind.step_bytes))) {}

Result<void> BenchCase::build_for(const Tool& tool) {
  auto program = tool.device->build(kind_.program(tool.cut));
  if (!program) return Unexpected(program.error());
  auto kernel = program->kernel(kind_.kernel);
  if (!kernel) return Unexpected(kernel.error());
  kernels_.emplace_back(&tool, *kernel);
  return {};
}

Result<BenchCase::Turn> BenchCase::take_turn(const JobSubject& subject) {
  const auto kernel =
      std::ranges::find(kernels_, subject.tool, &std::pair<const Tool*, Kernel>::first);
  workload_->prepare();
  Turn turn;
  std::optional<Pinned> pinned;
  if (is_pinned(subject.options)) {
    auto made = Pinned::make(*subject.tool, *workload_);
    if (!made) return Unexpected(made.error());
    pinned = std::move(*made);
  }
  const PipelineJob job =
      workload_->job(kernel->second, {subject.tool->cut, pinned.has_value(), subject.is_blocking});
  const Stopwatch watch;
  auto report = run_pipeline(*subject.tool->device, job, subject.options);
  turn.spent = watch.spent();
  if (!report) return Unexpected(report.error());
  turn.acquisition = pinned ? pinned->undo() : report->registering;
  if (auto checked = workload_->check(report->timeline); !checked)
    return Unexpected(checked.error());
  turn.report = std::move(*report);
  return turn;
}

void BenchCase::add(const JobSubject& subject, const Turn& turn, Series& series) const {
  const PipelineReport& report = turn.report;
  const PipelinePlan& plan = report.plan;
  const auto add = [&](std::string_view metric, std::string_view unit, double figure) {
    series.add(metric, unit, figure);
  };
  const auto bytes = static_cast<double>(bytes_);
  const double wall = turn.spent.wall_ns;
  const double apart = is_pinned(subject.options) ? ns(turn.acquisition) : 0;
  add(kLatencyP50, "ns", wall);
  add(kThroughput, "GB/s", bytes / wall);
  add(kCpuPerGb, "s/GB", (turn.spent.caller_ns + turn.spent.helper_ns) / bytes);
  add(kAcquisition, "ns", ns(turn.acquisition));
  add(kWithAcquisition, "ns", wall + apart);
  add(kSetup, "ns", ns(report.setup));
  add(kCopyIn, "ns", ns(report.copy_in));
  add(kCompute, "ns", ns(report.compute));
  add(kCopyOut, "ns", ns(report.copy_out));
  add(kEfficiency, "1",
      ns(std::max({report.copy_in, report.compute, report.copy_out})) /
          ns(report.elapsed - report.setup));
  add(kCopyShare, "1", (ns(report.copy_in) + ns(report.copy_out)) / wall);
  add(kChunks, "1", static_cast<double>(plan.chunks));
  add(kChunkBytes, "B", static_cast<double>(plan.chunk_steps * kind_.step_bytes));
  add(kDepth, "1", plan.depth);
  add(kDeviceBytes, "B", static_cast<double>(plan.device_bytes));
  add(kRingBytes, "B", static_cast<double>(plan.ring_bytes));
}

std::string choice_text(const PipelinePlan& plan, Bytes step_bytes) {
  std::set<std::string_view> ways;
  for (const Staging staging : plan.staging)
    if (staging != Staging::automatic) ways.insert(to_string(staging));
  constexpr double kMiB = 1 << 20;
  return fmt::format("{} x {:.3g} MiB, {} under way; {}", plan.chunks,
                     static_cast<double>(plan.chunk_steps * step_bytes) / kMiB, plan.depth,
                     fmt::join(ways, " and "));
}

}  // namespace gantry::bench
