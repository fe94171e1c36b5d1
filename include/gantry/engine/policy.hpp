#pragma once  // gantry/engine/policy.hpp: what a machine's engines cost.

#include <array>
#include <gantry/engine.hpp>
#include <optional>

namespace gantry {

/// What an engine needs for a copy of one size on this machine; measured medians.
struct CostPoint {
  Bytes bytes = 0;            ///< The size.
  double synchronous_ns = 0;  ///< From submit() to the end, with the submitter waiting.
  double queued_ns = 0;       ///< Per move, while 16 are queued (fewer if large).
  double caller_ns = 0;       ///< CPU time of the submitter for a queued move.
};

/// What was measured of one engine.
struct EngineCosts {
  std::string engine;             ///< Engine::name().
  bool simulated = false;         ///< Measured on a device model.
  std::vector<CostPoint> points;  ///< In rising order of size.
  /// The same for reshapes of each ReshapeClass, by bytes of the destination. Empty: not measured.
  std::array<std::vector<CostPoint>, kReshapeClasses> reshapes{};
};

/// The result of `gantry calibrate`, kept under the user's cache folder.
struct Calibration {
  std::string machine;  ///< Where it holds: CPU model, CPUs, caches, kernel, version, build.
  /// Where the numbers come from.
  enum class Source : std::uint8_t {
    defaults,                   ///< Nothing was measured: estimates from the cache sizes.
    quick,                      ///< Measured at first use, in under a second.
    full,                       ///< Measured by `gantry calibrate`.
  } source = Source::defaults;  ///< Of all that follows.
  Bytes streaming_from = 0;     ///< Copies from this size on are quicker past the cache. 0: none.
  Bytes cache_share = 0;        ///< Bytes that a reader soon after finds in the last-level cache.
  double helping_gain = 1;      ///< Rate of worker and waiter together over the worker's alone.
  std::vector<EngineCosts> engines;  ///< Those that were measured.
};
[[nodiscard]] GANTRY_API std::string_view to_string(Calibration::Source source) noexcept;

/// The size from which on the engine is the better choice for copies in that submit mode, every
/// measured size above included. Synchronous: it ends them sooner than `inline`. Queued: it ends
/// them no later and frees the caller. Nothing when there is no such size, or either engine was not
/// measured.
[[nodiscard]] GANTRY_API std::optional<Bytes> break_even(const Calibration& calibration,
                                                         std::string_view engine, SubmitMode mode);

}  // namespace gantry
