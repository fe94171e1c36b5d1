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
  ratios.in_case(fixed(kMiB), kRegister, kPoolEager, Bar::said("at least 200 (uring)"));
  ratios.in_case(fixed(64 * kMiB), kRegister, kPoolEager, Bar::said("at least 10000 (uring)"));
  for (const Bytes bytes : sizes)
    ratios.in_case(fixed(bytes), kPoolEager, kMalloc64, Bar::said("at most 3, from 8 KiB"));
  for (const Bytes bytes : sizes)
    ratios.in_case(fixed(bytes), kPoolEager, kLruCache, Bar::at_most(1));
  ratios.in_case(fixed(Bytes{2} << 10), kPoolEager, kMalloc, Bar::at_most(2));
}

void add_scaling_ratios(Ratios& ratios, const Report& report) {
  for (const std::string& name : cases_with(report, "scaling/")) {
    const std::string one = name.substr(0, name.find('/', sizeof "scaling/"));
    if (one == name) continue;
    const bool most = name.ends_with("4 threads");
    for (const std::string_view subject : {kPoolEager, kMalloc})
      ratios.of_cases(name, one, subject,
                      most && subject == kPoolEager ? Bar::said("at least 3 on 4 cores, 1.6 on 2")
                                                    : Bar::none(),
                      kThroughput);
  }
}

}  // namespace

void add_findings(Report& report, const Settings& settings) {
  Ratios ratios(report);
  for (const std::string& registrar : settings.registrars)
    add_block_ratios(ratios, registrar, settings.common.sizes);
  add_scaling_ratios(ratios, report);
  for (const std::string& name : cases_with(report, "touch/"))
    ratios.in_case(name, "gantry/touch-one-thread", "gantry/touch-all-cores",
                   Bar::said("at least 1.6 on 2 cores"));
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
