#pragma once  // gantry/engine/policy.hpp: what a machine's engines cost, and who executes a move
              // for it.

#include <functional>
#include <gantry/engine.hpp>
#include <optional>

namespace gantry {

/// What an engine needs for a copy of one size on this machine, all measured, medians.
struct CostPoint {
  Bytes bytes = 0;
  double synchronous_ns = 0;  ///< From submit() to the end, the submitter waiting.
  double queued_ns = 0;       ///< A move's share of the time in which 16 end that were queued;
                              ///< fewer where they are large.
  double caller_ns = 0;       ///< CPU time of the submitter for one that is queued.
};

struct EngineCosts {
  std::string engine;
  bool simulated = false;         ///< Of a device model.
  std::vector<CostPoint> points;  ///< Sizes rise.
};

/// The result of `gantry calibrate`, kept under the user's cache folder.
struct Calibration {
  std::string machine;  ///< What it holds for: CPU model, CPUs, caches, kernel, version, build.
  enum class Source : std::uint8_t {
    defaults,  ///< Nothing measured: estimates from the cache sizes.
    quick,     ///< At first use, in under a second.
    full,      ///< By `gantry calibrate`.
  } source = Source::defaults;
  Bytes streaming_from = 0;  ///< Copies of so many bytes are quicker past the cache. 0: none are.
  Bytes cache_share = 0;     ///< What a reader soon after finds in the last-level cache.
  double helping_gain = 1;   ///< Rate of worker and waiter together over that of the worker alone.
  std::vector<EngineCosts> engines;
};
[[nodiscard]] GANTRY_API std::string_view to_string(Calibration::Source source) noexcept;

/// The size from which on the engine is the better choice for copies in that use, every measured
/// size above included: synchronous, it ends them sooner than `inline`; queued, it ends them no
/// later and frees the caller. Nothing when there is none, or either was not measured.
[[nodiscard]] GANTRY_API std::optional<Bytes> break_even(const Calibration& calibration,
                                                         std::string_view engine, SubmitMode use);

struct GANTRY_API PolicyOptions {
  /// CPUs that this process may use, limits of its control group counted; 0: by its affinity.
  double cpus = 0;
  /// Where the calibration is of `defaults`: called once, by the first submitter of a move that is
  /// large enough to gain from a better one, before that move begins. Nothing: go on as before.
  std::function<std::optional<Calibration>()> calibrate;
};

/// An engine, named "auto", that passes each move on to the one of `engines` that the calibration
/// says ends it first, and says why; in queued use, to the one that also takes the least of the
/// caller's time. Order: the first one is taken when nothing speaks against it; it must have no
/// threads and need no device (inline). A batch goes to one engine as a whole. The engines stay
/// their owner's: stopping this one stops none of them.
/// Errors: `invalid_argument` (no engine, more than 8, or one twice), `out_of_memory`.
[[nodiscard]] GANTRY_API Result<std::shared_ptr<Engine>> make_policy_engine(
    std::vector<std::shared_ptr<Engine>> engines, Calibration calibration,
    PolicyOptions options = {});

}  // namespace gantry
