#include <fmt/format.h>

#include <array>
#include <gantry/engine.hpp>

#include "core/engine/human.hpp"

namespace gantry {
namespace {

struct Unit {
  const char* name;
  double factor;
};

// The largest unit that leaves at least 1, three digits, no zeros at the end.
template <std::size_t Size>
std::string in_units(double value, const std::array<Unit, Size>& ascending) {
  const Unit* unit = ascending.data();
  for (const Unit& larger : ascending)
    if (value >= larger.factor) unit = &larger;
  return fmt::format("{:.3g} {}", value / unit->factor, unit->name);
}

// In the order of WaitStrategy.
constexpr std::array<std::string_view, 4> kWaiting{
    "a waiter helps with it", "a waiter sleeps to shortly before the end, then polls",
    "a waiter polls: it is too short to sleep", "a waiter sleeps until woken"};

std::string_view waiting_text(WaitStrategy waiting) {
  const auto number = static_cast<std::size_t>(waiting);
  return number < kWaiting.size() ? kWaiting[number] : "";
}

std::string line_of(const Explanation::Candidate& candidate) {
  const std::string predicted = candidate.possible
                                    ? human_time(static_cast<double>(candidate.predicted.count()))
                                    : "not possible";
  return fmt::format("  {:<8} {:<12}{}{}\n", candidate.engine, predicted,
                     candidate.why.empty() ? "" : "  ", candidate.why);
}

}  // namespace

std::string human_bytes(Bytes bytes) {
  constexpr std::array<Unit, 5> kUnits{
      {{"B", 1}, {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}}};
  return bytes < 1024 ? fmt::format("{} B", bytes) : in_units(static_cast<double>(bytes), kUnits);
}

std::string human_time(double ns) {
  constexpr std::array<Unit, 4> kUnits{{{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}}};
  return in_units(ns, kUnits);
}

std::string Explanation::text() const {
  std::string text =
      fmt::format("{} engine, {} stores, about {}; {}\n", to_string(engine),
                  cache == CacheUse::streaming ? "streaming" : "temporal",
                  human_time(static_cast<double>(predicted.count())), waiting_text(waiting));
  for (const Candidate& candidate : candidates) text += line_of(candidate);
  for (const std::string& reason : reasons) text += "  because " + reason + "\n";
  return text;
}

}  // namespace gantry
