#pragma once  // gantry/collectives.hpp: all-reduce and others, as programs that become plans.

#include <gantry/plan.hpp>
#include <memory>
#include <string>
#include <vector>

namespace gantry {

namespace collective {
struct Script;
}
class CollectiveProgram;

/// Parameters for expanding a program, equal at all ranks of the group.
struct CollectiveShape {
  unsigned ranks = 1;     ///< 1 to 4096.
  std::int64_t size = 0;  ///< Number of elements of the tensor that the program names.
  DataType type{DataType::floating, 32, 1};  ///< f64, f32, f16, bf16, i32 or i64.
  std::int64_t chunks = 1;  ///< Number of pieces into which a transfer is cut; at least 1.
  unsigned root = 0;        ///< Below `ranks`, even if the program does not use it.
  std::vector<std::int64_t> counts = {};  ///< Empty unless the program takes counts.
  std::string variant = {};               ///< Name of a variant; empty: the program's first.
};

/// Reads a program. Errors: `invalid_argument`: "line 7: what: why"; `too_large`.
[[nodiscard]] GANTRY_API Result<CollectiveProgram> parse_collective(std::string_view text);

/// Makes the plan for a shape, without checking it: check_plan() proves that it gives the wanted
/// contents. Time and memory are bounded for every program. Errors: `invalid_argument`: "line 7:
/// what", or, for steps whose shapes do not fit, the message of check_plan(); `too_large`.
[[nodiscard]] GANTRY_API Result<Plan> expand(const CollectiveProgram& program,
                                             const CollectiveShape& shape);

/// A collective as text: docs/formats/collective.md. It is symbolic in ranks and sizes; expand()
/// makes a plan of it. An immutable value; copies share the parsed text.
class GANTRY_API CollectiveProgram {
 public:
  CollectiveProgram(const CollectiveProgram&) = default;  // a moved-from program is unchanged
  CollectiveProgram& operator=(const CollectiveProgram&) = default;
  ~CollectiveProgram() = default;

  /// Name in its file, or given by its maker.
  [[nodiscard]] const std::string& name() const noexcept;
  /// Its effect, its inputs, and the tensors of its results; one line.
  [[nodiscard]] const std::string& about() const noexcept;
  /// Possible values of CollectiveShape::variant; empty if there is only one way.
  [[nodiscard]] const std::vector<std::string>& variants() const noexcept;

 private:
  friend Result<CollectiveProgram> parse_collective(std::string_view text);
  friend Result<Plan> expand(const CollectiveProgram& program, const CollectiveShape& shape);
  GANTRY_LOCAL explicit CollectiveProgram(std::shared_ptr<const collective::Script> script) noexcept
      : script_(std::move(script)) {}
  std::shared_ptr<const collective::Script> script_;
};

/// The programs of the library, by name, and those in the files `*.gcoll` of `folder`, if given.
/// Errors: those of load_collective(), with the file's name; `already_exists` if two programs have
/// the same name.
[[nodiscard]] GANTRY_API Result<std::vector<CollectiveProgram>> list_collectives(
    const std::string& folder = {});

/// Returns a program of the library by its name, or reads one from a file, if `what` contains a '/'
/// or ends in ".gcoll". Errors: `not_found`; `invalid_argument`, `too_large` as parse_collective(),
/// with the file's name; those of the kernel.
[[nodiscard]] GANTRY_API Result<CollectiveProgram> load_collective(const std::string& what);

/// Sizes at which one method of a collective gives way to another. The defaults are assumptions,
/// not measurements; prefer a calibration.
struct CollectiveThresholds {
  Bytes eager = Bytes{64} << 10;   ///< Largest transfer that is put at once.
  Bytes direct = Bytes{64} << 10;  ///< Largest number of bytes that a rank sends in one step.
  /// Largest total size for exchanging between all pairs at once, if values are added on the way. A
  /// ring uses one link per rank, so on a mesh set `at_once` as high as possible.
  Bytes at_once = Bytes{1} << 20;
  /// As at_once, for collectives that do not add values on the way.
  Bytes moved_at_once = Bytes{1} << 20;
  Bytes chunk = Bytes{256} << 10;  ///< Size of the pieces that a ring or a chain forwards.
  std::int64_t most_chunks = 16;   ///< Largest number of pieces of a transfer.
};

/// The program for a collective of a given size.
struct CollectiveChoice {
  std::string program;      ///< For load_collective().
  std::string variant;      ///< CollectiveShape::variant.
  std::int64_t chunks = 1;  ///< CollectiveShape::chunks.
  std::string reason;       ///< Reason for the choice; one line.
};

/// Picks the program for `bytes` in `ranks` ranks, for "all-gather", "reduce-scatter",
/// "all-reduce", "all-to-all", "all-to-all-counts" and "broadcast". `bytes` is the size of the
/// program's `size` elements. The result is equal on every machine. Errors: `not_found`;
/// `invalid_argument` if `ranks` is 0.
[[nodiscard]] GANTRY_API Result<CollectiveChoice> pick_collective(
    std::string_view collective, unsigned ranks, Bytes bytes,
    const CollectiveThresholds& thresholds = {});

// ---- all-reduce and other collectives, by a group's ranks ---------------------------------------

/// Adjacent elements. Memory and region must outlive the call, or the Collective.
struct CollectiveTensor {
  std::byte* data = nullptr;  ///< Aligned to an element's size. Null: no memory, if `size` is 0.
  std::int64_t size = 0;      ///< Number of elements.
  DataType type{DataType::floating, 32, 1};  ///< f64, f32, f16, bf16, i32 or i64.
  /// The region of the memory, if any: ranks on one machine then copy from it directly.
  const Region* region = nullptr;
};

/// Kinds of collectives. Piece i of `size` elements for `ranks` ranks begins at element size * i /
/// ranks and ends before element size * (i + 1) / ranks.
enum class CollectiveKind : std::uint8_t {
  all_gather,  ///< Piece i comes from rank i; at the end every rank has all pieces.
  /// At the end, piece i at rank i is the sum of the pieces i of all ranks. The library's programs
  /// leave the other pieces unchanged.
  reduce_scatter,
  all_reduce,  ///< At the end every rank's tensor is the sum of all.
  /// Piece i of rank r's tensor goes to rank i's result, at r times the piece's length; or as
  /// `counts` say.
  all_to_all,
  broadcast,  ///< At the end every rank has the root's tensor.
};
[[nodiscard]] GANTRY_API std::string_view to_string(CollectiveKind kind) noexcept;

/// A collective call. Equal at all ranks, except for the memory.
struct CollectiveCall {
  CollectiveKind kind = CollectiveKind::all_reduce;  ///< The collective.
  CollectiveTensor tensor;  ///< Input of this rank; also its output, unless `result` is used.
  /// For all_to_all: the output; it must not overlap `tensor`, and must have room for `ranks`
  /// pieces of the largest size.
  CollectiveTensor result = {};
  unsigned root = 0;  ///< For broadcast: the rank whose tensor all ranks get.
  /// For all_to_all: rank r has counts[r * ranks + q] elements for rank q. They lie in the order of
  /// the ranks without gaps, also in the result. Both tensors must have room for the largest total
  /// that any rank has or gets. Empty: pieces.
  std::vector<std::int64_t> counts = {};
};

/// Options of a collective, equal at all ranks.
struct CollectiveOptions {
  /// A name or a path for load_collective(); empty: chosen by pick_collective().
  std::string program = {};
  std::string variant = {};  ///< Empty: chosen with the program, or the program's first.
  std::int64_t chunks = 0;   ///< 0: chosen with the program, or 1.
  /// Thresholds for pick_collective(). Empty: those of collective_thresholds() for the kind of the
  /// group's links. Required if the group has links of several kinds.
  std::optional<CollectiveThresholds> thresholds = {};
};

/// Thresholds that were measured on groups of one machine, over shared links and over streams.
[[nodiscard]] GANTRY_API CollectiveThresholds collective_thresholds(LinkKind kind,
                                                                    unsigned ranks) noexcept;

/// A prepared collective that can run any number of times on the same memory: its program is
/// expanded, checked, and known at all ranks. Move-only. The group must outlive it.
class GANTRY_API Collective {
 public:
  /// Prepares a collective and its scratch memory; every rank must call it. The program's plan must
  /// have the effect of `call.kind`, also if the program is a file. When a rank fails, the group is
  /// broken, and all ranks get the same error. Errors: `invalid_argument` for tensors, for a
  /// program, or if ranks differ; those of load_collective(), expand() and PlanExecutor::prepare().
  [[nodiscard]] static Result<Collective> prepare(Group& group, const CollectiveCall& call,
                                                  const CollectiveOptions& options = {},
                                                  Deadline deadline = Deadline::never());
  Collective(Collective&&) noexcept;
  Collective& operator=(Collective&&) noexcept;
  ~Collective();

  /// Runs the collective; every rank must call it. As PlanExecutor::run().
  [[nodiscard]] Result<PlanRun> run(Deadline deadline = Deadline::never());

  [[nodiscard]] const CollectiveChoice& choice() const noexcept;  ///< The program in use, and why.
  /// Cost of the plan.
  [[nodiscard]] const PlanFacts& facts() const noexcept;

 private:
  struct Impl;
  explicit Collective(std::unique_ptr<Impl> impl) noexcept;
  std::unique_ptr<Impl> impl_;
};

// Each function below prepares and runs a collective once. For small sizes, preparing takes longer
// than running: for repeated calls, keep a Collective.

/// Each rank gives its piece; all ranks get all pieces, in the order of the ranks.
[[nodiscard]] GANTRY_API Result<PlanRun> all_gather(Group& group, const CollectiveTensor& tensor,
                                                    const CollectiveOptions& options = {},
                                                    Deadline deadline = Deadline::never());
/// Each rank gives all pieces; rank i gets the sum of all pieces i.
[[nodiscard]] GANTRY_API Result<PlanRun> reduce_scatter(Group& group,
                                                        const CollectiveTensor& tensor,
                                                        const CollectiveOptions& options = {},
                                                        Deadline deadline = Deadline::never());
/// Each rank gives a whole tensor; all ranks get the sum.
[[nodiscard]] GANTRY_API Result<PlanRun> all_reduce(Group& group, const CollectiveTensor& tensor,
                                                    const CollectiveOptions& options = {},
                                                    Deadline deadline = Deadline::never());
/// All ranks get the tensor of `root`.
[[nodiscard]] GANTRY_API Result<PlanRun> broadcast(Group& group, const CollectiveTensor& tensor,
                                                   unsigned root,
                                                   const CollectiveOptions& options = {},
                                                   Deadline deadline = Deadline::never());
/// Each rank gives a piece to every rank. `counts`: as CollectiveCall::counts; empty: pieces.
[[nodiscard]] GANTRY_API Result<PlanRun> all_to_all(Group& group, const CollectiveTensor& tensor,
                                                    const CollectiveTensor& result,
                                                    std::vector<std::int64_t> counts = {},
                                                    const CollectiveOptions& options = {},
                                                    Deadline deadline = Deadline::never());

}  // namespace gantry
