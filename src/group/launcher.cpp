// What `gantry run` told this process of its group. The name is looked up in $GANTRY_DIR, which is
// the run's own: two runs of a file do not meet.
#include <charconv>
#include <cstdlib>

#include "base/result.hpp"
#include "group/group.hpp"

namespace gantry {
namespace {

constexpr std::uint64_t kLongestPatienceMs = 86'400'000;  // a day

Result<std::uint64_t> number_of(const char* variable, std::uint64_t least, std::uint64_t most) {
  const char* const set = std::getenv(variable);
  const std::string_view text = set == nullptr ? "" : set;
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() && value >= least && value <= most)
    return value;
  constexpr std::size_t kShown = 20;  // it may be anything, of any length
  return fail(Code::invalid_argument,
              fmt::format("{}: '{}' is no number from {} to {}", variable, text.substr(0, kShown),
                          least, most),
              "only `gantry run` sets it: do not change it");
}

}  // namespace

Result<GroupOptions> GroupOptions::of_launcher() {
  const char* const name = std::getenv(kGroupVariable);
  if (name == nullptr)
    return fail(Code::not_found,
                "group of the launcher: `gantry run` did not start this program as a rank",
                "give its stage in the pipeline file a number of ranks, or name rank, ranks and "
                "the group in GroupOptions");
  GroupOptions options;
  options.name = name;
  GANTRY_ASSIGN(const std::uint64_t ranks, number_of(kRanksVariable, 1, kMostGroupRanks));
  GANTRY_ASSIGN(const std::uint64_t rank, number_of(kRankVariable, 0, ranks - 1));
  GANTRY_ASSIGN(const std::uint64_t patience,
                number_of(kJoinWithinVariable, 1, kLongestPatienceMs));
  options.ranks = static_cast<unsigned>(ranks);
  options.rank = static_cast<unsigned>(rank);
  options.join_timeout = std::chrono::milliseconds(patience);
  return options;
}

}  // namespace gantry
