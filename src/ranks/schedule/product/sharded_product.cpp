#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <gantry/gemm.hpp>
#include <gantry/product.hpp>

#include "core/base/os/fd.hpp"
#include "core/base/text_lines.hpp"
#include "ranks/schedule/plan.hpp"
#include "ranks/schedule/product/contest.hpp"

namespace gantry {
namespace {

constexpr const char* kLogVariable = "GANTRY_SCHEDULE_LOG";

// The tensors of make_plan().
constexpr unsigned kA = 0;
constexpr unsigned kB = 1;
constexpr unsigned kC = 2;

std::string log_of(const ShardedProductOptions& options) {
  const char* const named = ::secure_getenv(kLogVariable);
  return options.log.empty() && named != nullptr ? named : options.log;
}

Result<void> open_libraries(ShardedProductOptions& options) {
  if (options.device != nullptr && options.device_gemm == nullptr) {
    GANTRY_ASSIGN(options.device_gemm, open_gemm(options.device));
  }
  if (options.gemm != nullptr) return {};
  if (options.device == nullptr) {
    GANTRY_ASSIGN(options.gemm, open_gemm());
  } else {  // costs are measured by it, with the copies to the device and back
    GANTRY_ASSIGN(options.gemm, make_host_gemm(options.device, options.device_gemm));
  }
  return {};
}

Result<Choice> choice_of(Group& group, const OverlapOperator& op,
                         const ShardedProductOptions& options, Deadline deadline) {
  if (options.schedule) {
    Choice asked;
    asked.schedule = *options.schedule;
    asked.decided = "it was asked for";
    return asked;
  }
  ScheduleCosts costs;
  if (options.costs) {
    costs = *options.costs;
  } else {
    GANTRY_ASSIGN(costs, measure_costs(group, op, options.gemm, deadline));
  }
  GANTRY_ASSIGN(Choice choice, choose(op, costs, options.choice));
  if (options.measure_best == 0) return choice;
  return choose_by_running(group, op, std::move(choice), options, deadline);
}

/// A line of the log. One write(2): lines of several processes do not mix.
void note(const std::string& log, const OverlapOperator& op, double predicted_s, double serial_s,
          std::string_view key, double seconds, const Schedule& schedule) noexcept {
  if (log.empty()) return;
  const auto noted = guarded([&]() -> Result<void> {
    const Fd file(::open(log.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644));
    if (!file) return fail_errno(log);
    const std::string line = fmt::format(
        "gantry-schedule-log 1 ranks={} m={} n={} k={} type={}{} predicted_s={:.6g} "
        "serial_s={:.6g} {}={:.6g} {}\n",
        op.ranks, op.m, op.n, op.k, op.type.code == DataType::bfloat ? "bf" : "f", op.type.bits,
        predicted_s, serial_s, key, seconds, to_string(ScheduleSentence{op.kind, schedule}));
    if (::write(file.get(), line.data(), line.size()) < 0) return fail_errno(log);
    return {};
  });
  static_cast<void>(noted);  // a log that cannot be written costs nobody a product
}

void note_contest(const std::string& log, const OverlapOperator& op, const Choice& choice) {
  for (const MeasuredSchedule& one : choice.measured) {
    const auto known =
        std::ranges::find(choice.candidates, one.schedule, &ChoiceCandidate::schedule);
    const double predicted_s = known == choice.candidates.end() ? 0 : known->predicted_s;
    note(log, op, predicted_s, choice.serial_s, "tried_s", one.seconds, one.schedule);
  }
}

}  // namespace

class ShardedProduct::Impl {
 public:
  Impl(Group& ranks, const OverlapOperator& what, Choice taken, Plan made, PlanBuffers memory,
       PlanExecutor prepared, std::string path)
      : rank(ranks.rank()),
        op(what),
        choice(std::move(taken)),
        plan(std::move(made)),
        buffers(std::move(memory)),
        executor(std::move(prepared)),
        log(std::move(path)) {}

  /// The smallest rectangle that holds all of `values` that lie in that tensor of this rank.
  [[nodiscard]] MatrixPart part(const std::vector<PlanValue>& values, unsigned tensor) const {
    std::optional<PlanRect> all;
    for (const PlanValue& value : values) {
      const PlanRect& rect = value.place.rect;
      if (value.place.rank != rank || value.place.tensor != tensor) continue;
      if (rect.rows == 0 || rect.cols == 0) continue;
      if (!all) {
        all = rect;
        continue;
      }
      const std::int64_t end_row = std::max(all->row + all->rows, rect.row + rect.rows);
      const std::int64_t end_col = std::max(all->col + all->cols, rect.col + rect.cols);
      all->row = std::min(all->row, rect.row);
      all->col = std::min(all->col, rect.col);
      all->rows = end_row - all->row;
      all->cols = end_col - all->col;
    }
    if (!all) return {};
    const PlanTensor& matrix = plan.tensors[tensor];
    const Bytes element = element_bytes(matrix);
    const Bytes stride = static_cast<Bytes>(matrix.cols) * element;
    return {buffers.tensors[tensor].data + static_cast<Bytes>(all->row) * stride +
                static_cast<Bytes>(all->col) * element,
            all->rows, all->cols, stride};
  }

  void note_run(const PlanRun& run) const noexcept {
    if (rank != 0) return;
    note(log, op, choice.predicted_s, choice.serial_s, "measured_s",
         std::chrono::duration<double>(run.elapsed).count(), choice.schedule);
  }

  const unsigned rank;
  const OverlapOperator op;
  const Choice choice;
  const Plan plan;
  const PlanBuffers buffers;
  PlanExecutor executor;
  const std::string log;
};

ShardedProduct::ShardedProduct(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
ShardedProduct::ShardedProduct(ShardedProduct&&) noexcept = default;
ShardedProduct& ShardedProduct::operator=(ShardedProduct&&) noexcept = default;
ShardedProduct::~ShardedProduct() = default;

Result<ShardedProduct> ShardedProduct::prepare(Group& group, const OverlapOperator& op,
                                               const ShardedProductOptions& options,
                                               Deadline deadline) {
  const auto make = [&]() -> Result<ShardedProduct> {
    ShardedProductOptions with = options;
    GANTRY_TRY(open_libraries(with));
    GANTRY_ASSIGN(Choice choice, choice_of(group, op, with, deadline));
    if (group.rank() == 0) note_contest(log_of(with), op, choice);
    GANTRY_ASSIGN(Plan plan, make_plan(op, choice.schedule));
    GANTRY_ASSIGN(PlanBuffers buffers, PlanBuffers::make(plan, group.rank()));
    GANTRY_ASSIGN(PlanExecutor executor, PlanExecutor::prepare(group, plan, buffers.tensors,
                                                               executor_options(with), deadline));
    return ShardedProduct(std::make_unique<Impl>(group, op, std::move(choice), std::move(plan),
                                                 std::move(buffers), std::move(executor),
                                                 log_of(with)));
  };
  return guarded([&]() -> Result<ShardedProduct> {
    Group::Impl& ranks = group.impl();
    if (ranks.failure()) return tl::unexpected(*ranks.failure());
    auto made = make();
    if (made || ranks.failure()) return made;
    // What fails here alone, the others would wait for.
    const auto held = ranks.hold();
    return tl::unexpected(
        ranks.break_with(prefixed(std::move(made).error(), "rank {}", group.rank()).value()));
  });
}

MatrixPart ShardedProduct::a() const {
  return impl_->part(impl_->plan.given, kA);
}
MatrixPart ShardedProduct::b() const {
  return impl_->part(impl_->plan.given, kB);
}
MatrixPart ShardedProduct::c() const {
  return impl_->part(impl_->plan.wanted, kC);
}
const Choice& ShardedProduct::choice() const noexcept {
  return impl_->choice;
}

std::string ShardedProduct::explain() const {
  const Choice& choice = impl_->choice;
  std::string text = to_string(ScheduleSentence{impl_->op.kind, choice.schedule});
  if (choice.predicted_s > 0)
    text += fmt::format("\npredicted {:.3g} ms, serial {:.3g} ms", choice.predicted_s * 1e3,
                        choice.serial_s * 1e3);
  return text + "\n" + choice.decided;
}

Result<PlanRun> ShardedProduct::run(Deadline deadline) {
  auto run = impl_->executor.run(deadline);
  if (run) impl_->note_run(*run);
  return run;
}

}  // namespace gantry
