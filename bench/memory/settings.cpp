#include "settings.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "../support/sizes.hpp"
#include "registrar_list.hpp"

namespace gantry::bench {
namespace {

constexpr unsigned kMostThreads = 64;

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin <= text.size();) {
    const auto comma = std::min(text.find(',', begin), text.size());
    const std::string word(text.substr(begin, comma - begin));
    if (std::find(words.begin(), words.end(), word) == words.end()) words.push_back(word);
    begin = comma + 1;
  }
  return words;
}

/// `text`'s words, each one of `known`; "all": those.
Result<std::vector<std::string>> chosen(const std::string& text, std::string_view what,
                                        const std::vector<std::string>& known) {
  if (text == "all") return known;
  auto words = words_of(text);
  for (const std::string& word : words) {
    if (std::find(known.begin(), known.end(), word) != known.end()) continue;
    return Unexpected({Code::invalid_argument, fmt::format("there is no {} '{}'", what, word),
                       fmt::format("there are: {}", fmt::join(known, ", "))});
  }
  return words;
}

Result<std::vector<unsigned>> parse_threads(const std::string& text) {
  std::vector<unsigned> threads;
  for (const std::string& word : words_of(text)) {
    unsigned number = 0;
    const char* const end = word.data() + word.size();
    const auto [rest, failed] = std::from_chars(word.data(), end, number);
    if (failed != std::errc() || rest != end || number == 0 || number > kMostThreads)
      return Unexpected({Code::invalid_argument, fmt::format("'{}': not a number of threads", word),
                         fmt::format("write numbers from 1 to {}, like 1,2,4", kMostThreads)});
    threads.push_back(number);
  }
  return threads;
}

/// An option that puts what `parse` makes of its text into `place`.
template <class Value, class Parse>
OwnOption option(std::string name, std::string help, std::string value, std::string quick_value,
                 Value& place, const Parse& parse) {
  return {std::move(name), std::move(help), std::move(value), std::move(quick_value),
          [&place, parse](const std::string& text) -> Result<void> {
            auto parsed = parse(text);
            if (!parsed) return Unexpected(parsed.error());
            place = std::move(*parsed);
            return {};
          }};
}

std::vector<OwnOption> own_options(Settings& settings) {
  const std::vector<std::string> patterns = {std::string(kFixed), std::string(kMany),
                                             std::string(kRandom)};
  const std::vector<std::string> parts = {std::string(kBlocks), std::string(kScaling),
                                          std::string(kTouch), std::string(kTransfers)};
  return {
      option("--threads", "Threads at once", "1,2,4", "1,2", settings.threads, parse_threads),
      option("--registrar", fmt::format("Of {}", fmt::join(registrar_names(), ", ")), "all", "all",
             settings.registrars,
             [](const std::string& text) { return chosen(text, "registrar", registrar_names()); }),
      option("--patterns", fmt::format("Of {}", fmt::join(patterns, ", ")), "all", "all",
             settings.patterns,
             [patterns](const std::string& text) { return chosen(text, "pattern", patterns); }),
      option("--touch", "Size of the region that is touched", "4G", "64M", settings.touch_bytes,
             parse_size),
      option("--parts", fmt::format("Of {}", fmt::join(parts, ", ")), "all", "all", settings.parts,
             [parts](const std::string& text) { return chosen(text, "part", parts); })};
}

Manual manual(std::vector<OwnOption> own) {
  return {
      .name = "memory",
      .description =
          "Times acquiring and releasing memory that a device knows: from Gantry's pool, from a "
          "registration cache, by registering each time and, unregistered, from malloc. And what "
          "that does to transfers, how it scales, and how fast memory is made.",
      .notes =
          "All subjects of a case take turns, each in a process of its own. One byte of every\n"
          "block is written and its key asked for inside the timed part. There are no --peers:\n"
          "malloc and lru-cache, which this is compared with, are always there.\n\n"
          "Example: gantry bench memory --registrar uring --sizes 8K,1M --json > memory.json",
      .sizes = "2K,8K,64K,1M,8M,64M,256M",
      .quick_sizes = "2K,8K,1M",
      .rounds = 7,
      .quick_rounds = 3,
      .sized = "Block",
      .own = std::move(own)};
}

}  // namespace

bool Settings::has_part(std::string_view part) const noexcept {
  return std::find(parts.begin(), parts.end(), part) != parts.end();
}

bool Settings::has_pattern(std::string_view pattern) const noexcept {
  return std::find(patterns.begin(), patterns.end(), pattern) != patterns.end();
}

tl::expected<Settings, int> parse_settings(int argc, const char* const* argv) {
  Settings settings;
  const auto options = parse_options(argc, argv, manual(own_options(settings)));
  if (!options) return tl::unexpected<int>(options.error());
  settings.common = *options;
  return settings;
}

void complain(std::string_view problem) {
  complain(manual({}), problem);
}

std::string case_of(std::string_view registrar, std::string_view pattern, unsigned threads) {
  return threads == 1 ? fmt::format("{}/{}", registrar, pattern)
                      : fmt::format("{}/{}/{} threads", registrar, pattern, threads);
}

}  // namespace gantry::bench
