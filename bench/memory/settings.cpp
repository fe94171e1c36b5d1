#include "settings.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "../support/program/choices.hpp"
#include "../support/program/sizes.hpp"
#include "../support/system/numbers.hpp"
#include "registrar_list.hpp"

namespace gantry::bench {
namespace {

constexpr unsigned kMostThreads = 64;

Result<std::vector<unsigned>> parse_threads(const std::string& text) {
  std::vector<unsigned> threads;
  for (const std::string& word : words_of(text)) {
    const unsigned number = number_of<unsigned>(word).value_or(0);
    if (number == 0 || number > kMostThreads)
      return Unexpected({Code::invalid_argument, fmt::format("'{}': not a number of threads", word),
                         fmt::format("write numbers from 1 to {}, like 1,2,4", kMostThreads)});
    threads.push_back(number);
  }
  return threads;
}

std::vector<OwnOption> own_options(Settings& settings) {
  const std::vector<std::string> patterns = {std::string(kFixed), std::string(kMany),
                                             std::string(kRandom)};
  const std::vector<std::string> parts = {std::string(kBlocks), std::string(kScaling),
                                          std::string(kTouch), std::string(kTransfers)};
  return {
      option_into(settings.threads, "--threads", "Threads at once", "1,2,4", "1,2", parse_threads),
      choice_into(settings.registrars, "--registrar", "registrar", registrar_names()),
      choice_into(settings.patterns, "--patterns", "pattern", patterns),
      option_into(settings.touch_bytes, "--touch", "Size of the region that is touched", "4G",
                  "64M", parse_size),
      choice_into(settings.parts, "--parts", "part", parts)};
}

}  // namespace

Manual manual(Settings& settings) {
  return {
      .description =
          "Times acquiring and releasing memory that a device knows: from Gantry's pool, from a "
          "registration cache, by registering each time and, unregistered, from malloc. And what "
          "that does to transfers, how it scales, and how fast memory is made.",
      .notes =
          "All subjects of a case take turns, each in a process of its own. One byte of every\n"
          "block is written and its key asked for inside the timed part. There are no --peers:\n"
          "malloc and lru-cache, which this is compared with, are always there. --sizes,\n"
          "--patterns and --threads are of the part blocks; transfers have sizes of their own, "
          "and\n"
          "are of uring and fabric-tcp.\n\n"
          "Example: gantry bench memory --registrar uring --sizes 8K,1M --json > memory.json",
      .sizes = "2K,8K,64K,1M,8M,64M,256M",
      .quick_sizes = "2K,8K,1M",
      .rounds = 7,
      .quick_rounds = 3,
      .sized = "Block",
      .own = own_options(settings)};
}

bool Settings::has_part(std::string_view part) const noexcept {
  return std::find(parts.begin(), parts.end(), part) != parts.end();
}

bool Settings::has_registrar(std::string_view registrar) const noexcept {
  return std::find(registrars.begin(), registrars.end(), registrar) != registrars.end();
}

bool Settings::has_pattern(std::string_view pattern) const noexcept {
  return std::find(patterns.begin(), patterns.end(), pattern) != patterns.end();
}

std::string case_of(std::string_view registrar, std::string_view pattern, unsigned threads) {
  return threads == 1 ? fmt::format("{}/{}", registrar, pattern)
                      : fmt::format("{}/{}/{} threads", registrar, pattern, threads);
}

}  // namespace gantry::bench
