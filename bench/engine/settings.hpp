#pragma once  // bench/engine/settings.hpp: what a run of this benchmark was asked for.

#include <array>
#include <string>
#include <vector>

#include "../support/program/options.hpp"

namespace gantry::bench {

/// The questions that this benchmark answers, the order of the report.
inline constexpr std::string_view kCopy = "copy";
inline constexpr std::string_view kQueued = "queued";
inline constexpr std::string_view kAsync = "async";
inline constexpr std::string_view kIdle = "idle";
inline constexpr std::string_view kFairness = "fairness";
inline constexpr std::string_view kWaiting = "waiting";
inline constexpr std::string_view kCache = "cache";
inline constexpr std::string_view kPolicy = "policy";
inline constexpr std::string_view kReshape = "reshape";
inline constexpr std::array kParts = {kCopy,    kQueued, kAsync,  kIdle,   kFairness,
                                      kWaiting, kCache,  kPolicy, kReshape};

struct Settings {
  Options common;
  std::vector<std::string> parts;
  std::chrono::seconds idle_time{0};
  bool counts_instructions = false;  ///< That and nothing else.

  [[nodiscard]] bool has_part(std::string_view part) const noexcept;
  /// Sizes that a part has of its own: those of `wanted` that are not above the largest of
  /// --sizes; that one where all of them are.
  [[nodiscard]] std::vector<Bytes> own_sizes(std::span<const Bytes> wanted) const;
  [[nodiscard]] Bytes own_size(Bytes wanted) const { return own_sizes({&wanted, 1}).front(); }
  [[nodiscard]] Bytes largest() const noexcept;
};

/// What this benchmark says of itself, and its options, which put what they are told into
/// `settings`.
[[nodiscard]] Manual manual(Settings& settings);

}  // namespace gantry::bench
