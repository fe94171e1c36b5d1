#pragma once  // gantry/product.hpp: sharded products, computed while their data moves.

#include <gantry/plan.hpp>

namespace gantry {

/// Measures the cost of products, transfers and sums in this group, for choose(). Every rank must
/// call it with the same operator; all ranks get the costs that rank 0 measured. Runs the
/// operator's product and transfers of 1 MiB several times. Errors: `unsupported` for a type that
/// the library does not take; the error that ended the group; `timed_out`.
[[nodiscard]] GANTRY_API Result<ScheduleCosts> measure_costs(Group& group,
                                                             const OverlapOperator& op,
                                                             std::shared_ptr<GemmLibrary> gemm = {},
                                                             Deadline deadline = Deadline::never());

/// How prepare() finds the schedule, and the libraries that compute.
struct ShardedProductOptions {
  std::optional<ScheduleCosts> costs{};  ///< Empty: measured by measure_costs().
  /// If set, this schedule is used, and nothing is measured or chosen.
  std::optional<Schedule> schedule{};
  ChoiceOptions choice{};  ///< For choose(), if `schedule` is empty.
  /// prepare() runs this many promising schedules, and the serial one as well, a few times each and
  /// takes the fastest. 0: the prediction decides.
  unsigned measure_best = 4;
  std::shared_ptr<GemmLibrary> gemm{};               ///< Null: open_gemm() without options.
  std::shared_ptr<Device> device{};                  ///< As PlanExecutorOptions::device.
  std::shared_ptr<DeviceGemmLibrary> device_gemm{};  ///< Null: open_gemm(device).
  /// File to which each run appends a line with the operator, the ScheduleSentence, the predicted
  /// and the actual time; prepare() appends one for each schedule that it ran. Empty: the file
  /// named by $GANTRY_SCHEDULE_LOG, if set.
  std::string log{};
};

/// A rank's part of a matrix: `rows` rows of `cols` elements from `data` on; rows start `stride`
/// bytes apart.
struct MatrixPart {
  std::byte* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  Bytes stride = 0;
};

/// One rank's part in a product of matrices that are distributed over all ranks of a group: chosen,
/// planned, checked and prepared once, then run any number of times. Move-only; the group must
/// outlive it.
class GANTRY_API ShardedProduct {
 public:
  /// Every rank must call prepare() with the same operator and options. Unless `schedule` is set,
  /// prepare() runs the product a few dozen times to find a schedule. Errors: those of
  /// measure_costs(), choose(), make_plan() and PlanExecutor::prepare().
  [[nodiscard]] static Result<ShardedProduct> prepare(Group& group, const OverlapOperator& op,
                                                      const ShardedProductOptions& options = {},
                                                      Deadline deadline = Deadline::never());
  ShardedProduct(ShardedProduct&&) noexcept;
  ShardedProduct& operator=(ShardedProduct&&) noexcept;
  ~ShardedProduct();

  // The inputs of this rank, to be filled before run(), and its result. They lie in the product's
  // own memory, whose other parts hold data from other ranks.
  [[nodiscard]] MatrixPart a() const;
  /// This rank's part of B.
  [[nodiscard]] MatrixPart b() const;
  /// This rank's part of the product.
  [[nodiscard]] MatrixPart c() const;

  /// The chosen schedule and its alternatives.
  [[nodiscard]] const Choice& choice() const noexcept;
  /// The sentence, its predicted time, and the reason for the choice; for people.
  [[nodiscard]] std::string explain() const;
  /// Runs the product; every rank must call it. Errors: as PlanExecutor::run().
  [[nodiscard]] Result<PlanRun> run(Deadline deadline = Deadline::never());

  class Impl;

 private:
  explicit ShardedProduct(std::unique_ptr<Impl> impl) noexcept;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gantry
