#include "settings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "../support/program/choices.hpp"
#include "../support/system/numbers.hpp"

namespace gantry::bench {
namespace {

constexpr unsigned kMostRanks = 16;
constexpr std::int64_t kMostSide = 1 << 16;

Result<std::vector<Topology>> parse_topologies(const std::string& text) {
  const auto words = chosen(text, "topology", {"mesh", "switch"});
  if (!words) return Unexpected(words.error());
  std::vector<Topology> topologies;
  for (const std::string& word : *words)
    topologies.push_back(word == "mesh" ? Topology::mesh : Topology::switched);
  return topologies;
}

/// Words that name values of an enumeration, from its first one to `last`.
template <class Enum>
Result<std::vector<Enum>> parse_values(const std::string& text, std::string_view what, Enum last,
                                       std::string_view (*name)(Enum)) {
  std::vector<std::string> known;
  for (int value = 0; value <= static_cast<int>(last); ++value)
    known.emplace_back(name(static_cast<Enum>(value)));
  const auto words = chosen(text, what, known);
  if (!words) return Unexpected(words.error());
  std::vector<Enum> values;
  for (const std::string& word : *words)
    values.push_back(static_cast<Enum>(std::ranges::find(known, word) - known.begin()));
  return values;
}

Result<std::vector<RankPath>> parse_paths(const std::string& text) {
  return parse_values<RankPath>(text, "path", RankPath::veth,
                                [](RankPath path) { return name_of(path); });
}

Result<std::vector<CollectiveKind>> parse_collectives(const std::string& text) {
  return parse_values<CollectiveKind>(text, "collective", CollectiveKind::broadcast,
                                      [](CollectiveKind kind) { return to_string(kind); });
}

Result<std::vector<std::string>> parse_cases(const std::string& text) {
  return chosen(text, "case", {"schedules", "simulated", "collectives", "executor", "devices"});
}

Result<std::vector<std::string>> parse_devices(const std::string& text) {
  return words_of(text);
}

Result<std::vector<std::string>> parse_types(const std::string& text) {
  return chosen(text, "type", {"f32", "bf16"});
}

Result<std::vector<double>> parse_ratios(const std::string& text) {
  std::vector<double> ratios;
  for (const std::string& word : words_of(text)) {
    double value = 0;
    const char* const end = word.data() + word.size();
    const auto [at, error] = std::from_chars(word.data(), end, value);
    if (error != std::errc{} || at != end || !(value >= 0.01 && value <= 100))
      return Unexpected({Code::invalid_argument, fmt::format("'{}' is no ratio", word),
                         "from 0.01 to 100: 0.25,1"});
    ratios.push_back(value);
  }
  return ratios;
}

Result<unsigned> parse_ranks(const std::string& text) {
  const auto ranks = number_of<unsigned>(text);
  if (ranks && *ranks >= 2 && *ranks <= kMostRanks) return *ranks;
  return Unexpected({Code::invalid_argument, fmt::format("'{}' ranks", text),
                     fmt::format("2 to {}", kMostRanks)});
}

/// Sides of the product, "2048x2048x2560".
struct Sides {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
};
Result<Sides> parse_sides(const std::string& text) {
  std::vector<std::int64_t> sides;
  for (std::size_t first = 0; first <= text.size();) {
    const std::size_t end = std::min(text.find('x', first), text.size());
    const auto side = number_of<std::int64_t>(text.substr(first, end - first));
    if (!side || *side < 1 || *side > kMostSide) break;
    sides.push_back(*side);
    first = end + 1;
  }
  if (sides.size() == 3 && std::count(text.begin(), text.end(), 'x') == 2)
    return Sides{sides[0], sides[1], sides[2]};
  return Unexpected({Code::invalid_argument, fmt::format("'{}' is no M x N x K", text),
                     fmt::format("three sides from 1 to {}: 1024x4096x1024", kMostSide)});
}

}  // namespace

std::string_view name_of(Topology topology) noexcept {
  return topology == Topology::mesh ? "mesh" : "switch";
}

Manual manual(Settings& settings) {
  const auto take = [](auto parse, auto put) {
    return [parse, put](const std::string& text) -> Result<void> {
      auto parsed = parse(text);
      if (!parsed) return Unexpected(parsed.error());
      put(*parsed);
      return {};
    };
  };
  return {
      .description =
          "Times a sharded product over ranks in network namespaces, whose links are rated so that "
          "communication takes as much of the product's time as is asked for: every way of "
          "overlapping the two, next to doing one after the other, and to the longer of them "
          "alone.",
      .notes =
          "Schedules and veth need root and iproute2. Elements are whole numbers of f32; every "
          "result "
          "is compared.\n"
          "Collectives are run by 2 and 4 ranks, with --peers next to Open MPI's.\n"
          "All subjects have one library for products, and all ranks share this machine's CPUs.\n\n"
          "Example: gantry bench overlap --quick\n"
          "Example: gantry bench overlap --cases collectives --peers --paths shared\n"
          "Example: gantry bench overlap --ranks 2 --topologies mesh --ratios 1 --all --json",
      .sizes = "1K,64K,1M,16M,64M",
      .quick_sizes = "64K,4M",
      .rounds = 5,
      .quick_rounds = 3,
      .sized = "A collective's tensor",
      .has_peers = true,
      .own = {option_into(settings.cases, "--cases",
                          "Of schedules, simulated, collectives, executor, devices", "schedules",
                          "schedules", parse_cases),
              option_into(settings.paths, "--paths", "Of collectives: shared, loopback, veth",
                          "all", "shared", parse_paths),
              option_into(settings.collectives, "--collectives", "Of collectives: which", "all",
                          "all", parse_collectives),
              option_into(settings.devices, "--devices", "Of devices: names for open_device()",
                          "cuda", "cuda", parse_devices),
              option_into(settings.types, "--types", "Of devices: f32, bf16", "all", "all",
                          parse_types),
              option_into(settings.topologies, "--topologies", "Of mesh, switch", "all", "all",
                          parse_topologies),
              option_into(settings.ratios, "--ratios", "Communication's time to the product's",
                          "0.25,0.5,1,2", "0.5,1", parse_ratios),
              {"--ranks", "Ranks", "4", "4",
               take(parse_ranks, [&settings](unsigned ranks) { settings.op.ranks = ranks; })},
              {"--operator", "all-gather-gemm, gemm-reduce-scatter or all-to-all-gemm",
               "all-gather-gemm", "all-gather-gemm",
               take(parse_overlap_kind,
                    [&settings](OverlapKind kind) { settings.op.kind = kind; })},
              {"--sides", "M x N x K of the whole product", "2048x2048x2048", "1024x2048x1024",
               take(parse_sides,
                    [&settings](const Sides& sides) {
                      settings.op.m = sides.m;
                      settings.op.n = sides.n;
                      settings.op.k = sides.k;
                    })}},
      .flags = {{"--all", "Every schedule of the space", &settings.all}}};
}

}  // namespace gantry::bench
