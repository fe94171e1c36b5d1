#include "settings.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "../support/program/choices.hpp"
#include "../support/system/numbers.hpp"

namespace gantry::bench {
namespace {

constexpr long kMostSeconds = 600;

Result<std::chrono::seconds> parse_seconds(const std::string& text) {
  const long number = number_of<long>(text).value_or(0);
  if (number > 0 && number <= kMostSeconds) return std::chrono::seconds(number);
  return Unexpected({Code::invalid_argument, fmt::format("'{}': not a number of seconds", text),
                     fmt::format("write a number from 1 to {}", kMostSeconds)});
}

}  // namespace

Manual manual(Settings& settings) {
  const std::vector<std::string> parts(kParts.begin(), kParts.end());
  return {
      .description =
          "Times moves by each engine and by the policy that picks one, beside memcpy: waited for "
          "and queued, what they cost their caller, how a wait is spent, how a small move fares "
          "beside a large one, what the reader pays afterwards, and conversions on the way.",
      .notes =
          "All subjects of a case take turns between the same two buffers. There are no --peers:\n"
          "memcpy is always there, and so are oneDNN and OpenCV where they were built. Parts with "
          "sizes of their own\n"
          "leave out those above the largest of --sizes.\n\n"
          "Example: gantry bench engine --parts copy,queued --sizes 64,64K,256M --json > copy.json",
      .sizes =
          "64,128,256,512,1K,2K,4K,8K,16K,32K,64K,128K,256K,512K,1M,2M,4M,8M,16M,32M,64M,128M,"
          "256M,512M,1G",
      .quick_sizes = "64,4K,64K,1M,16M",
      .rounds = 7,
      .quick_rounds = 3,
      .sized = "Move",
      .own = {choice_into(settings.parts, "--parts", "part", parts),
              option_into(settings.idle_time, "--seconds", "How long idle engines are watched", "5",
                          "1", parse_seconds)},
      .flags = {{"--instructions",
                 "Instead of all that: the calling thread's instructions a move, by callgrind",
                 &settings.counts_instructions}}};
}

bool Settings::has_part(std::string_view part) const noexcept {
  return std::find(parts.begin(), parts.end(), part) != parts.end();
}

Bytes Settings::largest() const noexcept {
  return *std::max_element(common.sizes.begin(), common.sizes.end());
}

std::vector<Bytes> Settings::own_sizes(std::span<const Bytes> wanted) const {
  std::vector<Bytes> sizes;
  std::copy_if(wanted.begin(), wanted.end(), std::back_inserter(sizes),
               [most = largest()](Bytes bytes) { return bytes <= most; });
  if (sizes.empty()) sizes.push_back(largest());
  return sizes;
}

}  // namespace gantry::bench
