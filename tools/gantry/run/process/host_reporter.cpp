#include "run/process/host_reporter.hpp"

#include <gantry/runtime.hpp>

namespace gantry::run {

using ReportKind = HostRecord::Kind;

void HostReporter::say(const HostRecord& record) {
  Console::line(encode_record(record));
}

void HostReporter::line(std::string_view text) {
  say({.kind = ReportKind::note, .text = std::string(text)});
}

void HostReporter::stage_line(ProcessId process, std::string_view, bool errors,
                              std::string_view text) {
  say({.kind = errors ? ReportKind::err : ReportKind::out,
       .text = std::string(text),
       .process = process});
}

void HostReporter::hello() {
  say({.kind = ReportKind::hello, .text = std::string(version())});
  flush();
}

void HostReporter::ready(unsigned port) {
  say({.kind = ReportKind::ready, .port = port});
  flush();
}

void HostReporter::error(const Error& error) {
  say({.kind = ReportKind::error, .text = error.message, .hint = error.hint});
  flush();
}

void HostReporter::failed(ProcessId process, const Failure& failure) {
  has_told_failure_ = true;
  say({.kind = ReportKind::failed,
       .text = failure.why,
       .hint = failure.hint,
       .process = process,
       .flag = failure.by_signal});
}

void HostReporter::ended(const StageProcess& process, const Usage& usage) {
  say({.kind = ReportKind::ended,
       .process = process.id(),
       .flag = process.ended_by_itself(),
       .exit = process.exit(),
       .usage = usage});
}

void HostReporter::counters(const Plan& plan) {
  const std::vector<Link>& links = plan.links();
  for (std::size_t link = 0; link < links.size(); ++link) {
    for (const bool sender : {true, false}) {
      const Counters& counters = sender ? links[link].sender : links[link].receiver;
      const MetricsReport report = counters.report();
      if (!report.opened || !plan.is_here(sender ? links[link].from : links[link].to)) continue;
      say({.kind = ReportKind::counters, .flag = sender, .link = link, .counters = report});
    }
  }
}

}  // namespace gantry::run
