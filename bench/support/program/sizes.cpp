#include "sizes.hpp"

#include "../system/posix.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <limits>
#include <optional>

namespace gantry::bench {
namespace {

constexpr std::string_view kUnits = "KMG";

Error bad_size(std::string_view text, std::string_view why) {
  return {Code::invalid_argument, fmt::format("size '{}': {}", text, why),
          "write whole numbers of B, K, M or G (powers of 1024), like 64,64K,16M"};
}

/// The power of two a suffix stands for; nothing for one that is not known.
std::optional<unsigned> shift_of(std::string_view suffix) {
  if (suffix.empty() || suffix == "B") return 0;
  const auto unit = kUnits.find(static_cast<char>(std::toupper(suffix.front())));
  if (unit == std::string_view::npos) return std::nullopt;
  const auto rest = suffix.substr(1);
  if (!rest.empty() && rest != "B" && rest != "iB") return std::nullopt;
  return static_cast<unsigned>(10 * (unit + 1));
}

}  // namespace

Result<Bytes> parse_size(std::string_view text) {
  Bytes number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, failed] = std::from_chars(text.data(), end, number);
  if (failed == std::errc::invalid_argument) return Unexpected(bad_size(text, "not a number"));
  if (failed == std::errc::result_out_of_range) return Unexpected(bad_size(text, "too large"));
  const auto shift = shift_of({rest, static_cast<std::size_t>(end - rest)});
  if (!shift) return Unexpected(bad_size(text, "unknown unit"));
  if (number > std::numeric_limits<Bytes>::max() >> *shift) {
    return Unexpected(bad_size(text, "too large"));
  }
  const Bytes size = number << *shift;
  if (size < kSmallestSize) {
    return Unexpected(bad_size(text, fmt::format("below the smallest, {} B", kSmallestSize)));
  }
  return size;
}

Result<std::vector<Bytes>> parse_sizes(std::string_view text) {
  std::vector<Bytes> sizes;
  for (std::size_t begin = 0; begin <= text.size();) {
    const auto comma = std::min(text.find(',', begin), text.size());
    const auto size = parse_size(text.substr(begin, comma - begin));
    if (!size) return Unexpected(size.error());
    if (std::find(sizes.begin(), sizes.end(), *size) == sizes.end()) sizes.push_back(*size);
    begin = comma + 1;
  }
  return sizes;
}

std::string format_size(Bytes size) {
  constexpr std::array kNames = {"B", "KiB", "MiB", "GiB"};
  std::size_t unit = 0;
  while (unit + 1 < kNames.size() && size >= 1024 && size % 1024 == 0) {
    size /= 1024;
    ++unit;
  }
  return fmt::format("{} {}", size, kNames[unit]);
}

std::string lack_of_memory(double needed, Bytes free) {
  constexpr double kUsableShare = 0.9;
  constexpr double kGiB = 1 << 30;
  const auto there = static_cast<double>(free);
  if (needed <= kUsableShare * there) return {};
  return fmt::format("needs {:.1f} GiB of memory, of which {:.1f} are free", needed / kGiB,
                     there / kGiB);
}

Result<std::vector<Bytes>> sizes_that_fit(const std::vector<Bytes>& sizes, Report& report,
                                          const std::function<double(Bytes)>& needed) {
  std::vector<Bytes> fitting;
  for (const Bytes bytes : sizes) {
    const std::string lack = lack_of_memory(needed(bytes), report.machine.memory_free_bytes);
    if (lack.empty())
      fitting.push_back(bytes);
    else
      report.skipped.push_back({format_size(bytes), lack});
  }
  if (!fitting.empty()) return fitting;
  const Skipped& last = report.skipped.back();
  return Unexpected({Code::out_of_memory, fmt::format("{}: {}", last.subject, last.reason),
                     "choose smaller --sizes"});
}

}  // namespace gantry::bench
