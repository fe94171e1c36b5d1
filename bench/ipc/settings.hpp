#pragma once  // bench/ipc/settings.hpp: what a run of this benchmark was asked for.

#include <array>
#include <string>
#include <vector>

#include "../support/program/options.hpp"

namespace gantry::bench {

/// The questions that this benchmark answers, in the order of the report.
inline constexpr std::string_view kLatency = "latency";
inline constexpr std::string_view kShapes = "shapes";
inline constexpr std::string_view kInFlight = "in-flight";
inline constexpr std::string_view kFanOut = "fan-out";
inline constexpr std::string_view kHandOff = "hand-off";
inline constexpr std::string_view kComputing = "computing";
inline constexpr std::string_view kTyped = "typed";
inline constexpr std::string_view kDecisions = "decisions";
inline constexpr std::string_view kBeside = "beside";
inline constexpr std::array kQuestions = {kLatency,   kShapes, kInFlight,  kFanOut, kHandOff,
                                          kComputing, kTyped,  kDecisions, kBeside};

struct Settings {
  Options common;
  std::vector<std::string> questions;
  std::vector<std::string> subjects;  ///< Names, or what stands before their slash; none: all.
  bool keeps_payload = false;         ///< It is not written anew for each trip.
  bool counts_instructions = false;   ///< That and nothing else.

  [[nodiscard]] bool asks(std::string_view question) const noexcept;
  /// Whether a subject of that name is wanted.
  [[nodiscard]] bool wants(std::string_view subject) const noexcept;
  /// Whether one of another system is.
  [[nodiscard]] bool wants_peers() const noexcept;
};

/// What this benchmark says of itself, and its options, which put what they are told into
/// `settings`.
[[nodiscard]] Manual manual(Settings& settings);

}  // namespace gantry::bench
