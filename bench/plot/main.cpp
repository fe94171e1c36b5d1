// gantry bench plot: draws a report that a benchmark wrote with --json.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <iostream>
#include <sstream>

#include "../support/program/output_file.hpp"
#include "../support/program/plot.hpp"
#include "../support/program/program.hpp"
#include "../support/report/read_report.hpp"
#include "tools/command_line/unknown_option.hpp"

namespace gantry::bench {
namespace {

struct Wanted {
  std::string report;
  std::string picture;
  std::vector<std::string> subjects;  // none: all
  bool only_checks = false;
};

Result<std::string> text_of(const std::string& path) {
  std::ostringstream text;
  if (path == "-") {
    text << std::cin.rdbuf();
    return text.str();
  }
  const std::ifstream file(path);
  if (!file) return Unexpected(system_error(fmt::format("REPORT {}", path)));
  text << file.rdbuf();
  return text.str();
}

Result<void> leave_only(const std::vector<std::string>& subjects, Report& report) {
  for (const std::string& name : subjects)
    if (std::ranges::find(report.rows, name, &Row::subject) == report.rows.end())
      return Unexpected({Code::invalid_argument,
                         fmt::format("--subjects: '{}': the report has no such subject", name),
                         "its member `subject` names those that it has"});
  std::erase_if(report.rows, [&](const Row& row) {
    return !subjects.empty() && std::ranges::find(subjects, row.subject) == subjects.end();
  });
  return {};
}

Result<std::string> draw(const Wanted& wanted) {
  if (auto can = check_picture("PICTURE", wanted.picture); !can) return Unexpected(can.error());
  if (wanted.only_checks) return std::string();
  const auto text = text_of(wanted.report);
  if (!text) return Unexpected(text.error());
  auto read = read_report(*text);
  if (!read) {
    read.error().message = fmt::format("REPORT {}: {}", wanted.report, read.error().message);
    return Unexpected(read.error());
  }
  if (auto left = leave_only(wanted.subjects, read->report); !left) return Unexpected(left.error());
  const std::string svg = plot_svg(read->report);
  if (svg.empty())
    return Unexpected({Code::invalid_argument,
                       fmt::format("REPORT {}: no figure to draw is in it", wanted.report),
                       {}});
  auto written = write_output("PICTURE", wanted.picture, svg);
  return written ? Result<std::string>(std::string()) : Unexpected(written.error());
}

tl::expected<Measurement, int> parse(int argc, const char* const* argv) {
  CLI::App app("Draws a report of a benchmark as SVG: throughput over size, or a dot for each case",
               "gantry bench plot");
  app.footer("Example: gantry bench ipc --json >ipc.json && gantry bench plot ipc.json ipc.svg");
  auto wanted = std::make_shared<Wanted>();
  app.add_option("REPORT", wanted->report, "What --json wrote; -: standard input")
      ->type_name("FILE")
      ->required();
  app.add_option("PICTURE", wanted->picture, "The SVG file to write")
      ->type_name("FILE")
      ->required();
  app.add_option("--subjects", wanted->subjects, "Only these: gantry/sync,ucx")->delimiter(',');
  app.add_flag("--check", wanted->only_checks, "Only say whether PICTURE can be written");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    return tl::unexpected<int>(app.exit(help));
  } catch (const CLI::ParseError& wrong) {
    const auto [option, near] = cli::unknown_option(app, app);
    complain(
        "plot",
        fmt::format("{}; {}", option.empty() ? wrong.what() : option + ": there is no such option",
                    near.empty() ? "see gantry bench plot --help" : near));
    return tl::unexpected<int>(kWrongUsage);
  }
  return [wanted](int) -> Result<Measured> {
    auto drawn = draw(*wanted);
    return drawn ? Result<Measured>(Measured{*std::move(drawn)}) : Unexpected(drawn.error());
  };
}

}  // namespace
}  // namespace gantry::bench

int main(int argc, char** argv) {
  return gantry::bench::run_program("plot", [&] { return gantry::bench::parse(argc, argv); });
}
