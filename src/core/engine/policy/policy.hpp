#pragma once  // engine/policy/policy.hpp: which engine executes a move, and why.

#include <array>
#include <gantry/engine.hpp>
#include <limits>

namespace gantry {

inline constexpr std::size_t kMaxPolicyEngines = 8;

/// Costs between measured sizes: straight between the points where both axes are logarithmic. Below
/// the first point it has that point's value, above the last point its rate.
class CostCurve {
 public:
  /// Sizes and costs are positive; sizes rise.
  void add(Bytes bytes, double ns);
  /// 0 if there is no point.
  [[nodiscard]] double at(Bytes bytes) const noexcept;
  [[nodiscard]] bool empty() const noexcept { return points_.empty(); }
  /// The rate at the largest size.
  [[nodiscard]] double bytes_per_ns() const noexcept;

 private:
  struct Point {
    Bytes bytes;
    double ns;
    double log_bytes;
    double log_ns;
  };
  std::vector<Point> points_;
};

/// What the policy knows of an engine besides its costs.
struct Member {
  std::string name;
  CopyEngine kind = CopyEngine::inline_;
  std::vector<Move::Kind> kinds;  ///< Kinds that it executes itself.
  Bytes alignment = 1;            ///< The quickest alignment.
};
/// By the engine's name: "inline", "thread", "dsa".
[[nodiscard]] CopyEngine kind_of(std::string_view engine) noexcept;

/// What holds at the moment of a choice.
struct Situation {
  SubmitMode use = SubmitMode::queued;
  double free_cpus = 1;  ///< Besides the submitter's own.
  /// Bytes ahead of the move in each engine: everybody's in synchronous use, other submitters' in
  /// queued use (a queueing submitter does not mind its own queue).
  std::array<Bytes, kMaxPolicyEngines> ahead{};
  std::array<bool, kMaxPolicyEngines> refused{};  ///< It was tried, and refused the move.
};

/// What speaks for and against an engine.
struct Verdict {
  bool possible = true;
  double predicted_ns = 0;
  double caller_ns = 0;
  // Contained in `predicted_ns`:
  double ahead_ns = 0;      ///< Until the bytes ahead are done.
  double pages_ns = 0;      ///< For pages that may be missing.
  double unaligned_ns = 0;  ///< For unaligned ends.
  bool shares_cpu = false;  ///< Its worker would find no free CPU.
};
using Verdicts = std::array<Verdict, kMaxPolicyEngines>;

/// Pure: the same calibration, move and situation give the same choice. Immutable.
class Policy {
 public:
  /// `members` as in make_auto_engine(). Estimates replace what the calibration lacks.
  Policy(Calibration calibration, std::vector<Member> members);

  /// True if only the first engine could gain, in any situation: there is nothing to choose.
  [[nodiscard]] bool is_small(const Move& move, SubmitMode mode) const noexcept {
    return move.bytes < small_below(move, mode);
  }
  /// From which size on that is not so, for moves that do what `move` does.
  [[nodiscard]] Bytes small_below(const Move& move, SubmitMode mode) const noexcept {
    return small_below_[mode == SubmitMode::queued][curve_of(move)];
  }
  /// The engine's index. Allocates nothing; takes some hundred nanoseconds.
  [[nodiscard]] std::size_t choose(const Move& move, const Situation& situation) const noexcept {
    return pick(weigh(move, situation), situation.use);
  }
  [[nodiscard]] Verdicts weigh(const Move& move, const Situation& situation) const noexcept;
  /// Fills in everything but `waiting`.
  [[nodiscard]] Explanation explain(const Move& move, const Situation& situation) const;

  [[nodiscard]] CacheUse cache_for(const Move& move) const noexcept {
    const bool quicker_past = move.bytes >= streaming_from_;
    if (move.cache == CacheUse::streaming) return CacheUse::streaming;
    if (move.cache == CacheUse::reader_soon && move.bytes <= calibration_.cache_share)
      return CacheUse::reader_soon;
    return quicker_past ? CacheUse::streaming : CacheUse::reader_soon;
  }
  [[nodiscard]] const Calibration& calibration() const noexcept { return calibration_; }

  static constexpr double kSynchronousMargin = 1.07;  ///< An engine must be this much quicker than
                                                      ///< the first.
  static constexpr double kQueuedMargin = 1.05;  ///< How much slower than the quickest an engine
                                                 ///< may be to free the caller.

 private:
  struct Costs {
    CostCurve synchronous;
    CostCurve queued;
    CostCurve caller;
  };
  /// By what a move does: copies and the like first, then each ReshapeClass.
  static constexpr std::size_t kCurves = 1 + kReshapeClasses;
  using CostsByClass = std::array<Costs, kCurves>;
  [[nodiscard]] static std::size_t curve_of(const Move& move) noexcept {
    const bool reshapes = move.kind == Move::Kind::reshape && move.plan != nullptr;
    return reshapes ? 1 + static_cast<std::size_t>(move.plan->kind()) : 0;
  }
  [[nodiscard]] CostsByClass curves_of(const Member& member) const;
  [[nodiscard]] Verdict weigh_one(std::size_t engine, const Move& move,
                                  const Situation& situation) const noexcept;
  [[nodiscard]] std::size_t pick(const Verdicts& verdicts, SubmitMode mode) const noexcept;
  [[nodiscard]] std::size_t pick_synchronous(const Verdicts& verdicts) const noexcept;
  [[nodiscard]] std::size_t pick_queued(const Verdicts& verdicts) const noexcept;
  [[nodiscard]] Verdicts at_best(std::size_t curve, Bytes bytes, SubmitMode mode) const noexcept;
  [[nodiscard]] Bytes first_gain(std::size_t curve, SubmitMode mode) const noexcept;
  [[nodiscard]] std::string why(std::size_t engine, const Verdict& verdict, const Move& move) const;
  void add_reasons(Explanation& explanation, const Move& move, const Situation& situation,
                   const Verdicts& verdicts, std::size_t chosen) const;

  Calibration calibration_;
  std::vector<Member> members_;
  std::vector<CostsByClass> costs_;
  Bytes streaming_from_ = std::numeric_limits<Bytes>::max();
  std::array<std::array<Bytes, kCurves>, 2> small_below_{};  // synchronous, queued
};

/// Estimates for what was not measured; `engine` is its name.
[[nodiscard]] EngineCosts estimated_costs(std::string_view engine);
/// `last_level_bytes`: size of the cache that this CPU shares; 0: unknown. `sharers`: CPUs that
/// share it.
[[nodiscard]] Calibration default_calibration(Bytes last_level_bytes, unsigned sharers);

}  // namespace gantry
