// What a person reads: every figure in a table, then the ratios that were asked for.

#include <fmt/format.h>

#include "../support/program/sizes.hpp"
#include "../support/report/findings.hpp"
#include "settings.hpp"
#include "subjects.hpp"
#include "transfer_source.hpp"
#include "transfers.hpp"

namespace gantry::bench {
namespace {

std::string reference_of(const Report& report, const std::string& case_name) {
  for (const std::string_view subject : {kPoolEager, kPoolReuse})
    if (report.find(case_name, subject, kLatencyP50) != nullptr) return std::string(subject);
  return {};
}

void add_block_ratios(Ratios& ratios, const std::string& registrar,
                      const std::vector<Bytes>& sizes) {
  const auto fixed = [&](Bytes bytes) {
    return case_of(registrar, "fixed/" + format_size(bytes), 1);
  };
  constexpr Bytes kMiB = Bytes{1} << 20;
  const bool is_uring = registrar == "uring";
  ratios.in_case(fixed(kMiB), kRegister, kPoolEager, is_uring ? Bar::at_least(200) : Bar::none());
  ratios.in_case(fixed(64 * kMiB), kRegister, kPoolEager,
                 is_uring ? Bar::at_least(10000) : Bar::none());
  for (const Bytes bytes : sizes)
    ratios.in_case(fixed(bytes), kPoolEager, kMalloc64,
                   bytes >= (Bytes{8} << 10) ? Bar::at_most(3) : Bar::none());
  for (const Bytes bytes : sizes)
    ratios.in_case(fixed(bytes), kPoolEager, kLruCache, Bar::at_most(1));
  ratios.in_case(fixed(Bytes{2} << 10), kPoolEager, kMalloc, Bar::at_most(2));
}

/// What `cores` or more have to reach; nothing where there are fewer.
Bar at_cores(std::size_t cores, std::initializer_list<std::pair<std::size_t, double>> bars) {
  for (const auto& [least, figure] : bars)
    if (cores >= least) return Bar::at_least(figure);
  return Bar::none();
}

void add_scaling_ratios(Ratios& ratios, const Report& report, std::size_t cores) {
  for (const std::string& name : cases_with(report, "scaling/")) {
    const std::string one = name.substr(0, name.find('/', sizeof "scaling/"));
    if (one == name) continue;
    const bool most = name.ends_with("4 threads");
    for (const std::string_view subject : {kPoolEager, kMalloc})
      ratios.of_cases(
          name, one, subject,
          most && subject == kPoolEager ? at_cores(cores, {{4, 3}, {2, 1.6}}) : Bar::none(),
          kThroughput);
  }
}

}  // namespace

void add_findings(Report& report, const Settings& settings) {
  Ratios ratios(report);
  for (const std::string& registrar : settings.registrars)
    add_block_ratios(ratios, registrar, settings.common.sizes);
  const std::size_t cores = settings.cpus.size();
  add_scaling_ratios(ratios, report, cores);
  for (const std::string& name : cases_with(report, "touch/"))
    ratios.in_case(name, "gantry/touch-one-thread", "gantry/touch-all-cores",
                   at_cores(cores, {{2, 1.6}}));
  for (const std::string& name : cases_with(report, "transfer/"))
    for (const std::string_view other : {kUnregistered, kRegisterEachTransfer})
      ratios.in_case(name, kPoolReuse, other, Bar::at_most(1));
  // As fast as from one's own block, but for 5 hundredths.
  for (const std::string& name : cases_with(report, "transfer/")) {
    ratios.in_case(name, kOwnBlock, kReceivedMessage, Bar::at_least(0.95));
    ratios.in_case(name, kOwnByAddress, kReceivedMessage, Bar::at_least(0.95));
  }
}

std::string to_text(const Settings&, const Report& report) {
  const auto reference = [&](const std::string& name) { return reference_of(report, name); };
  return machine_line(report) + to_list(report, reference) + skipped_lines(report) +
         findings_text(report);
}

}  // namespace gantry::bench
