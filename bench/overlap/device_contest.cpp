#include "device_contest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "../support/report/findings.hpp"
#include "../support/run/rounds.hpp"
#include "device_product.hpp"

namespace gantry::bench {
namespace {

constexpr std::array kPieces = {8, 64};
constexpr std::array kStreamed = {2, 4, 8, 16, 32};
constexpr std::array kPlanned = {16};
constexpr std::array kNeighbours = {Neighbour::none, Neighbour::copy_in, Neighbour::copy_out,
                                    Neighbour::both_copies, Neighbour::kernel_copy};
constexpr int kRunsOfTurn = 5;
constexpr std::string_view kWhole = "whole";
constexpr std::string_view kSerialOfDevice = "serial";
constexpr std::string_view kOnlyProduct = "limit/product-alone";
constexpr std::string_view kOnlyTransfer = "limit/transfer-alone";
constexpr std::string_view kIdealOfDevice = "limit/ideal";
constexpr std::string_view kCopyRate = "copy_rate";

/// The median of some runs.
Result<double> median_of(const std::function<Result<double>()>& run) {
  std::array<double, kRunsOfTurn> all{};
  for (double& one : all) {
    auto ns = run();
    if (!ns) return ns;
    one = *ns;
  }
  std::ranges::nth_element(all, all.begin() + kRunsOfTurn / 2);
  return all[kRunsOfTurn / 2];
}

Entrant entrant_of(std::string name, std::function<Result<double>()> run) {
  return {std::move(name), [run = std::move(run)](Series& series) -> Result<void> {
            const auto ns = median_of(run);
            if (!ns) return Unexpected(ns.error());
            series.add(kLatencyP50, "ns", *ns);
            return {};
          }};
}

/// All cases of one device and type.
class DeviceContest {
 public:
  DeviceContest(const Settings& settings, DeviceProduct& product, std::string name, Report& report,
                int interrupt_descriptor)
      : settings_(settings),
        product_(product),
        name_(std::move(name)),
        report_(report),
        interrupt_descriptor_(interrupt_descriptor) {}

  Result<void> in_pieces(cli::Progress& progress) {
    Rounds rounds = rounds_of("pieces");
    rounds.entrants.push_back(
        entrant_of(std::string(kWhole), [this] { return product_.in_rows(1); }));
    for (const int pieces : kPieces) {
      rounds.entrants.push_back(entrant_of(fmt::format("rows/{}", pieces),
                                           [this, pieces] { return product_.in_rows(pieces); }));
      rounds.entrants.push_back(entrant_of(fmt::format("depth/{}", pieces),
                                           [this, pieces] { return product_.in_depth(pieces); }));
    }
    return run_rounds(rounds, progress, report_);
  }

  Result<void> beside(cli::Progress& progress) {
    Rounds rounds = rounds_of("beside");
    for (const Neighbour neighbour : kNeighbours)
      rounds.entrants.push_back(
          {std::string(name_of(neighbour)), [this, neighbour](Series& series) -> Result<void> {
             const auto figures = product_.beside(neighbour);
             if (!figures) return Unexpected(figures.error());
             series.add(kLatencyP50, "ns", figures->product_ns);
             if (neighbour != Neighbour::none)
               series.add(kCopyRate, "GB/s", figures->copied_per_ns);
             return {};
           }});
    return run_rounds(rounds, progress, report_);
  }

  Result<void> streamed(cli::Progress& progress) {
    Rounds rounds = rounds_of("streamed");
    rounds.entrants.push_back(
        entrant_of(std::string(kSerialOfDevice), [this] { return product_.streamed(1); }));
    for (const int pieces : kStreamed)
      rounds.entrants.push_back(entrant_of(fmt::format("pieces/{}", pieces),
                                           [this, pieces] { return product_.streamed(pieces); }));
    for (const int pieces : kPlanned)
      rounds.entrants.push_back(entrant_of(fmt::format("plan/{}", pieces),
                                           [this, pieces] { return product_.planned(pieces); }));
    rounds.entrants.push_back(
        entrant_of(std::string(kOnlyProduct), [this] { return product_.in_rows(1); }));
    rounds.entrants.push_back(
        entrant_of(std::string(kOnlyTransfer), [this] { return product_.transfer_alone(); }));
    if (auto ran = run_rounds(rounds, progress, report_); !ran) return ran;
    const Row* const product = report_.find(rounds.name, kOnlyProduct, kLatencyP50);
    const Row* const transfer = report_.find(rounds.name, kOnlyTransfer, kLatencyP50);
    if (product == nullptr || transfer == nullptr) return {};
    Row ideal = product->summary.value > transfer->summary.value ? *product : *transfer;
    ideal.subject = kIdealOfDevice;
    report_.rows.push_back(std::move(ideal));
    return {};
  }

 private:
  [[nodiscard]] Rounds rounds_of(std::string_view which) {
    Rounds rounds{.name = fmt::format("{} {}", name_, which),
                  .count = settings_.common.rounds,
                  .interrupt_descriptor = interrupt_descriptor_};
    rounds.failed = [this, name = rounds.name](std::size_t, const Error& error) {
      return skip_unless(true, report_, name, name, error);
    };
    return rounds;
  }

  const Settings& settings_;
  DeviceProduct& product_;
  const std::string name_;
  Report& report_;
  const int interrupt_descriptor_;
};

Result<void> measure_type(const Settings& settings, const std::shared_ptr<Device>& device,
                          const std::string& type, cli::Progress& progress,
                          int interrupt_descriptor, Report& report) {
  const auto& [m, n, k] = std::tie(settings.op.m, settings.op.n, settings.op.k);
  const std::string name = fmt::format("{} {} {}x{}x{}", device->facts().name, type, m, n, k);
  auto product = DeviceProduct::make(device, type, m, n, k);
  if (!product)
    return skip_unless(product.error().code == Code::system, report, name, name, product.error());
  const GemmFacts& facts = (*product)->facts();
  report.chosen.push_back(
      {"", name, fmt::format("{} {} on {}", facts.library, facts.version, device->facts().about)});
  DeviceContest contest(settings, **product, name, report, interrupt_descriptor);
  for (const auto which :
       {&DeviceContest::in_pieces, &DeviceContest::beside, &DeviceContest::streamed})
    if (auto done = (contest.*which)(progress); !done) return done;
  return {};
}

}  // namespace

Result<void> measure_devices(const Settings& settings, int interrupt_descriptor, Report& report) {
  auto runtime = Runtime::create();
  if (!runtime) return Unexpected(runtime.error());
  cli::Progress progress("bench overlap", settings.devices.size() * settings.types.size() * 3 *
                                              settings.common.rounds);
  for (const std::string& name : settings.devices) {
    const auto device = runtime->open_device(name);
    if (!device) {
      report.skipped.push_back({name, to_string(device.error())});
      continue;
    }
    for (const std::string& type : settings.types)
      if (auto done = measure_type(settings, *device, type, progress, interrupt_descriptor, report);
          !done)
        return done;
  }
  add_device_findings(report);
  return {};
}

std::string reference_on_device(const std::string& case_name) {
  if (case_name.ends_with(" pieces")) return std::string(kWhole);
  return std::string(case_name.ends_with(" beside") ? name_of(Neighbour::none) : kSerialOfDevice);
}

void add_device_findings(Report& report) {
  Ratios ratios(report);
  for (const std::string& name : cases_with(report, "")) {
    if (name.ends_with(" pieces"))
      for (const int pieces : kPieces)
        for (const char* const by : {"rows", "depth"})
          ratios.in_case(name, fmt::format("{}/{}", by, pieces), kWhole, Bar::none());
    if (name.ends_with(" beside"))
      for (const Neighbour neighbour : kNeighbours)
        if (neighbour != Neighbour::none)
          ratios.in_case(name, name_of(neighbour), name_of(Neighbour::none), Bar::none());
    if (!name.ends_with(" streamed")) continue;
    const Row* best = nullptr;
    for (const Row& row : report.rows)
      if (row.case_name == name && row.metric == kLatencyP50 &&
          row.subject.starts_with("pieces/") &&
          (best == nullptr || row.summary.value < best->summary.value))
        best = &row;
    if (best == nullptr) continue;
    const std::string subject = best->subject;
    ratios.in_case(name, kSerialOfDevice, subject, Bar::none());
    ratios.in_case(name, kIdealOfDevice, subject, Bar::at_least(0.72));
    for (const int pieces : kPlanned)
      ratios.in_case(name, fmt::format("plan/{}", pieces), fmt::format("pieces/{}", pieces),
                     Bar::at_most(1.03));
  }
}

}  // namespace gantry::bench
