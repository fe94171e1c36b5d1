#pragma once  // gantry/schedule/collectives.hpp: all-reduce and the like, by a group's ranks.

#include <gantry/schedule/collective.hpp>
#include <gantry/schedule/executor.hpp>

namespace gantry {

/// Elements one after another. Memory and region must outlive the call, or the Collective.
struct CollectiveTensor {
  std::byte* data = nullptr;  ///< At a multiple of an element's size. Null: none, of 0 elements.
  std::int64_t size = 0;      ///< In elements.
  DataType type{DataType::floating, 32, 1};  ///< f64, f32, f16, bf16, i32 or i64.
  /// The region in which it lies, if any: ranks of one machine then copy from it directly.
  const Region* region = nullptr;
};

/// Piece i of `size` elements in `ranks` goes from size * i / ranks to size * (i + 1) / ranks.
enum class CollectiveKind : std::uint8_t {
  all_gather,      ///< Piece i of the tensor is rank i's; in the end every rank has all of it.
  reduce_scatter,  ///< In the end piece i of rank i's is the sum of all ranks'. The library's
                   ///< programs leave the rest of the tensor as it was.
  all_reduce,      ///< In the end every rank's tensor is the sum of all.
  all_to_all,      ///< Piece i of rank r's tensor goes to rank i's result, there at r times the
                   ///< piece's length; or as counts say.
  broadcast,       ///< In the end every rank has the root's tensor.
};
[[nodiscard]] GANTRY_API std::string_view to_string(CollectiveKind kind) noexcept;

/// What the ranks do together. All say the same but for the memory.
struct CollectiveCall {
  CollectiveKind kind = CollectiveKind::all_reduce;  ///< Which collective.
  CollectiveTensor tensor;  ///< What this rank gives and, unless there is a `result`, gets.
  /// Of all_to_all: what comes in; it does not overlap `tensor`, and has room for `ranks` pieces of
  /// the largest size.
  CollectiveTensor result = {};
  unsigned root = 0;  ///< Of a broadcast: whose tensor all get.
  /// Of all_to_all: rank r has counts[r * ranks + q] elements for rank q; they lie in the order of
  /// the ranks without gaps, in the result, too. Both tensors have room for the most that any rank
  /// has or gets. Empty: pieces.
  std::vector<std::int64_t> counts = {};
};

/// The same at all ranks.
struct CollectiveOptions {
  std::string program = {};  ///< A name or a path as load_collective() takes it; empty: picked.
  std::string variant = {};  ///< Empty: the picked one, or the program's first.
  std::int64_t chunks = 0;   ///< 0: the picked number, or 1.
  /// By which pick_collective() decides. None: those for the links that the group has. A group with
  /// links of several kinds has to be given some.
  std::optional<CollectiveThresholds> thresholds = {};
};

/// Thresholds that were measured on groups of one machine, by shared links and by streams.
[[nodiscard]] GANTRY_API CollectiveThresholds collective_thresholds(LinkKind kind,
                                                                    unsigned ranks) noexcept;

/// A collective that is ready to be run, any number of times, on the same memory: a program,
/// expanded, proved, and known at all ranks. Move-only. The group must outlive it.
class GANTRY_API Collective {
 public:
  /// Every rank calls it. Scratch memory comes with it. A program must make a plan that comes to
  /// what the kind says, whoever wrote it. When a rank fails, here too, the group is broken and all
  /// ranks get the same error. Errors: `invalid_argument` for tensors, a program, or ranks that
  /// differ; those of load_collective(), expand() and PlanExecutor::prepare().
  [[nodiscard]] static Result<Collective> prepare(Group& group, const CollectiveCall& call,
                                                  const CollectiveOptions& options = {},
                                                  Deadline deadline = Deadline::never());
  Collective(Collective&&) noexcept;
  Collective& operator=(Collective&&) noexcept;
  ~Collective();

  /// Every rank calls it. As PlanExecutor::run().
  [[nodiscard]] Result<PlanRun> run(Deadline deadline = Deadline::never());

  [[nodiscard]] const CollectiveChoice& choice() const noexcept;  ///< What was taken, and why.
  /// What the plan that it runs costs.
  [[nodiscard]] const PlanFacts& facts() const noexcept;

 private:
  struct Impl;
  explicit Collective(std::unique_ptr<Impl> impl) noexcept;
  std::unique_ptr<Impl> impl_;
};

// Each prepares and runs once. Preparing takes longer than running small ones: who repeats a call
// keeps a Collective.

/// Each rank gives its part; all get all parts, in the order of the ranks.
[[nodiscard]] GANTRY_API Result<PlanRun> all_gather(Group& group, const CollectiveTensor& tensor,
                                                    const CollectiveOptions& options = {},
                                                    Deadline deadline = Deadline::never());
/// Each rank gives all parts; each gets the sum of its own.
[[nodiscard]] GANTRY_API Result<PlanRun> reduce_scatter(Group& group,
                                                        const CollectiveTensor& tensor,
                                                        const CollectiveOptions& options = {},
                                                        Deadline deadline = Deadline::never());
/// Each rank gives a whole; all get the sum.
[[nodiscard]] GANTRY_API Result<PlanRun> all_reduce(Group& group, const CollectiveTensor& tensor,
                                                    const CollectiveOptions& options = {},
                                                    Deadline deadline = Deadline::never());
/// All get what `root` gives.
[[nodiscard]] GANTRY_API Result<PlanRun> broadcast(Group& group, const CollectiveTensor& tensor,
                                                   unsigned root,
                                                   const CollectiveOptions& options = {},
                                                   Deadline deadline = Deadline::never());
/// `counts`: as in CollectiveCall; empty: pieces.
[[nodiscard]] GANTRY_API Result<PlanRun> all_to_all(Group& group, const CollectiveTensor& tensor,
                                                    const CollectiveTensor& result,
                                                    std::vector<std::int64_t> counts = {},
                                                    const CollectiveOptions& options = {},
                                                    Deadline deadline = Deadline::never());

}  // namespace gantry
