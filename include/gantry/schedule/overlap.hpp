#pragma once  // gantry/schedule/overlap.hpp: every way of computing a sharded product, as plans.

#include <compare>
#include <gantry/schedule/plan.hpp>
#include <optional>
#include <string>
#include <vector>

namespace gantry {

/// What is multiplied, and what moves.
enum class OverlapKind : std::uint8_t {
  all_gather_gemm,      ///< Each rank has rows of A and columns of B; it wants A times its columns.
  gemm_reduce_scatter,  ///< Each has columns of A and rows of B; it wants some rows of A * B.
  all_to_all_gemm,  ///< Each has rows of A for every rank, and a B of its own; it wants the rows
                    ///< for it times its B.
};
[[nodiscard]] GANTRY_API std::string_view to_string(OverlapKind kind) noexcept;
/// Reads "all-gather-gemm". Errors: `invalid_argument`.
[[nodiscard]] GANTRY_API Result<OverlapKind> parse_overlap_kind(std::string_view text);

/// A product whose parts lie with several ranks. A is m x k. Rows, columns and depths are shared
/// out as evenly as they can be: the part of rank r begins at size * r / ranks.
struct OverlapOperator {
  OverlapKind kind = OverlapKind::all_gather_gemm;  ///< What is multiplied, and what moves.
  std::int64_t m = 0;                               ///< Rows of A.
  std::int64_t n = 0;  ///< Columns of B; of all_to_all_gemm those of each rank's B.
  std::int64_t k = 0;  ///< Columns of A, rows of B.
  DataType type{DataType::floating, 32, 1};  ///< f64, f32, f16, bf16, i32 or i64.
  unsigned ranks = 1;                        ///< 1 to 4096.
  /// Of all_to_all_gemm: how many rows rank s has for rank d, at s * ranks + d; their sum is m.
  /// Empty: shared out evenly.
  std::vector<std::int64_t> split{};
};

/// The order in which pieces move between ranks.
enum class SchedulePattern : std::uint8_t {
  serial,   ///< Everything arrives, then one product; or one product, then everything leaves.
  ring,     ///< From neighbour to neighbour; in an all-to-all one peer after the other.
  at_once,  ///< Straight to each peer, all links at the same time.
};
/// What is cut of the matrix that moves (A; of gemm_reduce_scatter A * B).
enum class ScheduleShape : std::uint8_t { rows, depth };
/// When the part that need not move is computed.
enum class ScheduleStart : std::uint8_t {
  even,       ///< In pieces, beside those of the others.
  own_first,  ///< Whole, while others are on their way: before them when they come in, behind them
              ///< when they go out.
};
/// How much a product takes.
enum class ScheduleGrain : std::uint8_t {
  per_step,   ///< All pieces of a step, where they lie side by side, by copies if they do not.
  per_piece,  ///< One.
};
/// Who moves a piece: its owner puts it, or who needs it gets it.
enum class SchedulePath : std::uint8_t { put, get };

/// A point of the space: decisions, from which make_plan() makes a plan for any operator.
struct Schedule {
  SchedulePattern pattern = SchedulePattern::serial;  ///< `serial`: only `path` counts besides.
  ScheduleShape shape = ScheduleShape::rows;          ///< What is cut.
  ScheduleStart start = ScheduleStart::own_first;     ///< When the own part is computed.
  ScheduleGrain grain = ScheduleGrain::per_piece;     ///< How much a product takes.
  unsigned chunks = 1;  ///< Into which what one rank has for another is cut; 1 to 4096.
  SchedulePath path = SchedulePath::put;  ///< Who moves pieces.
  friend auto operator<=>(const Schedule&, const Schedule&) = default;
};

/// "ring rows own-first piece 4 put", "serial put".
[[nodiscard]] GANTRY_API std::string to_string(const Schedule& schedule);
/// Reads that. Errors: `invalid_argument`.
[[nodiscard]] GANTRY_API Result<Schedule> parse_schedule(std::string_view text);

/// A decision that can be kept: "gantry-schedule 1 all-gather-gemm ring rows own-first piece 4
/// put".
struct ScheduleSentence {
  OverlapKind kind = OverlapKind::all_gather_gemm;  ///< What the schedule was chosen for.
  Schedule schedule;                                ///< What was chosen.
  friend bool operator==(const ScheduleSentence&, const ScheduleSentence&) = default;
};
[[nodiscard]] GANTRY_API std::string to_string(const ScheduleSentence& sentence);
/// Errors: `invalid_argument`.
[[nodiscard]] GANTRY_API Result<ScheduleSentence> parse_sentence(std::string_view text);

/// What a schedule must keep to.
struct ScheduleConstraints {
  Bytes at_most = ~Bytes{0};                ///< Memory of a rank's tensors.
  std::optional<ScheduleShape> no_split{};  ///< What must stay whole. A depth that stays whole is
                                            ///< summed up as in one product.
  bool same_place = false;                  ///< Nothing is copied within a rank.
  bool replicated = false;  ///< Every rank has all of A in the end (all_gather_gemm only).
};

/// The plan of a schedule. Its first tensors are `a`, `b`, `c`: of all_gather_gemm m x k, of which
/// each rank gives its rows; k x its columns; m x its columns. Of gemm_reduce_scatter m x its
/// depth; its depth x n; m x n, of which it wants its rows. Of all_to_all_gemm its rows x k, in the
/// order of whom they are for; k x n; the rows for it x n, in the order of whom they are from. Each
/// is as large as the largest rank needs it. Tensors behind them are scratch.
/// check_plan() passes what comes out: among hundreds of ranks the peers of each share the lanes
/// for which it has room, and a plan of more steps than it takes in two lanes of a rank is
/// `too_large`. What it says of itself: "all-gather-gemm of 200 x 100 x 300 f32: ring rows
/// own-first piece 1 put". Errors: `invalid_argument`; `too_large`.
[[nodiscard]] GANTRY_API Result<Plan> make_plan(const OverlapOperator& op,
                                                const Schedule& schedule);

/// The schedule, of those that give the same plan for this operator, that stands for all of them.
/// Errors: `invalid_argument`, `too_large`.
[[nodiscard]] GANTRY_API Result<Schedule> canonical(const OverlapOperator& op,
                                                    const Schedule& schedule);

/// All schedules that differ for this operator and keep to the constraints, serial first. Errors:
/// `invalid_argument`, `too_large`.
[[nodiscard]] GANTRY_API Result<std::vector<Schedule>> schedules_of(
    const OverlapOperator& op, const ScheduleConstraints& constraints = {});

/// Bytes of tensors that each rank needs. Errors: as make_plan().
[[nodiscard]] GANTRY_API Result<Bytes> memory_of(const OverlapOperator& op,
                                                 const Schedule& schedule);

}  // namespace gantry
