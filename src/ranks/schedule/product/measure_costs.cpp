#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <gantry/product.hpp>

#include "core/base/result.hpp"
#include "ranks/group/group.hpp"
#include "ranks/schedule/plan.hpp"
#include "ranks/schedule/product/contest.hpp"
#include "ranks/schedule/run/host_steps.hpp"
#include "ranks/schedule/space/split.hpp"

namespace gantry {
namespace {

using Clock = std::chrono::steady_clock;

constexpr unsigned kTimes = 3;  // of transfers: the least time counts, and the CPU's mean
constexpr double kLeastSeconds = 5e-3;
constexpr double kMostPasses = 1e3;
constexpr double kLookSeconds = 20e-3;
constexpr std::size_t kFewestSamples = 4;
constexpr std::int64_t kSmallBytes = 64;
constexpr std::int64_t kMostRowBytes = std::int64_t{16} << 10;
constexpr std::int64_t kChunksOfRows = 16;  // the most into which schedules cut columns
constexpr std::int64_t kLargeBytes = std::int64_t{1} << 20;
constexpr unsigned kSmallPuts = 32;
constexpr unsigned kLargePuts = 2;
constexpr DataType kWords{DataType::signed_int, 64, 1};
constexpr std::int64_t kWordBytes = 8;
constexpr double kSharedFrom = 1.1;    // slower than that beside the others: they share CPUs
constexpr double kSwitchedFrom = 1.6;  // slower to all than to one: they share a port

double seconds_since(Clock::time_point began) {
  return std::chrono::duration<double>(Clock::now() - began).count();
}

/// Of the thread that serves the links: others of the process have no part in transfers.
double cpu_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// What is put, and how often. Rows lie side by side, or each next to as much that stays.
struct Puts {
  std::int64_t rows = 1;
  std::int64_t row_bytes = 0;
  bool is_apart = false;
  unsigned count = 1;
  bool to_all = false;  ///< Or to the next rank alone.
};

/// From each rank, one after another.
Plan plan_of(unsigned ranks, const Puts& puts) {
  Plan plan;
  plan.ranks = ranks;
  plan.lanes = std::clamp(ranks - 1, 1u, kMostLanes);
  const std::int64_t words = puts.row_bytes / kWordBytes;
  const std::int64_t width = puts.is_apart ? 2 * words : words;
  plan.tensors = {{"x", puts.rows, width, kWords}, {"y", puts.rows * ranks, width, kWords}};
  for (unsigned rank = 0; rank < ranks; ++rank) {
    plan.given.push_back({{rank, 0, {0, 0, puts.rows, width}}, {{fmt::format("X{}", rank)}}});
    for (unsigned hop = 1; hop < (puts.to_all ? ranks : std::min(ranks, 2u)); ++hop)
      for (unsigned i = 0; i < puts.count; ++i) {
        const PlanRect place{rank * puts.rows, 0, puts.rows, words};
        plan.steps.push_back({PlanVerb::put,
                              rank,
                              (hop - 1) % plan.lanes,
                              {(rank + hop) % ranks, 1, place},
                              {rank, 0, {0, 0, puts.rows, words}},
                              {},
                              false,
                              {}});
      }
  }
  return plan;
}

/// What a plan takes a rank.
struct PlanTimes {
  double seconds = 0;  ///< The least.
  double cpu_s = 0;    ///< The mean.
};

/// The ranks' costs, in turns of what all do together.
class Measurement {
 public:
  Measurement(Group& group, const OverlapOperator& op, std::shared_ptr<GemmLibrary> gemm,
              Deadline deadline)
      : group_(group), op_(op), gemm_(std::move(gemm)), deadline_(deadline) {
    costs_.name = "measured";
  }

  Result<ScheduleCosts> measure() {
    if (!gemm_->takes(op_.type))
      return fail(Code::unsupported, gemm_->facts().library + ": no products of that type");
    GANTRY_TRY(measure_products());
    measure_rows();
    GANTRY_TRY(measure_links());
    return costs_;
  }

 private:
  /// Pieces of the rank's whole product, one after another.
  enum class Cut : std::uint8_t { rows, columns, depth };
  struct Shape {
    std::int64_t m, n, k;
    Cut cut;
    bool adds;
    std::int64_t pieces;
  };
  struct Matrices {
    // Words, so that they are aligned for any type; zeros are numbers of every type.
    std::vector<std::uint64_t> a, b, c;
  };

  /// As schedules cut them: rows, and of what comes in the depth, of what leaves its columns. Some
  /// depths are not added, so that what adding takes can be told from what thin depths take.
  [[nodiscard]] std::vector<Shape> shapes() const {
    const auto part = [this](std::int64_t side) {
      return std::max<std::int64_t>(1, side / static_cast<std::int64_t>(op_.ranks));
    };
    const auto kind = op_.kind;
    const std::int64_t m = kind == OverlapKind::all_to_all_gemm ? part(op_.m) : op_.m;
    const std::int64_t n = kind == OverlapKind::all_gather_gemm ? part(op_.n) : op_.n;
    const std::int64_t k = kind == OverlapKind::gemm_reduce_scatter ? part(op_.k) : op_.k;
    const auto pieces_of = [](std::int64_t side, std::int64_t cut) {
      return std::min(std::max<std::int64_t>(side, 1), cut);
    };
    std::vector<Shape> all;
    for (const std::int64_t cut : {1, 4, 16, 64}) {
      const std::int64_t rows = pieces_of(m, cut);
      const std::int64_t columns = pieces_of(n, cut);
      const std::int64_t depths = pieces_of(k, cut);
      all.push_back({m / rows, n, k, Cut::rows, false, rows});
      if (kind == OverlapKind::gemm_reduce_scatter)
        all.push_back({part(m), n / columns, k, Cut::columns, false, columns});
      else
        for (const bool adds : {true, false})
          all.push_back({part(m), n, k / depths, Cut::depth, adds, depths});
    }
    return all;
  }

  [[nodiscard]] static double operations_of(const Shape& shape) {
    return std::max(
        1.0, static_cast<double>(shape.m * shape.n) * static_cast<double>(shape.k * shape.pieces));
  }

  [[nodiscard]] Matrices matrices_for(const Shape& whole) const {
    const auto words = [&](std::int64_t rows, std::int64_t cols) {
      const auto bytes = static_cast<std::size_t>(rows * cols) * (op_.type.bits / kBitsOfByte);
      return std::vector<std::uint64_t>(bytes / kWordBytes + 1);
    };
    const std::int64_t m = std::max(whole.m, shapes()[1].m);
    return {words(m, whole.k), words(whole.k, whole.n), words(m, whole.n)};
  }

  /// One piece's time, on the mean of so many passes through all pieces.
  Result<double> time_product(Matrices& memory, const Shape& shape, std::int64_t passes) {
    const auto element = static_cast<std::int64_t>(op_.type.bits / kBitsOfByte);
    const Shape whole = shapes().front();
    Gemm product{.type = op_.type, .m = shape.m, .n = shape.n, .k = shape.k, .adds = shape.adds};
    product.a_stride = whole.k;
    product.b_stride = product.c_stride = whole.n;
    const auto multiply = [&](std::int64_t piece) -> Result<void> {
      const std::int64_t row = shape.cut == Cut::rows ? piece * shape.m : 0;
      const std::int64_t col = shape.cut == Cut::columns ? piece * shape.n : 0;
      const std::int64_t depth = shape.cut == Cut::depth ? piece * shape.k : 0;
      const auto at = [&](auto& words, std::int64_t index) {
        return reinterpret_cast<std::byte*>(words.data()) + index * element;
      };
      product.a = at(memory.a, row * whole.k + depth);
      product.b = at(memory.b, depth * whole.n + col);
      product.c = at(memory.c, row * whole.n + col);
      GANTRY_TRY(gemm_->multiply(product));
      return look_up();
    };
    GANTRY_TRY(multiply(0));  // a library's first product is slow
    const auto began = Clock::now();
    for (std::int64_t pass = 0; pass < passes; ++pass)
      for (std::int64_t piece = 0; piece < shape.pieces; ++piece) GANTRY_TRY(multiply(piece));
    return seconds_since(began) / static_cast<double>(passes * shape.pieces);
  }

  /// The whole by rank 0 alone: the least of some times. All hear it.
  Result<double> time_alone(Matrices& memory, const Shape& whole) {
    double least = 0;
    for (unsigned i = 0; i < kTimes && group_.rank() == 0; ++i) {
      GANTRY_ASSIGN(const double seconds, time_product(memory, whole, 1));
      least = i == 0 ? seconds : std::min(least, seconds);
    }
    return slowest_of(group_, least, deadline_);
  }

  /// Now and then between products: whether the others are there, and it is not too late.
  Result<void> look_up() {
    if (seconds_since(looked_) < kLookSeconds) return {};
    looked_ = Clock::now();
    if (deadline_.passed())
      return fail(Code::timed_out,
                  fmt::format("rank {} did not measure its products in time", group_.rank()));
    const auto held = group_.impl().hold();
    GANTRY_TRY(group_.impl().serve());
    return {};
  }

  /// The whole by rank 0 alone; then all shapes by all ranks at the same time, as they will be: who
  /// shares caches and CPUs pays for that most with small pieces. All make as many passes, and the
  /// slowest counts: the others had CPUs that it had to wait for.
  Result<void> measure_products() {
    const auto all = shapes();
    Matrices memory = matrices_for(all.front());
    GANTRY_ASSIGN(const double alone, time_alone(memory, all.front()));
    std::vector<ProductSample> samples;
    for (const Shape& shape : all) {
      const double least_s = alone * operations_of(shape) / operations_of(all.front());
      const auto passes = static_cast<std::int64_t>(
          std::clamp(std::ceil(kLeastSeconds / std::max(least_s, 1e-9)), 1.0, kMostPasses));
      GANTRY_TRY(meeting_.wait(deadline_));
      GANTRY_ASSIGN(const double own, time_product(memory, shape, passes));
      GANTRY_ASSIGN(const double seconds, slowest_of(group_, own, deadline_));
      if (shape.m * shape.n * shape.k > 0)
        samples.push_back({shape.m, shape.n, shape.k, shape.adds, seconds});
    }
    if (group_.rank() != 0 || samples.size() < kFewestSamples) return {};
    const double slower = samples.front().seconds / std::max(alone, 1e-9);
    if (slower > kSharedFrom && group_.ranks() > 1) {
      costs_.cpus = std::max(1.0, group_.ranks() / slower);
      for (ProductSample& sample : samples) sample.seconds /= slower;
    }
    GANTRY_ASSIGN(const ProductFit fit, fit_products(samples, op_.type.bits / kBitsOfByte));
    costs_.product = fit.costs;
    return {};
  }

  void measure_rows() {
    std::vector<std::uint64_t> one(kLargeBytes / kWordBytes);
    std::vector<std::uint64_t> other(kLargeBytes / kWordBytes, 1);
    const auto rect = [](std::vector<std::uint64_t>& words) {
      return LocalRect{reinterpret_cast<std::byte*>(words.data()), 1, kLargeBytes, kLargeBytes};
    };
    const auto rate = [&](auto act) {
      double least = 1;
      for (unsigned i = 0; i < kTimes; ++i) {
        const auto began = Clock::now();
        act();
        least = std::min(least, seconds_since(began));
      }
      return static_cast<double>(kLargeBytes) / std::max(least, 1e-9);
    };
    costs_.copy = {0, rate([&] { copy_rect(rect(one), rect(other)); })};
    costs_.reduce = {0, rate([&] { add_rect(op_.type, rect(one), rect(other)); })};
  }

  Result<void> measure_links() {
    if (group_.ranks() == 1) return {};
    const Puts large{.row_bytes = kLargeBytes, .count = kLargePuts};
    Puts to_all = large;
    to_all.to_all = true;
    GANTRY_ASSIGN(const PlanTimes starts,
                  time_plan({.row_bytes = kSmallBytes, .count = kSmallPuts}));
    GANTRY_ASSIGN(const PlanTimes one, time_plan(large));
    GANTRY_ASSIGN(const PlanTimes all, time_plan(to_all));
    const Puts apart = rows_apart();
    GANTRY_ASSIGN(const PlanTimes rows, time_plan(apart));
    const double bytes = static_cast<double>(kLargeBytes) * kLargePuts;
    costs_.link = {starts.seconds / kSmallPuts * 1e9, bytes / one.seconds};
    costs_.topology =
        all.seconds > kSwitchedFrom * one.seconds ? Topology::switched : Topology::mesh;
    costs_.port_bytes_per_s = bytes * (op_.ranks - 1) / all.seconds;
    if (costs_.topology == Topology::switched)
      costs_.port_bytes_per_s = std::max(costs_.port_bytes_per_s, costs_.link.bytes_per_s);
    // Of both ends: it sent as much as it received.
    const auto at_an_end = [](double cpu_s, double count) {
      return std::max(0.0, cpu_s) / 2 / count;
    };
    costs_.cpu_s_per_transfer = at_an_end(starts.cpu_s, kSmallPuts);
    costs_.cpu_s_per_byte =
        at_an_end(one.cpu_s - 2 * kLargePuts * costs_.cpu_s_per_transfer, bytes);
    costs_.cpu_s_per_row =
        at_an_end(rows.cpu_s - one.cpu_s, static_cast<double>(apart.rows) * apart.count);
    return {};
  }

  /// As many bytes as in large puts, in rows as short as the most chunks make them.
  [[nodiscard]] Puts rows_apart() const {
    const std::int64_t columns = op_.kind == OverlapKind::gemm_reduce_scatter ? op_.n : op_.k;
    const std::int64_t words = columns * (op_.type.bits / kBitsOfByte) / kChunksOfRows / kWordBytes;
    const std::int64_t row_bytes =
        std::clamp<std::int64_t>(words * kWordBytes, kSmallBytes, kMostRowBytes);
    return {.rows = kLargeBytes / row_bytes,
            .row_bytes = row_bytes,
            .is_apart = true,
            .count = kLargePuts};
  }

  Result<PlanTimes> time_plan(const Puts& puts) {
    const Plan plan = plan_of(op_.ranks, puts);
    GANTRY_ASSIGN(const PlanBuffers buffers, PlanBuffers::make(plan, group_.rank()));
    GANTRY_ASSIGN(PlanExecutor executor,
                  PlanExecutor::prepare(group_, plan, buffers.tensors, {}, deadline_));
    PlanTimes times;
    for (unsigned i = 0; i <= kTimes; ++i) {  // the first one makes pages
      GANTRY_TRY(meeting_.wait(deadline_));
      const double cpu = cpu_seconds();
      GANTRY_ASSIGN(const PlanRun run, executor.run(deadline_));
      const double took = std::chrono::duration<double>(run.elapsed).count();
      if (i > 0) times.cpu_s += (cpu_seconds() - cpu) / kTimes;
      times.seconds = i <= 1 ? took : std::min(times.seconds, took);
    }
    return times;
  }

  Group& group_;
  const OverlapOperator& op_;
  const std::shared_ptr<GemmLibrary> gemm_;
  const Deadline deadline_;
  Meeting meeting_{group_};
  ScheduleCosts costs_;
  Clock::time_point looked_ = Clock::now();
};

}  // namespace

Result<ScheduleCosts> measure_costs(Group& group, const OverlapOperator& op,
                                    std::shared_ptr<GemmLibrary> gemm, Deadline deadline) {
  return guarded([&]() -> Result<ScheduleCosts> {
    Group::Impl& ranks = group.impl();
    if (ranks.failure()) return tl::unexpected(*ranks.failure());
    const auto measure = [&]() -> Result<ScheduleCosts> {
      if (op.ranks != group.ranks())
        return fail(Code::invalid_argument, fmt::format("an operator of {} ranks in a group of {}",
                                                        op.ranks, group.ranks()));
      GANTRY_TRY(check_operator(op));  // before its sides are memory
      if (gemm == nullptr) {
        GANTRY_ASSIGN(gemm, open_gemm());
      }
      GANTRY_ASSIGN(const ScheduleCosts costs, Measurement(group, op, gemm, deadline).measure());
      GANTRY_ASSIGN(const std::string text, agree_on(group, to_text(costs), deadline));
      return parse_costs(text);
    };
    auto costs = measure();
    if (costs) return costs;
    const auto held = ranks.hold();
    return tl::unexpected(ranks.break_with(costs.error()));
  });
}

}  // namespace gantry
