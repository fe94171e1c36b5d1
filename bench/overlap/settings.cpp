#include "settings.hpp"

#include <fmt/format.h>

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
          "Needs root and iproute2. Elements are whole numbers of f32; every result is compared.\n"
          "All subjects have one library for products, and all ranks share this machine's CPUs.\n\n"
          "Example: gantry bench overlap --quick\n"
          "Example: gantry bench overlap --ranks 2 --topologies mesh --ratios 1 --all --json",
      .sizes = "8",
      .quick_sizes = "8",
      .rounds = 5,
      .quick_rounds = 3,
      .own = {option_into(settings.topologies, "--topologies", "Of mesh, switch", "all", "all",
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
