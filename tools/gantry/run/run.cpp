#include <fmt/format.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "agent.hpp"
#include "commands.hpp"
#include "errors.hpp"
#include "options.hpp"
#include "output.hpp"
#include "run/file/pipeline_file.hpp"
#include "run/process/programs.hpp"
#include "run/process/rank_hosts.hpp"
#include "run/process/ranks.hpp"
#include "run/process/run_directory.hpp"
#include "run/report/compare.hpp"
#include "run_once.hpp"
#include "tools/command_line/json_text.hpp"
#include "tools/command_line/output_file.hpp"
#include "trace/session.hpp"

namespace gantry::run {
namespace {

constexpr int kJsonIndent = 2;

struct Arguments {
  std::string file;
  std::vector<Setting> overrides;
  Transport transport = Transport::gantry;
  std::optional<Transport> compare;
  std::chrono::nanoseconds connect_within = std::chrono::seconds(60);
  std::string page;  ///< A file for the report as a page; empty: none.
  bool json = false;
  bool quiet = false;
  TraceWish trace;
  bool trace_is_typed = true;  ///< Else it comes from $GANTRY_TRACE, which suits any run.
};

/// What there is to do, checked as far as it can be before anything starts.
struct Job {
  Pipeline pipeline;
  std::vector<Transport> transports;  ///< One, or two to compare.
  SuperviseOptions options;
  std::string base;  ///< Where run directories are made.
};

// ---- before anything starts ------------------------------------------------------------------

std::vector<Transport> transports(const Arguments& arguments) {
  std::vector<Transport> result{arguments.transport};
  if (arguments.compare) result.push_back(*arguments.compare);
  return result;
}

/// All mistakes of the file are told: all but the last here; the last is the error.
Result<Pipeline> pipeline(const Arguments& arguments) {
  Mistakes mistakes;
  Result<Pipeline> result = read_pipeline(arguments.file, arguments.overrides, mistakes);
  if (!result) return result;
  locate_programs(*result, kThisHost, result->source.folder, mistakes);
  locate_launchers(*result, mistakes);
  const std::vector<Error>& all = mistakes.all();
  if (all.empty()) return result;
  for (std::size_t i = 0; i + 1 < all.size(); ++i) cli::note(to_string(all[i]));
  return tl::unexpected(all.back());
}

/// Only channels reach other hosts.
Result<void> check_hosts(const Job& job) {
  if (!has_hosts(job.pipeline)) return {};
  for (const Transport transport : job.transports)
    if (transport != Transport::gantry)
      return tl::unexpected(Error{Code::unsupported,
                                  fmt::format("{}: stages on other hosts, which {} does not reach",
                                              job.pipeline.source.path, to_string(transport)),
                                  "use --transport gantry without --compare"});
  return {};
}

/// Only channels convert.
Result<void> check_conversions(const Job& job) {
  for (const Transport transport : job.transports)
    for (const Channel& channel : job.pipeline.channels)
      if (transport != Transport::gantry && !channel.as.empty())
        return tl::unexpected(job.pipeline.source.error(
            channel.as_at, fmt::format("channels.{}.as", channel.name),
            fmt::format("over {} messages arrive as they were sent", to_string(transport)),
            "use --transport gantry without --compare"));
  return {};
}

/// So that nobody learns it after a long run.
Result<void> check_outputs(const Arguments& arguments) {
  if (auto fine =
          cli::check_different({"pipeline file", arguments.file},
                               {{"--report", arguments.page}, {"--trace", arguments.trace.file}});
      !fine)
    return fine;
  for (const std::string& path : {arguments.page, arguments.trace.file})
    if (!path.empty())
      if (const auto can = cli::OutputFile::at(path); !can) return tl::unexpected(can.error());
  return {};
}

/// Only channels are traced, and one file holds one run.
Result<void> check_trace(const Arguments& arguments) {
  if (arguments.trace.file.empty() || !arguments.trace_is_typed ||
      (arguments.transport == Transport::gantry && !arguments.compare))
    return {};
  return tl::unexpected(Error{Code::unsupported,
                              "--trace: it records channels of Gantry, in one run",
                              "use --transport gantry without --compare"});
}

Result<Job> prepare(const Arguments& arguments) {
  if (const auto fine = check_trace(arguments); !fine) return tl::unexpected(fine.error());
  Job job;
  if (const auto fine = check_outputs(arguments); !fine) return tl::unexpected(fine.error());
  job.options.connect_within = arguments.connect_within;
  job.options.quiet = arguments.quiet;
  job.transports = transports(arguments);
  auto read = pipeline(arguments);
  if (!read) return tl::unexpected(read.error());
  job.pipeline = std::move(*read);
  if (const auto fine = check_hosts(job); !fine) return tl::unexpected(fine.error());
  if (const auto fine = check_conversions(job); !fine) return tl::unexpected(fine.error());
  auto base = base_directory();
  if (!base) return tl::unexpected(base.error());
  job.base = std::move(*base);
  return job;
}

// ---- running ---------------------------------------------------------------------------------

template <class Report>
Result<void> show(const Report& report, bool json) {
  return cli::print(json ? cli::json_text(to_json(report), kJsonIndent) + "\n" : to_text(report));
}

Result<void> write_page(const std::string& path, const RunReport& report, const Course& course) {
  const auto file = cli::OutputFile::at(path);
  return file ? file->write(to_html(report, course)) : tl::unexpected(file.error());
}

Result<void> conclude(std::vector<RunReport> reports, const Arguments& arguments) {
  Result<void> shown;
  Result<void> accounted;
  for (const RunReport& report : reports)
    if (accounted) accounted = report.check_accounts();
  if (arguments.quiet && !arguments.json) return accounted;
  if (reports.size() == 1) {
    shown = show(reports[0], arguments.json);
  } else {
    shown = show(Comparison{std::move(reports[0]), std::move(reports[1])}, arguments.json);
  }
  return accounted ? shown : accounted;
}

// ---- the command line ------------------------------------------------------------------------

void take_overrides(const std::vector<std::string>& texts, Arguments& arguments) {
  for (const std::string& text : texts) {
    Result<Setting> setting = parse_override(text);
    if (!setting) cli::refuse_word("--set", setting.error().message);
    arguments.overrides.push_back(std::move(*setting));
  }
}

Result<std::optional<Transport>> parse_compared(std::string_view text) {
  return parse_transport(text).map([](Transport transport) { return std::optional(transport); });
}

Result<std::chrono::nanoseconds> parse_patience(std::string_view text) {
  auto time = cli::parse_time(text);
  if (!time || time->count() > 0) return time;
  return tl::unexpected(Error{Code::invalid_argument,
                              fmt::format("'{}': no time; it must be more than 0, as in 60s", text),
                              {}});
}

// ---- all of it -------------------------------------------------------------------------------

/// What the other ranks of `mpirun -n COUNT gantry run FILE` do: they need no file.
Result<void> serve_as_rank(const Arguments& arguments) {
  const Result<bool> is_host = wait_as_rank(arguments.connect_within);
  if (!is_host) return tl::unexpected(is_host.error());
  return *is_host ? run_agent() : Result<void>{};
}

/// One run by each transport, up to one that fails. The first over channels is traced.
Result<std::vector<RunReport>> run_each(const Job& job, TraceWish trace,
                                        const cli::Interrupt& interrupt) {
  std::vector<RunReport> reports;
  for (const Transport transport : job.transports) {
    const TraceWish traced =
        transport == Transport::gantry ? std::exchange(trace, {}) : TraceWish();
    if (!trace.file.empty() && !job.options.quiet)
      cli::note(fmt::format("GANTRY_TRACE: the run over {} is not traced", to_string(transport)));
    auto report = run_once(job.pipeline, transport, job.base, job.options, interrupt, traced);
    if (!report) return tl::unexpected(report.error());
    reports.push_back(std::move(*report));
    if (!reports.back().end) break;
  }
  return reports;
}

Result<void> run(const Arguments& arguments) {
  settle_signals();
  if (auto fine = keep_standard_streams(); !fine) return fine;
  if (own_rank().value_or(0) != 0) return serve_as_rank(arguments);
  Result<Job> job = prepare(arguments);
  const auto met = meet_ranks(job ? &job->pipeline : nullptr);  // the others wait for it
  if (!job) return tl::unexpected(job.error());
  if (!met) return tl::unexpected(met.error());
  const Result<cli::Interrupt> interrupt = cli::Interrupt::create();
  if (!interrupt) return tl::unexpected(interrupt.error());
  sweep_run_directories(job->base, *interrupt);
  Course course;
  if (!arguments.page.empty()) job->options.course = &course;
  auto ran = run_each(*job, arguments.trace, *interrupt);
  if (!ran) return tl::unexpected(ran.error());
  std::vector<RunReport>& reports = *ran;
  Result<void> written;
  if (!arguments.page.empty()) written = write_page(arguments.page, reports[0], course);
  if (!reports.back().end) {
    if (!written) cli::note(written.error().message);
    return reports.back().end;
  }
  const Result<void> concluded = conclude(std::move(reports), arguments);
  return written ? concluded : written;
}

}  // namespace
}  // namespace gantry::run

namespace gantry::cli {

void add_run(const Command& command, int& exit_code) {
  auto arguments = std::make_shared<run::Arguments>();
  command->add_option("FILE", arguments->file, "Pipeline file (TOML)")->required();
  command
      ->add_functions(
          "--set", [arguments](const auto& texts) { run::take_overrides(texts, *arguments); },
          "A setting of the file; may be given several times")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  add_parsed(*command, "--transport", arguments->transport, parse_transport, "gantry|pipe",
             "What carries the messages (gantry)");
  const auto compare = add_parsed(*command, "--compare", arguments->compare, run::parse_compared,
                                  "gantry|pipe", "Run again over this transport, and compare");
  command
      ->add_option("--report", arguments->page,
                   "The report also as an HTML file with the run's course; a server is not needed. "
                   "For a failed run it has the failure, and the known figures")
      ->type_name("FILE")
      ->excludes(compare);
  add_parsed(*command, "--connect-within", arguments->connect_within, run::parse_patience, "TIME",
             "For every stage to open its ends (60 s)");
  command->add_flag("--json", arguments->json, "The report as JSON");
  command->add_flag("--quiet", arguments->quiet,
                    "Neither progress nor a report, except --json and --report");
  command
      ->add_option("--trace", arguments->trace.file,
                   "Record events of this host's stages, for Perfetto (see gantry trace)")
      ->type_name("FILE")
      ->envname("GANTRY_TRACE");
  add_parsed(*command, "--trace-events", arguments->trace.events, &parse_trace_events, "NUMBER",
             "Room of each end in a trace (65536): see gantry trace --events");
  command->footer("Example: gantry run examples/vision/pipeline.toml --compare pipe");
  command->callback([arguments, &exit_code] {
    const char* const variable = std::getenv("GANTRY_TRACE");
    arguments->trace_is_typed = variable == nullptr || arguments->trace.file != variable;
    const Result<void> result = run::run(*arguments);
    exit_code = result ? 0 : fail(result.error());
  });
}

}  // namespace gantry::cli
