#include "output.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <limits>
#include <span>

#include "errors.hpp"

namespace gantry::cli {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

// The largest unit that leaves at least 1, with three digits.
std::string in_units(double value, std::span<const Unit> ascending) {
  const Unit* unit = ascending.data();
  for (const auto& larger : ascending)
    if (value >= larger.factor) unit = &larger;
  const double shown = value / unit->factor;
  return fmt::format("{:.{}f} {}", shown, shown < 9.995 ? 2 : shown < 99.95 ? 1 : 0, unit->name);
}

// "2.00 s" says no more than "2 s".
std::string without_zeros(std::string text) {
  const auto space = text.find(' ');
  const auto dot = text.find('.');
  if (dot > space) return text;
  auto end = space;
  while (text[end - 1] == '0') --end;
  if (text[end - 1] == '.') --end;
  return text.erase(end, space - end);
}

struct Parsed {
  double number = 0;
  std::string_view unit;
};

Result<Parsed> parse_quantity(std::string_view text, std::string_view what) {
  Parsed parsed;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), parsed.number,
                                            std::chars_format::fixed);
  if (error != std::errc() || !std::isfinite(parsed.number) || parsed.number < 0)
    return tl::unexpected(
        Error{Code::invalid_argument, fmt::format("'{}': not {}", text, what), {}});
  parsed.unit = text.substr(static_cast<std::size_t>(end - text.data()));
  while (parsed.unit.starts_with(' ')) parsed.unit.remove_prefix(1);
  return parsed;
}

// The number in base units, if it fits 63 bits.
template <std::size_t Size>
Result<double> parse_with(std::string_view text, std::string_view what,
                          const std::array<Unit, Size>& units) {
  auto parsed = parse_quantity(text, what);
  if (!parsed) return tl::unexpected(parsed.error());
  const auto unit = std::ranges::find(units, parsed->unit, &Unit::name);
  if (unit == units.end()) {
    std::string names;
    for (const Unit& one : units)
      if (!one.name.empty()) names += fmt::format("{}{}", names.empty() ? "" : ", ", one.name);
    return tl::unexpected(Error{Code::invalid_argument,
                                fmt::format("'{}': there is no unit '{}'", text, parsed->unit),
                                "units: " + names});
  }
  const double value = std::round(parsed->number * unit->factor);
  if (value >= 0x1p63)
    return tl::unexpected(Error{Code::invalid_argument, fmt::format("'{}': too large", text), {}});
  return value;
}

}  // namespace

std::string format_bytes(std::uint64_t bytes) {
  constexpr std::array<Unit, 5> kUnits{
      {{"B", 1}, {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}}};
  return without_zeros(in_units(static_cast<double>(bytes), kUnits));
}

std::string format_count(std::uint64_t count) {
  std::string digits = std::to_string(count);
  for (auto at = digits.size(); at > 3;) digits.insert(at -= 3, 1, ',');
  return digits;
}

std::string format_rate(double bytes_per_second) {
  constexpr std::array<Unit, 4> kUnits{{{"B/s", 1}, {"kB/s", 1e3}, {"MB/s", 1e6}, {"GB/s", 1e9}}};
  return in_units(bytes_per_second, kUnits);
}

std::string format_time(std::chrono::nanoseconds duration) {
  constexpr std::array<Unit, 4> kUnits{{{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}}};
  const auto seconds = std::chrono::round<std::chrono::seconds>(duration).count();
  if (seconds >= 3600) return fmt::format("{} h {} min", seconds / 3600, seconds / 60 % 60);
  if (seconds >= 60) return fmt::format("{} min {} s", seconds / 60, seconds % 60);
  return without_zeros(in_units(static_cast<double>(duration.count()), kUnits));
}

Result<Bytes> parse_bytes(std::string_view text) {
  constexpr std::array<Unit, 14> kUnits{{{"", 1},
                                         {"B", 1},
                                         {"K", 0x1p10},
                                         {"KB", 0x1p10},
                                         {"KiB", 0x1p10},
                                         {"M", 0x1p20},
                                         {"MB", 0x1p20},
                                         {"MiB", 0x1p20},
                                         {"G", 0x1p30},
                                         {"GB", 0x1p30},
                                         {"GiB", 0x1p30},
                                         {"T", 0x1p40},
                                         {"TB", 0x1p40},
                                         {"TiB", 0x1p40}}};
  return parse_with(text, "a size such as 4096, 64K or 1M", kUnits).map([](double bytes) {
    return static_cast<Bytes>(bytes);
  });
}

Result<std::chrono::nanoseconds> parse_time(std::string_view text) {
  constexpr std::array<Unit, 7> kUnits{
      {{"", 1e9}, {"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"min", 60e9}, {"h", 3600e9}}};
  return parse_with(text, "a time such as 1.5, 250ms or 2s", kUnits).map([](double ns) {
    return std::chrono::nanoseconds(static_cast<std::int64_t>(ns));
  });
}

Result<std::uint64_t> parse_number(std::string_view text, std::uint64_t least, std::uint64_t most) {
  std::uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error == std::errc() && rest == end && number >= least && number <= most) return number;
  const bool is_open = most == std::numeric_limits<std::uint64_t>::max();
  const auto range =
      is_open ? fmt::format("of at least {}", least) : fmt::format("from {} to {}", least, most);
  return tl::unexpected(
      Error{Code::invalid_argument, fmt::format("'{}': not a whole number {}", text, range), {}});
}

Result<void> print(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written >= 0) text.remove_prefix(static_cast<std::size_t>(written));
    if (written < 0 && errno == EPIPE)
      return tl::unexpected(Error{Code::closed, "standard output: the reader left", {}});
    if (written < 0 && errno != EINTR && errno != EAGAIN)
      return tl::unexpected(system_error("standard output", errno));
  }
  return {};
}

}  // namespace gantry::cli
