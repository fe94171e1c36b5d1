#pragma once  // gantry/plan.hpp: steps of several ranks as data: check, cost, choice, execution.

#include <compare>
#include <gantry/channel.hpp>
#include <gantry/gemm.hpp>
#include <gantry/group.hpp>
#include <gantry/memory.hpp>
#include <gantry/runtime.hpp>
#include <gantry/types.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace gantry {

/// A rectangle of a tensor: `rows` rows from `row` on, `cols` columns from `col` on; numbered from
/// 0.
struct PlanRect {
  std::int64_t row = 0;
  std::int64_t col = 0;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  friend bool operator==(const PlanRect&, const PlanRect&) = default;
};

/// A matrix; each rank of the group has a separate one.
struct PlanTensor {
  std::string name;       ///< Letters, digits and '_'; begins with a letter.
  std::int64_t rows = 0;  ///< 0 to 2^40.
  std::int64_t cols = 0;  ///< 0 to 2^40.
  DataType type;          ///< f64, f32, f16, bf16, i32 or i64.
};

/// A rectangle of a tensor of a rank.
struct PlanPlace {
  unsigned rank = 0;    ///< Below Plan::ranks.
  unsigned tensor = 0;  ///< Index in Plan::tensors.
  PlanRect rect;        ///< Rectangle within the tensor.
};

/// A part of an element's value, in terms of the whole matrices whose pieces the ranks hold. For
/// element (i, j) of a tensor it is X[i + `row`][j + `col`], where X is `left`; if `right` names a
/// matrix Y, it is the sum over k in [`first`, `last`) of X[i + row][k] * Y[k][j + col].
struct PlanTerm {
  std::string left;
  std::string right = {};  ///< Empty: no product.
  std::int64_t row = 0;
  std::int64_t col = 0;
  std::int64_t first = 0;
  std::int64_t last = 0;
  friend bool operator==(const PlanTerm&, const PlanTerm&) = default;
};

/// The value of a rectangle's elements: the sum of its terms, each counted once.
struct PlanValue {
  PlanPlace place;            ///< The rectangle.
  std::vector<PlanTerm> sum;  ///< Terms; if empty, the elements are 0.
};

/// The operation of a step.
enum class PlanVerb : std::uint8_t {
  put,      ///< This rank's memory to another rank's; the other rank may wait for the step.
  get,      ///< Another rank's memory to this rank's; the other rank may wait for the step.
  copy,     ///< Within a rank.
  gemm,     ///< `to` = `from` * `other`, or `to` += `from` * `other`.
  reduce,   ///< `to` += `from`, within a rank.
  fill,     ///< `to` = 0.
  signal,   ///< No operation, but rank `to.rank` may wait for it.
  barrier,  ///< The n-th barrier of each rank ends when all ranks have reached their n-th.
};
[[nodiscard]] GANTRY_API std::string_view to_string(PlanVerb verb) noexcept;

/// An operation. Fields that its verb does not use are ignored.
struct PlanStep {
  PlanVerb verb = PlanVerb::copy;  ///< Determines which of the places are used.
  unsigned rank = 0;               ///< The rank that executes the step.
  /// The lane within the rank. Steps of a lane run one after another, in the order of the plan.
  unsigned lane = 0;
  PlanPlace to;                 ///< The place that is written, or the receiver of a signal.
  PlanPlace from;               ///< The place that is read.
  PlanPlace other;              ///< For gemm: the right factor.
  bool adds = false;            ///< For gemm: add to `to`.
  std::vector<unsigned> after;  ///< Indices of steps that must end before this one begins.
};

/// Steps of ranks, with their memory and their order. A plan does not compute values; check_plan()
/// derives them.
struct Plan {
  unsigned ranks = 1;                 ///< 1 to 4096.
  unsigned lanes = 1;                 ///< Number of lanes of each rank.
  std::string about{};                ///< How the plan was made; one line.
  std::vector<PlanTensor> tensors{};  ///< Each rank has one of each.
  std::vector<PlanValue> given{};     ///< Contents before the run.
  std::vector<PlanValue> wanted{};    ///< Required contents after the run.
  std::vector<PlanStep> steps{};      ///< Steps of all ranks.
};

/// Limits on a plan's cost.
struct PlanLimits {
  Bytes memory = ~Bytes{0};  ///< For the tensors of one rank.
};

/// Cost of a checked plan.
struct PlanFacts {
  std::vector<Bytes> memory;    ///< For each rank: size of the tensors that it touches.
  std::vector<Bytes> sent;      ///< For each rank: bytes copied from its memory to another rank's.
  std::vector<Bytes> received;  ///< For each rank: bytes copied from other ranks into its memory.
  /// For each rank: operations of its products, two for each pair of elements.
  std::vector<double> flops;
};

/// Reads a plan: docs/formats/plan.md. Errors: `invalid_argument`: "line 7: what: why".
[[nodiscard]] GANTRY_API Result<Plan> parse_plan(std::string_view text);
/// Text of the plan; parse_plan() reads it back.
[[nodiscard]] GANTRY_API std::string to_text(const Plan& plan);
/// Name of a step: "step 3 (put, rank 0)".
[[nodiscard]] GANTRY_API std::string name_of_step(const Plan& plan, unsigned step);

/// Checks a plan without executing it; only checked plans run. Refuses places and shapes that do
/// not fit; a step that waits for another whose end is not known to the waiting rank; steps that
/// wait for each other; memory beyond the limit; memory used before it was written, or by two steps
/// at once, one of which writes; and final contents that differ from the required ones or count a
/// term twice. Errors: `invalid_argument`; `too_large`; `unsupported` for a product whose factor is
/// itself a product or a sum.
[[nodiscard]] GANTRY_API Result<PlanFacts> check_plan(const Plan& plan,
                                                      const PlanLimits& limits = {});

// ---- states of ranks, as another process sees them ----------------------------------------------

/// State of a rank of a group.
enum class RankState : std::uint8_t {
  joining,    ///< Not all ranks have joined.
  idle,       ///< No common call of the group is in progress here.
  preparing,  ///< Preparing a plan, until all ranks have it.
  running,    ///< Running a plan.
  broken,     ///< The rank will not run again.
};
[[nodiscard]] GANTRY_API std::string_view to_string(RankState state) noexcept;

/// A step of the rank's plan.
struct RankStep {
  std::uint32_t step = 0;         ///< Index in the plan.
  PlanVerb verb = PlanVerb::put;  ///< Operation of the step.
  /// The other rank: target or origin of a transfer; executor of a step that is waited for.
  std::optional<unsigned> peer = {};
  friend bool operator==(const RankStep&, const RankStep&) = default;
};

/// The cause of a rank's wait.
struct GANTRY_API RankOperation {
  std::optional<unsigned> absent = {};  ///< A rank that has not joined, prepared, or begun the run.
  std::optional<RankStep> own = {};     ///< A step of this rank: in progress if `awaited` is empty.
  /// The step that `own` waits for; without `own`, another rank's step on this rank's memory.
  std::optional<RankStep> awaited = {};
  /// "step 4 (barrier) waits for step 7 (barrier) of rank 2"
  [[nodiscard]] std::string text() const;
  friend bool operator==(const RankOperation&, const RankOperation&) = default;
};

/// A rank's report about itself; the content may be wrong, but is within bounds.
struct GANTRY_API RankStatus {
  std::string group;   ///< Name of the group.
  unsigned rank = 0;   ///< Number of the rank, from 0.
  unsigned ranks = 1;  ///< Number of ranks in the group.
  int pid = 0;         ///< Process number; 0: it lives in another PID namespace.
  ProcessState process = ProcessState::unknown;  ///< `unknown` if `pid` is 0.
  RankState state = RankState::joining;          ///< Present state.
  std::string why;                               ///< Reason for `broken`.
  std::chrono::nanoseconds in_state{};           ///< Time in the present state.
  std::uint64_t epoch = 0;  ///< Number of the group, equal at all its ranks, unique among groups.
  std::uint64_t operation = 0;  ///< Number of the group's common call, from 1; 0: not in a call.
  std::uint64_t plan_hash = 0;  ///< Hash of the newest plan.
  std::string plan;             ///< Plan::about of the newest plan.
  std::uint64_t runs = 0;       ///< Runs of all plans, including the present one.
  std::uint64_t steps = 0;      ///< Steps of the plan on this rank; a barrier counts as two.
  std::uint64_t ended = 0;      ///< Steps that have ended in the newest run.
  std::optional<RankStep> handed_over;    ///< The latest step that began in the newest run.
  std::vector<RankOperation> operations;  ///< At most eight, from the rank's latest wait.

  /// State and operations in one line.
  [[nodiscard]] std::string text() const;
};

/// Lists this user's live ranks that have a page in `directory` (by the rule of
/// channel_directory()) or in a run directory of `gantry run` there, by group and rank. Reads the
/// pages without contacting the ranks, so stopped ranks are also listed. Removes pages of dead
/// processes. Errors: those of the directory; a missing directory has no ranks.
[[nodiscard]] GANTRY_API Result<std::vector<RankStatus>> list_ranks(
    std::string_view directory = {});

// ---- cost of a plan, and its duration in virtual time -------------------------------------------

/// Cost of products. A product of m x k and k x n takes
///   start_ns + 2 m n k / flops_per_s * (1 + m_knee / m) (1 + n_knee / n) (1 + k_knee / k),
/// and, if it adds to existing values, the time for 2 m n more elements of memory traffic at
/// adding_bytes_per_s.
struct ProductCosts {
  double start_ns = 0;               ///< Fixed time of each product; 0 to 1e15.
  double flops_per_s = 1e12;         ///< Rate without knees.
  double m_knee = 0;                 ///< Number of rows at which half of the speed is lost.
  double n_knee = 0;                 ///< Number of columns at which half of the speed is lost.
  double k_knee = 0;                 ///< Depth at which half of the speed is lost.
  double adding_bytes_per_s = 1e11;  ///< Rate of the additional memory traffic.
  friend bool operator==(const ProductCosts&, const ProductCosts&) = default;
};

/// Cost of transfers: start + bytes / rate.
struct TransferCosts {
  double start_ns = 0;        ///< Fixed time of each transfer; 0 to 1e15.
  double bytes_per_s = 1e10;  ///< Rate of the payload.
  friend bool operator==(const TransferCosts&, const TransferCosts&) = default;
};

/// Costs of a directed pair of ranks that differs from the others.
struct LinkCosts {
  unsigned from = 0;    ///< The rank whose memory is read.
  unsigned to = 0;      ///< The rank whose memory is written; not `from`.
  TransferCosts costs;  ///< Costs of transfers in this direction.
  friend bool operator==(const LinkCosts&, const LinkCosts&) = default;
};

/// Resources that the ranks' transfers share.
enum class Topology : std::uint8_t {
  mesh,      ///< Each directed pair of ranks has a separate link.
  switched,  ///< Each rank has a port out and a port in, which its transfers share evenly.
};

/// Costs of a group of ranks: docs/formats/costs.md.
struct ScheduleCosts {
  std::string name = "unnamed";        ///< Origin of the costs; one word.
  ProductCosts product;                ///< For gemm.
  TransferCosts copy{0, 1e11};         ///< For copy and fill within a rank; bytes of the result.
  TransferCosts reduce{0, 1e11};       ///< For reduce within a rank; bytes of the result.
  Topology topology = Topology::mesh;  ///< Determines which of the fields below are used.
  TransferCosts link;                  ///< For each directed pair of ranks.
  std::vector<LinkCosts> links{};      ///< Pairs that differ from `link`.
  double port_bytes_per_s = 1e10;      ///< For a switch: rate of each port and direction.
  double cpus = 0;                     ///< Number of CPUs that all ranks share; 0: each has enough.
  /// CPU time per payload byte of a transfer, at each end; shared CPUs are then not available for
  /// computation. A transfer takes at least the CPU time of either end.
  double cpu_s_per_byte = 0;
  double cpu_s_per_transfer = 0;  ///< CPU time of each transfer, whatever its size.
  double cpu_s_per_row = 0;       ///< CPU time per row, at an end whose rows are not adjacent.
  double beside_transfers = 1;    ///< Factor on the time of products that run beside transfers.
  friend bool operator==(const ScheduleCosts&, const ScheduleCosts&) = default;
};

/// Reads costs. Errors: `invalid_argument`: "line 7: what: why".
[[nodiscard]] GANTRY_API Result<ScheduleCosts> parse_costs(std::string_view text);
/// Text of the costs; parse_costs() reads it back, to the bit.
[[nodiscard]] GANTRY_API std::string to_text(const ScheduleCosts& costs);
/// Costs from publications: "published/mi300x-8". Errors: `not_found`.
[[nodiscard]] GANTRY_API Result<ScheduleCosts> published_costs(std::string_view name);

/// Measured time of one product of m x k by k x n.
struct ProductSample {
  std::int64_t m = 0, n = 0, k = 0;  ///< Sizes of the product.
  bool adds = false;                 ///< The product was added to existing values.
  double seconds = 0;                ///< Measured time.
};
/// The costs that fit some samples best.
struct ProductFit {
  ProductCosts costs;  ///< For ScheduleCosts::product.
  double error = 0;    ///< Root of the mean square of the relative error.
};
/// Finds the costs with the least relative error; `bytes`: size of an element. Errors:
/// `invalid_argument` for fewer than four samples, or a sample without size or time.
[[nodiscard]] GANTRY_API Result<ProductFit> fit_products(std::span<const ProductSample> samples,
                                                         Bytes bytes);
/// Time of a product by these costs, in seconds; `bytes`: size of an element.
[[nodiscard]] GANTRY_API double seconds_of_product(const ProductCosts& costs, double m, double n,
                                                   double k, bool adds, Bytes bytes) noexcept;

/// Times of a step of a simulated plan, from the plan's start.
struct StepTimes {
  double begin_s = 0;  ///< When the step occupies its resources.
  double end_s = 0;    ///< When the step ends.
};
/// Use of time by a rank of a simulated plan.
struct RankTimes {
  double compute_s = 0;        ///< Time in which the rank computes.
  double compute_alone_s = 0;  ///< Time that its computing steps would take undisturbed.
  double links_s = 0;          ///< Time in which bytes arrive or leave.
  double end_s = 0;            ///< End of its last step.
  double exposed_s = 0;        ///< Time without computing, until the plan ends.
};
/// Duration of a plan in virtual time.
struct Simulated {
  double seconds = 0;            ///< End of the last step.
  std::vector<RankTimes> ranks;  ///< By rank.
  std::vector<StepTimes> steps;  ///< Times at which each step occupies its resources.
  unsigned last_rank = 0;  ///< The rank that ends last; among several, the one that computes most.
};

/// Runs a plan in virtual time. A rank executes its computing steps (gemm, reduce, copy, fill) one
/// after another, in the order in which they may begin; so does each directed pair of ranks with
/// its transfers. Lanes, `after` and barriers apply as in execution. Equal plans and costs give
/// equal numbers on every machine. Errors: `invalid_argument` for a malformed plan, steps that wait
/// for each other, or invalid costs.
[[nodiscard]] GANTRY_API Result<Simulated> simulate(const Plan& plan, const ScheduleCosts& costs);

/// Time lost by a schedule, relative to the computing time of the serial schedule:
///   seconds = serial's compute_alone_s + decomposition_s + contention_s + exposed_s.
struct ScheduleLosses {
  double decomposition_s = 0;  ///< Pieces, copies and sums take longer than one product.
  double contention_s = 0;     ///< Steps take longer beside others than alone.
  double exposed_s = 0;        ///< Start-up, tail, and waits between steps.
};
/// Losses of `one`; both simulations must use the same costs.
[[nodiscard]] GANTRY_API ScheduleLosses losses_of(const Simulated& one, const Simulated& serial);

// ---- all ways of computing a sharded product, as plans ------------------------------------------

/// The factors of a sharded product, and the data that moves.
enum class OverlapKind : std::uint8_t {
  all_gather_gemm,      ///< Each rank has rows of A and columns of B; it needs A times its columns.
  gemm_reduce_scatter,  ///< Each rank has columns of A and rows of B; it needs some rows of A * B.
  /// Each rank has rows of A for every rank, and a separate B; each rank needs the rows that are
  /// for this rank, multiplied by its B.
  all_to_all_gemm,
};
[[nodiscard]] GANTRY_API std::string_view to_string(OverlapKind kind) noexcept;
/// Reads "all-gather-gemm". Errors: `invalid_argument`.
[[nodiscard]] GANTRY_API Result<OverlapKind> parse_overlap_kind(std::string_view text);

/// A product whose parts lie on several ranks. A is m x k. Rows, columns and depths are split as
/// evenly as possible: the part of rank r begins at size * r / ranks.
struct OverlapOperator {
  OverlapKind kind = OverlapKind::all_gather_gemm;  ///< The factors, and the data that moves.
  std::int64_t m = 0;                               ///< Rows of A.
  std::int64_t n = 0;  ///< Columns of B; for all_to_all_gemm, columns of each rank's B.
  std::int64_t k = 0;  ///< Columns of A, rows of B.
  DataType type{DataType::floating, 32, 1};  ///< f64, f32, f16, bf16, i32 or i64.
  unsigned ranks = 1;                        ///< 1 to 4096.
  /// For all_to_all_gemm: number of rows that rank s has for rank d, at index s * ranks + d; the
  /// sum is m. Empty: split evenly.
  std::vector<std::int64_t> split{};
};

/// The order in which pieces move between ranks.
enum class SchedulePattern : std::uint8_t {
  serial,   ///< Everything arrives, then one product; or one product, then everything leaves.
  ring,     ///< From neighbour to neighbour; in an all-to-all, one peer after another.
  at_once,  ///< Directly to each peer, on all links at the same time.
};
/// The direction in which the moving matrix is cut (A; for gemm_reduce_scatter A * B).
enum class ScheduleShape : std::uint8_t { rows, depth };
/// When a rank computes the part that does not move.
enum class ScheduleStart : std::uint8_t {
  even,  ///< In pieces, between those of other ranks.
  /// As a whole, while other parts are in flight: before parts that arrive, after parts that leave.
  own_first,
};
/// The extent of one product.
enum class ScheduleGrain : std::uint8_t {
  per_step,   ///< All pieces of a step, adjacent in memory, by copies if necessary.
  per_piece,  ///< One piece.
};
/// The active rank of a transfer: the owner puts the piece, or the receiver gets it.
enum class SchedulePath : std::uint8_t { put, get };

/// A point of the schedule space: decisions from which make_plan() makes a plan for any operator.
struct Schedule {
  SchedulePattern pattern = SchedulePattern::serial;  ///< `serial` uses only the field `path`.
  ScheduleShape shape = ScheduleShape::rows;          ///< Direction of the cuts.
  ScheduleStart start = ScheduleStart::own_first;     ///< When a rank computes its own part.
  ScheduleGrain grain = ScheduleGrain::per_piece;     ///< Extent of one product.
  unsigned chunks = 1;  ///< Number of chunks of the data from one rank to another; 1 to 4096.
  SchedulePath path = SchedulePath::put;  ///< Active rank of a transfer.
  friend auto operator<=>(const Schedule&, const Schedule&) = default;
};

/// Text of a schedule: "ring rows own-first piece 4 put", "serial put".
[[nodiscard]] GANTRY_API std::string to_string(const Schedule& schedule);
/// Reads the text of a schedule. Errors: `invalid_argument`.
[[nodiscard]] GANTRY_API Result<Schedule> parse_schedule(std::string_view text);

/// A decision as one line of text: "gantry-schedule 1 all-gather-gemm ring rows own-first piece 4
/// put".
struct ScheduleSentence {
  /// Kind of operator for which the schedule was chosen.
  OverlapKind kind = OverlapKind::all_gather_gemm;
  Schedule schedule;  ///< The chosen schedule.
  friend bool operator==(const ScheduleSentence&, const ScheduleSentence&) = default;
};
[[nodiscard]] GANTRY_API std::string to_string(const ScheduleSentence& sentence);
/// Reads the line of a ScheduleSentence. Errors: `invalid_argument`.
[[nodiscard]] GANTRY_API Result<ScheduleSentence> parse_sentence(std::string_view text);

/// Conditions on a schedule.
struct ScheduleConstraints {
  Bytes at_most = ~Bytes{0};  ///< Limit for the tensors of a rank.
  /// A direction that must not be cut. An uncut depth is summed in the same order as in one
  /// product.
  std::optional<ScheduleShape> no_split{};
  bool same_place = false;  ///< Copies within a rank are forbidden.
  bool replicated = false;  ///< At the end every rank must have all of A (all_gather_gemm only).
};

/// Makes the plan of a schedule. Its first tensors are `a`, `b`, `c`; further tensors are scratch.
/// Each tensor has the size that the largest rank needs.
///   all_gather_gemm:     a is m x k, of which each rank gives its rows; b is k x its columns; c is
///                        m x its columns.
///   gemm_reduce_scatter: a is m x its depth; b is its depth x n; c is m x n, of which the rank
///                        wants its rows.
///   all_to_all_gemm:     a is its rows x k, in the order of their receivers; b is k x n; c is the
///                        rows for this rank x n, in the order of their senders.
/// check_plan() accepts the result: with hundreds of ranks, the peers of each rank share the lanes
/// that check_plan() has room for. A plan with more steps than check_plan() accepts, even with two
/// lanes per rank, is `too_large`.
/// Plan::about is "all-gather-gemm of 200 x 100 x 300 f32: ring rows own-first piece 1 put".
/// Errors: `invalid_argument`; `too_large`.
[[nodiscard]] GANTRY_API Result<Plan> make_plan(const OverlapOperator& op,
                                                const Schedule& schedule);

/// The representative of all schedules that give the same plan for this operator. Errors:
/// `invalid_argument`, `too_large`.
[[nodiscard]] GANTRY_API Result<Schedule> canonical(const OverlapOperator& op,
                                                    const Schedule& schedule);

/// All schedules that differ for this operator and meet the constraints, serial first. Errors:
/// `invalid_argument`, `too_large`.
[[nodiscard]] GANTRY_API Result<std::vector<Schedule>> schedules_of(
    const OverlapOperator& op, const ScheduleConstraints& constraints = {});

/// Bytes of tensors on each rank. Errors: as make_plan().
[[nodiscard]] GANTRY_API Result<Bytes> memory_of(const OverlapOperator& op,
                                                 const Schedule& schedule);

// ---- choice of a schedule for an operator -------------------------------------------------------

/// A rule that excludes schedules before any simulation.
struct ChoiceRule {
  std::string_view name;    ///< Name for ChoiceOptions::without.
  std::string_view reason;  ///< Why such schedules do not pay, for people.
};
/// All rules, in the order of their application.
[[nodiscard]] GANTRY_API std::span<const ChoiceRule> choice_rules() noexcept;

/// Conditions and effort of the choice.
struct ChoiceOptions {
  ScheduleConstraints constraints{};   ///< Conditions on every schedule.
  std::vector<std::string> without{};  ///< Names of rules to skip.
  bool rules_only = false;             ///< Do not simulate.
  /// Smallest gain, as a fraction of serial's time; below it, serial is chosen.
  double least_gain = 0.03;
  /// Number of schedules to simulate, the best by estimate. 0: as rules_only.
  unsigned most_simulated = 12;
};

/// A schedule that was considered.
struct ChoiceCandidate {
  Schedule schedule;  ///< The schedule.
  /// Name of the rule that excluded it; "estimate" if the estimates of others were better;
  /// "too-large" for a plan with too many steps; empty if it was simulated.
  std::string_view pruned_by{};
  double estimated_s = 0;   ///< Time by closed forms; 0 if a rule excluded it.
  double predicted_s = 0;   ///< Virtual time; 0 if not simulated.
  ScheduleLosses losses{};  ///< Relative to serial; zero if not simulated.
};

/// A schedule that was run.
struct MeasuredSchedule {
  Schedule schedule;   ///< The schedule.
  double seconds = 0;  ///< Median time of the slowest rank.
};

/// The chosen schedule, and the alternatives.
struct Choice {
  Schedule schedule;          ///< The chosen schedule.
  bool is_simulated = false;  ///< Whether both times are simulated; if not, they are estimates.
  double predicted_s = 0;     ///< Predicted time of the chosen schedule.
  double serial_s = 0;        ///< Predicted time of serial.
  std::string decided{};      ///< Reason for the choice; one line.
  std::vector<ChoiceCandidate> candidates{};  ///< All schedules that were considered.
  /// The chosen schedule first (the fastest, or serial if none is 3 % faster), early losers last;
  /// empty unless a group ran some: ShardedProductOptions::measure_best.
  std::vector<MeasuredSchedule> measured{};
};

/// Chooses a schedule by rules and estimates, then by simulating the remaining ones. Equal
/// arguments give equal results on every rank. Among equals it prefers serial, then the simpler
/// schedule. Errors: `invalid_argument`; `too_large` beyond about 500 ranks, where no plan can be
/// checked; `unsupported` if no schedule meets the constraints.
[[nodiscard]] GANTRY_API Result<Choice> choose(const OverlapOperator& op,
                                               const ScheduleCosts& costs,
                                               const ChoiceOptions& options = {});

/// Result of a search.
struct Searched {
  Schedule schedule;       ///< The best schedule that was found.
  double predicted_s = 0;  ///< Its virtual time.
  /// False: a plan for so many ranks is too large for check_plan(), so make_plan() cannot make it;
  /// predicted_s is then the time of an unchecked plan.
  bool is_provable = true;
  unsigned evaluated = 0;  ///< Number of schedules that were simulated.
  std::size_t space = 0;   ///< Number of schedules in the space.
};
/// Starts from the rules' choice and improves one axis after another while that helps. Simulates at
/// most a tenth of the space, and 2^24 steps in all, but at least four schedules. Errors: as
/// choose(); `too_large` beyond about a thousand ranks.
[[nodiscard]] GANTRY_API Result<Searched> search(const OverlapOperator& op,
                                                 const ScheduleCosts& costs,
                                                 const ScheduleConstraints& constraints = {});

// ---- running a plan together with the other ranks of a group ------------------------------------

class Device;
class DeviceBuffer;
class DeviceGemmLibrary;

/// The memory of a rank's tensor.
struct PlanMemory {
  /// Null: this rank does not have the tensor, and no step may touch it.
  std::byte* data = nullptr;
  /// Bytes between the starts of rows; 0: rows without gaps.
  Bytes stride = 0;
  /// The region of the memory, if any: ranks on one machine then copy from it directly.
  const Region* region = nullptr;
  /// If set, replaces `data`: memory of PlanExecutorOptions::device that only products touch, used
  /// from its first byte. It holds given contents before a run and wanted contents after it.
  const DeviceBuffer* buffer = nullptr;
};

/// Memory for the tensors that a rank's steps touch, in one region.
struct GANTRY_API PlanBuffers {
  std::unique_ptr<Region> region;   ///< Holds the tensors that are not in the caller's memory.
  std::vector<PlanMemory> tensors;  ///< Indexed as Plan::tensors.
  /// Allocates rows without gaps; each tensor begins at a cache line. `own`: the caller's memory by
  /// tensor, used where it is given. Errors: `invalid_argument`, `too_large`, `out_of_memory`.
  [[nodiscard]] static Result<PlanBuffers> make(const Plan& plan, unsigned rank,
                                                std::span<const PlanMemory> own = {});
};

/// Result of a run at this rank.
struct PlanRun {
  std::chrono::nanoseconds elapsed{};    ///< From the call to its return.
  std::chrono::nanoseconds computing{};  ///< Part of `elapsed` spent on products, copies and sums.
  std::uint64_t steps = 0;               ///< Steps of this rank; a barrier counts as two.
  Bytes sent = 0;      ///< Bytes of this rank's puts, and of other ranks' gets from it.
  Bytes received = 0;  ///< Bytes that arrived in this rank's memory.
  /// Number of signals that do not belong to a step of this run; 0 unless a rank misbehaves.
  std::uint64_t dropped_signals = 0;
};

/// Compute resources and limits of a rank.
struct PlanExecutorOptions {
  PlanLimits limits{};  ///< For check_plan().
  /// Computes products. Null: open_gemm() without options, if the plan has products.
  std::shared_ptr<GemmLibrary> gemm = {};
  /// If set, computes the products instead. Products are queued as soon as their inputs have
  /// arrived, together with the copies of inputs in host memory; a copied part is reused until the
  /// host writes it. Ranks may have different devices.
  std::shared_ptr<Device> device = {};
  std::shared_ptr<DeviceGemmLibrary> device_gemm = {};  ///< Null: open_gemm(device).
};

/// One rank's part in a plan. Move-only. A thread of the executor computes; the calling thread
/// serves the links. Memory and group must outlive the executor.
class GANTRY_API PlanExecutor {
 public:
  /// All ranks must prepare the same plan. Errors: those of check_plan(); `invalid_argument`
  /// for missing memory, for a group of another size, and when ranks have different plans;
  /// `unsupported` without a library for its products; the error that ended the group.
  [[nodiscard]] static Result<PlanExecutor> prepare(Group& group, const Plan& plan,
                                                    std::span<const PlanMemory> memory,
                                                    const PlanExecutorOptions& options = {},
                                                    Deadline deadline = Deadline::never());
  PlanExecutor(PlanExecutor&&) noexcept;
  PlanExecutor& operator=(PlanExecutor&&) noexcept;
  ~PlanExecutor();

  /// Runs the plan; every rank must call it. The given contents must be in place, and the caller
  /// must not touch the plan's memory until it returns. It returns when all steps of this rank and
  /// all transfers by others to and from its memory have ended. Later bytes do not land there, even
  /// after an error; the contents are then undefined. (Only a device that was given up by
  /// Device::abandon() may end a copy later.) Errors name the failed rank, its step and the reason,
  /// equal at all ranks: `peer_gone`, `timed_out` (other ranks then fail, too), `interrupted`,
  /// `peer_misbehaved`, those of a product.
  [[nodiscard]] Result<PlanRun> run(Deadline deadline = Deadline::never());

  /// Cost of the plan.
  [[nodiscard]] const PlanFacts& facts() const noexcept;

  class Impl;

 private:
  explicit PlanExecutor(std::unique_ptr<Impl> impl) noexcept;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gantry
