#pragma once  // gantry/schedule/product.hpp: sharded products, computed while their data moves.

#include <gantry/schedule/choice.hpp>
#include <gantry/schedule/executor.hpp>

namespace gantry {

/// Measures what products, transfers and sums cost this group, for choose(). Every rank calls it,
/// with the same operator; all get the same costs, those that rank 0 saw. It takes some runs of
/// the operator's product and of transfers of a mebibyte. Errors: `unsupported` for a type that the
/// library does not take; the group's end; `timed_out`.
[[nodiscard]] GANTRY_API Result<ScheduleCosts> measure_costs(Group& group,
                                                             const OverlapOperator& op,
                                                             std::shared_ptr<GemmLibrary> gemm = {},
                                                             Deadline deadline = Deadline::never());

/// How prepare() finds the schedule, and with what is computed.
struct ShardedProductOptions {
  std::optional<ScheduleCosts> costs{};  ///< None: measure_costs() finds them.
  std::optional<Schedule> schedule{};    ///< This one; nothing is measured or chosen.
  ChoiceOptions choice{};                ///< For choose(), without a `schedule`.
  /// prepare() runs so many of the schedules that promise most, and serial, a few times each, and
  /// takes the quickest. 0: what is predicted decides.
  unsigned measure_best = 4;
  std::shared_ptr<GemmLibrary> gemm{};               ///< Null: open_gemm() without options.
  std::shared_ptr<Device> device{};                  ///< As PlanExecutorOptions::device.
  std::shared_ptr<DeviceGemmLibrary> device_gemm{};  ///< Null: open_gemm(device).
  /// Each run appends a line: operator, sentence, what was predicted, what it took; prepare() one
  /// for each schedule that it ran. Empty: the file that $GANTRY_SCHEDULE_LOG names, if it does.
  std::string log{};
};

/// A rank's part of a matrix: from `data` on `rows` rows of `cols` elements, `stride` bytes apart.
struct MatrixPart {
  std::byte* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  Bytes stride = 0;
};

/// One rank's part in a product of matrices that lie with all ranks of a group: chosen, planned,
/// checked and prepared once, run as often as wanted. Move-only; the group must outlive it.
class GANTRY_API ShardedProduct {
 public:
  /// Every rank calls it, with the same operator and options. Unless a schedule is given it runs
  /// the product some dozens of times to find one. Errors: those of measure_costs(),
  /// choose(), make_plan() and PlanExecutor::prepare().
  [[nodiscard]] static Result<ShardedProduct> prepare(Group& group, const OverlapOperator& op,
                                                      const ShardedProductOptions& options = {},
                                                      Deadline deadline = Deadline::never());
  ShardedProduct(ShardedProduct&&) noexcept;
  ShardedProduct& operator=(ShardedProduct&&) noexcept;
  ~ShardedProduct();

  // What this rank gives, to be filled in before run(), and what it gets. They lie in memory of the
  // product's own; other parts of it hold what others sent.
  [[nodiscard]] MatrixPart a() const;
  /// This rank's part of B.
  [[nodiscard]] MatrixPart b() const;
  /// This rank's part of the product.
  [[nodiscard]] MatrixPart c() const;

  /// What was chosen, and of what.
  [[nodiscard]] const Choice& choice() const noexcept;
  /// The sentence, what is predicted of it, and why it was taken; for people.
  [[nodiscard]] std::string explain() const;
  /// Every rank calls it. Errors: as PlanExecutor::run().
  [[nodiscard]] Result<PlanRun> run(Deadline deadline = Deadline::never());

  class Impl;

 private:
  explicit ShardedProduct(std::unique_ptr<Impl> impl) noexcept;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gantry
