#include "options.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <span>
#include <sstream>

#include "sizes.hpp"
#include "tools/command_line/unknown_option.hpp"

namespace gantry::bench {
namespace {

constexpr unsigned kMostRounds = 1000;

int wrong_usage(const std::string& bench, std::string_view problem, std::string_view hint) {
  complain(bench, fmt::format("{}; {}", problem, hint));
  return kWrongUsage;
}

/// Prints the help; returns the status to exit with.
int show_help(const CLI::App& app, const CLI::CallForHelp& help, const std::string& bench) {
  std::ostringstream text;
  const int status = app.exit(help, text, text);
  const std::string shown = text.str();
  const auto written = write_all(STDOUT_FILENO, std::as_bytes(std::span(shown)));
  if (written) return status;
  complain(bench, "standard output: " + to_string(written.error()));
  return kFailed;
}

/// The sizes where none are given.
const std::string& default_sizes(const Manual& manual, const Options& options, bool quick) {
  if (quick) return manual.quick_sizes;
  if (options.peers_full && !manual.full_sizes.empty()) return manual.full_sizes;
  return options.peers && !manual.peer_sizes.empty() ? manual.peer_sizes : manual.sizes;
}

/// Hands every own option its text, given or not. 0, or the status to exit with.
int take_own(const std::string& bench, const Manual& manual, const CLI::App& app,
             const std::vector<std::string>& texts, bool quick) {
  for (std::size_t i = 0; i < manual.own.size(); ++i) {
    const OwnOption& option = manual.own[i];
    const bool given = app.count(option.name) > 0;
    const auto taken = option.take(given ? texts[i] : quick ? option.quick_value : option.value);
    if (!taken)
      return wrong_usage(bench, fmt::format("{}: {}", option.name, taken.error().message),
                         taken.error().hint);
  }
  return 0;
}

}  // namespace

tl::expected<Options, int> parse_options(int argc, const char* const* argv,
                                         const std::string& bench, const Manual& manual) {
  const std::string command = fmt::format("gantry bench {}", bench);
  CLI::App app(manual.description, command);
  app.footer(manual.notes);
  std::string sizes;
  unsigned rounds = 0;
  bool quick = false;
  Options options;
  app.add_option("--sizes", sizes,
                 fmt::format("{} sizes (default {})", manual.sized, manual.sizes));
  app.add_option("--rounds", rounds, fmt::format("Rounds (default {})", manual.rounds))
      ->check(CLI::Range(1u, kMostRounds));
  app.add_flag("--quick", quick,
               fmt::format("{} rounds of {}", manual.quick_rounds, manual.quick_sizes));
  std::string how;
  const CLI::Option* const peers =
      manual.has_peers
          ? app.add_option("--peers", how,
                           "Compare with other systems too, those installed; full: all sizes")
                ->expected(0, 1)
                ->check(CLI::IsMember({"", "full"}))
          : nullptr;
  std::vector<std::string> texts(manual.own.size());
  for (std::size_t i = 0; i < texts.size(); ++i)
    app.add_option(manual.own[i].name, texts[i],
                   manual.own[i].value.empty()
                       ? manual.own[i].help
                       : fmt::format("{} (default {})", manual.own[i].help, manual.own[i].value));
  for (const OwnFlag& flag : manual.flags) app.add_flag(flag.name, *flag.given, flag.help);
  app.add_option("--plot", options.plot, "An SVG file to draw the figures into");
  app.add_flag("--judge", options.judge, "End with 1 if a figure misses what is wanted of it");
  app.add_flag("--json", options.json, "One JSON document on standard output");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    return tl::unexpected<int>(show_help(app, help, bench));
  } catch (const CLI::ParseError& wrong) {
    const auto [option, near] = cli::unknown_option(app, app);
    return tl::unexpected<int>(
        wrong_usage(bench, option.empty() ? wrong.what() : option + ": there is no such option",
                    near.empty() ? fmt::format("see {} --help", command) : near));
  }
  options.bench = bench;
  options.peers = peers != nullptr && peers->count() > 0;
  options.peers_full = how == "full";
  const bool sizes_given = app.count("--sizes") > 0;
  const auto parsed = parse_sizes(sizes_given ? sizes : default_sizes(manual, options, quick));
  if (!parsed) {
    return tl::unexpected<int>(
        wrong_usage(bench, "--sizes: " + parsed.error().message, parsed.error().hint));
  }
  options.sizes = *parsed;
  if (const int status = take_own(bench, manual, app, texts, quick); status != 0)
    return tl::unexpected<int>(status);
  if (const auto fine = manual.check ? manual.check() : Result<void>(); !fine)
    return tl::unexpected<int>(wrong_usage(bench, fine.error().message, fine.error().hint));
  options.rounds = rounds > 0 ? rounds : quick ? manual.quick_rounds : manual.rounds;
  return options;
}

void complain(std::string_view name, std::string_view problem) {
  std::fputs(fmt::format("gantry: bench {}: {}\n", name, problem).c_str(), stderr);
}

}  // namespace gantry::bench
