#pragma once  // bench/link/settings.hpp: what a run of this benchmark was asked for.

#include <array>
#include <string>
#include <vector>

#include "../support/program/options.hpp"
#include "network.hpp"

namespace gantry::bench {

/// The questions that this benchmark answers, in the order of the report.
inline constexpr std::string_view kRoundTrip = "round-trip";
inline constexpr std::string_view kOneWay = "throughput";
inline constexpr std::array kLinkQuestions = {kRoundTrip, kOneWay};

struct Settings {
  Options common;
  std::vector<std::string> questions;  ///< None: all, each of the sizes that suit it.
  std::vector<std::string> subjects;   ///< Names, or what stands before their slash; none: all.
  std::vector<Rate> rates;
  bool stays_on_loopback = false;  ///< Even with the right to make namespaces.

  [[nodiscard]] bool asks(std::string_view question, Bytes bytes) const noexcept;
  /// Whether a subject of that name is wanted.
  [[nodiscard]] bool wants(std::string_view subject) const noexcept;
  /// Whether one of another system is.
  [[nodiscard]] bool wants_peers() const noexcept;
};

/// What this benchmark says of itself, and its options, which put what they are told into
/// `settings`.
[[nodiscard]] Manual manual(Settings& settings);

}  // namespace gantry::bench
