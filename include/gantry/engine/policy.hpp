#pragma once  // gantry/engine/policy.hpp: what a machine's engines cost, and the engine that
              // chooses by it.

#include <array>
#include <functional>
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

/// What the policy is told of the process, beside the calibration.
struct GANTRY_API PolicyOptions {
  /// CPUs that this process may use, limits of its control group counted; 0: by its affinity.
  double cpus = 0;
  /// Called once if the calibration is `defaults`, by the first submitter of a move that is large
  /// enough to gain from a better one, before that move begins. Return nothing to go on as before.
  std::function<std::optional<Calibration>()> calibrate;
};

/// Makes an engine, named "auto", that passes each move on to the one of `engines` that the
/// calibration says ends it first, and says why. A queued move goes to the one that also takes the
/// least of the caller's time. The first engine is chosen when nothing speaks against it; it must
/// have no threads and need no device (inline). A batch goes to one engine as a whole. Stopping
/// "auto" does not stop `engines`. Errors: `invalid_argument` (no engine, more than 8, or one
/// twice), `out_of_memory`.
[[nodiscard]] GANTRY_API Result<std::shared_ptr<Engine>> make_policy_engine(
    std::vector<std::shared_ptr<Engine>> engines, Calibration calibration,
    PolicyOptions options = {});

}  // namespace gantry
