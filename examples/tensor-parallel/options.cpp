#include "options.hpp"

#include <CLI/CLI.hpp>
#include <array>
#include <charconv>
#include <map>

#include "errors.hpp"

namespace tensor_parallel {
namespace {

using gantry::Code;
using gantry::Result;

constexpr std::int64_t kLongestSide = 1 << 20;
constexpr std::int64_t kMostElements = 1 << 28;  // of a matrix: 1 GiB
constexpr unsigned kMostTurns = 10'000;

/// "256x1024x4096"
Result<Sides> parse_sides(const std::string& text) {
  std::array<std::int64_t, 3> sides{};
  const char* at = text.data();
  const char* const end = at + text.size();
  for (std::size_t i = 0; i < sides.size(); ++i) {
    const auto [stopped, error] = std::from_chars(at, end, sides[i]);
    const bool goes_on = i + 1 < sides.size();
    const bool is_followed = goes_on ? stopped != end && *stopped == 'x' : stopped == end;
    if (error != std::errc{} || !is_followed || sides[i] < 1 || sides[i] > kLongestSide)
      return fail(Code::invalid_argument, "--sides: '" + text +
                                              "' is not ROWSxHIDDENxINNER, each from 1 to " +
                                              std::to_string(kLongestSide));
    at = stopped + (goes_on ? 1 : 0);
  }
  const auto [rows, hidden, inner] = sides;
  if (std::max({rows * hidden, hidden * inner, rows * inner}) > kMostElements)
    return fail(Code::too_large,
                "--sides: '" + text + "' makes a matrix of more than 2^28 elements (1 GiB)");
  return Sides{rows, hidden, inner};
}

/// Without --rank it is the one as which `gantry run` started this process.
Result<gantry::GroupOptions> group_of(const CLI::App& app, gantry::GroupOptions given) {
  if (app.count("--rank") == 0) {
    for (const char* other : {"--ranks", "--name", "--addresses"})
      if (app.count(other) > 0)
        return fail(Code::invalid_argument, std::string(other) + ": stands without --rank");
    return gantry::GroupOptions::of_launcher();
  }
  if (!given.addresses.empty()) {
    const auto count = static_cast<unsigned>(given.addresses.size());
    if (app.count("--ranks") > 0 && given.ranks != count)
      return fail(Code::invalid_argument, "--addresses: " + std::to_string(count) + " for " +
                                              std::to_string(given.ranks) +
                                              " ranks; one for each, in their order");
    given.ranks = count;
  }
  if (given.rank >= given.ranks)
    return fail(Code::invalid_argument, "--rank: there are " + std::to_string(given.ranks) +
                                            " ranks, and they are counted from 0");
  given.join_timeout = std::chrono::seconds(30);
  return given;
}

struct Words {
  std::string sides = "256x1024x4096";
  std::string schedule = "auto";
  std::string activation = "relu";
};

void describe(CLI::App& app, Options& options, Words& words) {
  app.add_option("--rank", options.group.rank,
                 "be this one, from 0; without it the one as which gantry run started this");
  app.add_option("--ranks", options.group.ranks, "how many processes share the layers")
      ->check(CLI::Range(1u, gantry::kMostGroupRanks))
      ->capture_default_str();
  app.add_option("--name", options.group.name, "the group's, the same at all ranks of a machine")
      ->capture_default_str();
  app.add_option("--addresses", options.group.addresses,
                 "HOST:PORT of each rank, with commas between; the token is in the file that "
                 "$GANTRY_TOKEN_FILE names")
      ->delimiter(',');
  app.add_option("--sides", words.sides, "ROWSxHIDDENxINNER")->capture_default_str();
  app.add_option("--schedule", words.schedule, "auto: chosen, beside serial; serial: that alone")
      ->check(CLI::IsMember({"auto", "serial"}))
      ->capture_default_str();
  app.add_option("--activation", words.activation, "between the layers")
      ->check(CLI::IsMember({"relu", "gelu"}))
      ->capture_default_str();
  app.add_option("--turns", options.turns, "how often each schedule is timed")
      ->check(CLI::Range(1u, kMostTurns))
      ->capture_default_str();
}

int misused(const gantry::Error& error) {
  complain(error);
  return kMisused;
}

}  // namespace

std::variant<Options, int> parse_options(int argc, const char* const* argv) {
  CLI::App app(
      "Two layers of a transformer's MLP, activation(X W1) W2, over several ranks: the first one\n"
      "column-parallel, the second one row-parallel. The result is compared with one rank's own.",
      "tensor_parallel");
  Options options;
  options.group.ranks = 2;
  options.group.name = "tensor-parallel";
  Words words;
  describe(app, options, words);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    return misused({Code::invalid_argument, error.what(), ""});
  }
  options.chooses = words.schedule == "auto";
  options.activation = words.activation == "relu" ? Activation::relu : Activation::gelu;
  const auto sides = parse_sides(words.sides);
  if (!sides) return misused(sides.error());
  options.sides = *sides;
  auto group = group_of(app, options.group);
  if (!group) return misused(group.error());
  options.group = std::move(*group);
  return options;
}

}  // namespace tensor_parallel
