// gantry bench ipc: what it costs to hand a message to another process and to learn that it has
// been read, by Gantry and by what people use instead.

#include <fmt/format.h>

#include "../support/options.hpp"
#include "../support/program.hpp"
#include "../support/rounds.hpp"
#include "../support/sizes.hpp"
#include "subjects.hpp"

namespace gantry::bench {
namespace {

constexpr Bytes kBesides = Bytes{512} << 20;  // what all processes take besides the payloads

Manual manual() {
  return {
      .name = "ipc",
      .description =
          "Times a message's way to another process, its being read there and the answer, over "
          "Gantry, plain shared memory, a pipe and a Unix socket, next to the machine's limits.",
      .notes = fmt::format(
          "Both processes of a pair are pinned to different cores. Ends of Gantry poll for {} us\n"
          "before they sleep, as those of the hand-made shared memory poll all the time.\n"
          "Filling a loan is outside the timed part. Reading the payload whole is inside.\n\n"
          "Example: gantry bench ipc --sizes 64,1M,128M --rounds 5 --json > ipc.json",
          kGantrySpin.count()),
      .sizes = "64,1K,16K,64K,256K,1M,4M,16M,64M,128M",
      .quick_sizes = "64,64K,1M,16M"};
}

/// Systems to compare with that this version has no subject for.
std::vector<Skipped> absent_peers() {
  const std::string reason = "not compared in this version; pipe and unix-socket always are";
  return {{"openmpi", reason}, {"zeromq", reason}, {"iceoryx2", reason}};
}

Result<void> check_memory(Bytes largest, std::span<const SubjectKind> kinds, Bytes free) {
  double needed = static_cast<double>(kBesides);
  for (const SubjectKind& kind : kinds) {
    needed += static_cast<double>(kind.buffers) * static_cast<double>(largest);
  }
  if (needed <= static_cast<double>(free)) return {};
  const double gib = 1 << 30;
  return Unexpected(
      {Code::out_of_memory,
       fmt::format("{}: needs {:.1f} GiB, of which {:.1f} are free", format_size(largest),
                   needed / gib, static_cast<double>(free) / gib),
       "choose smaller --sizes"});
}

Result<Report> measure(const Options& options, int interrupt_descriptor) {
  const auto kinds = all_subjects();
  Report report{"ipc", probe_machine(), {}, {}, {}};
  const auto cpus = pick_cpus();
  if (!cpus) return Unexpected(cpus.error());
  report.cpus = *cpus;
  if (options.peers) report.skipped = absent_peers();
  const Bytes largest = *std::max_element(options.sizes.begin(), options.sizes.end());
  const auto fits = check_memory(largest, kinds, report.machine.memory_free_bytes);
  if (!fits) return Unexpected(fits.error());
  const Plan plan{
      .rounds = options.rounds, .cpus = report.cpus, .interrupt_descriptor = interrupt_descriptor};
  Progress progress(stderr, "bench ipc", options.sizes.size() * options.rounds);
  for (const Bytes bytes : options.sizes) {
    const auto scratch = ScratchDirectory::create();
    if (!scratch) return Unexpected(scratch.error());
    const Case size{format_size(bytes), bytes, scratch->path()};
    const auto ran = run_case(size, kinds, plan, progress, report.rows);
    if (!ran) return Unexpected(ran.error());
  }
  return report;
}

/// "gantry/sync at 64 B: 1.52x limit/cache-line-ping-pong", when both were measured.
std::string headline(const Report& report, Bytes bytes, std::string_view against) {
  const Row* const ours = report.find(bytes, kSyncName, kLatencyP50);
  const Row* const theirs = report.find(bytes, against, kLatencyP50);
  if (ours == nullptr || theirs == nullptr) return {};
  return fmt::format("{} at {}: {:.2f}x the time of {}\n", kSyncName, format_size(bytes),
                     ours->summary.value / theirs->summary.value, against);
}

std::string readable(const Report& report) {
  const std::string headlines =
      headline(report, 64, kPingPongName) + headline(report, Bytes{16} << 20, kShmTwoCopiesName);
  return to_table(report, kSyncName) + (headlines.empty() ? "" : "\n" + headlines);
}

}  // namespace
}  // namespace gantry::bench

int main(int argc, char** argv) {
  using namespace gantry::bench;
  return run_program("ipc", [&]() -> tl::expected<Measurement, int> {
    const auto options = parse_options(argc, argv, manual());
    if (!options) return tl::unexpected<int>(options.error());
    return [options = *options](int interrupt_descriptor) -> gantry::Result<std::string> {
      const auto report = measure(options, interrupt_descriptor);
      if (!report) return Unexpected(report.error());
      return options.json ? to_json(*report) : readable(*report);
    };
  });
}
