#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <gantry/schedule/product.hpp>

#include "base/result.hpp"
#include "group/group.hpp"
#include "schedule/plan.hpp"
#include "schedule/run/elementwise.hpp"

namespace gantry {
namespace {

using Clock = std::chrono::steady_clock;

constexpr unsigned kTimes = 3;  // of transfers, the least of which counts
constexpr double kLeastSeconds = 5e-3;
constexpr std::size_t kFewestSamples = 4;
constexpr std::int64_t kSmallBytes = 64;
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

double cpu_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// From each rank to the next, or to all others: `count` times, one after another.
Plan puts(unsigned ranks, std::int64_t bytes, unsigned count, bool to_all) {
  Plan plan;
  plan.ranks = ranks;
  plan.lanes = std::clamp(ranks - 1, 1u, kMostLanes);
  plan.tensors = {{"x", 1, bytes / kWordBytes, kWords}, {"y", ranks, bytes / kWordBytes, kWords}};
  for (unsigned rank = 0; rank < ranks; ++rank) {
    const PlanRect whole{0, 0, 1, bytes / kWordBytes};
    plan.given.push_back({{rank, 0, whole}, {{fmt::format("X{}", rank)}}});
    for (unsigned hop = 1; hop < (to_all ? ranks : std::min(ranks, 2u)); ++hop)
      for (unsigned i = 0; i < count; ++i) {
        const PlanRect place{rank, 0, 1, bytes / kWordBytes};
        plan.steps.push_back({PlanVerb::put,
                              rank,
                              (hop - 1) % plan.lanes,
                              {(rank + hop) % ranks, 1, place},
                              {rank, 0, whole},
                              {},
                              false,
                              {}});
      }
  }
  return plan;
}

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
  struct Shape {
    std::int64_t m, n, k;
    bool adds;  // pieces of the depth; else of the rows
    std::int64_t pieces;
  };
  struct Matrices {
    // Words, so that they are aligned for any type; zeros are numbers of every type.
    std::vector<std::uint64_t> a, b, c;
  };

  /// As schedules cut them.
  [[nodiscard]] std::vector<Shape> shapes() const {
    const auto part = [this](std::int64_t side) {
      return std::max<std::int64_t>(1, side / static_cast<std::int64_t>(op_.ranks));
    };
    const auto kind = op_.kind;
    const std::int64_t m = kind == OverlapKind::all_to_all_gemm ? part(op_.m) : op_.m;
    const std::int64_t n = kind == OverlapKind::all_gather_gemm ? part(op_.n) : op_.n;
    const std::int64_t k = kind == OverlapKind::gemm_reduce_scatter ? part(op_.k) : op_.k;
    std::vector<Shape> all;
    for (const std::int64_t cut : {1, 4, 16, 64}) {
      const std::int64_t rows = std::min(std::max<std::int64_t>(m, 1), cut);
      const std::int64_t depths = std::min(std::max<std::int64_t>(k, 1), cut);
      all.push_back({m / rows, n, k, false, rows});
      all.push_back({part(m), n, k / depths, true, depths});
    }
    return all;
  }

  [[nodiscard]] Matrices matrices_for(const Shape& whole) const {
    const auto words = [&](std::int64_t rows, std::int64_t cols) {
      const auto bytes = static_cast<std::size_t>(rows * cols) * (op_.type.bits / kBitsOfByte);
      return std::vector<std::uint64_t>(bytes / kWordBytes + 1);
    };
    const std::int64_t m = std::max(whole.m, shapes()[1].m);
    return {words(m, whole.k), words(whole.k, whole.n), words(m, whole.n)};
  }

  /// One piece's time, on the mean: beside the others a lucky one says nothing.
  Result<double> time_product(Matrices& memory, const Shape& shape) {
    const auto element = static_cast<std::int64_t>(op_.type.bits / kBitsOfByte);
    const std::int64_t depth = shapes().front().k;
    Gemm product{.type = op_.type, .m = shape.m, .n = shape.n, .k = shape.k, .adds = shape.adds};
    product.a_stride = depth;
    product.b_stride = product.c_stride = shape.n;
    const auto multiply = [&](std::int64_t piece) {
      const std::int64_t row = shape.adds ? 0 : piece * shape.m;
      const std::int64_t col = shape.adds ? piece * shape.k : 0;
      const auto at = [&](auto& words, std::int64_t index) {
        return reinterpret_cast<std::byte*>(words.data()) + index * element;
      };
      product.a = at(memory.a, row * depth + col);
      product.b = at(memory.b, col * shape.n);
      product.c = at(memory.c, row * shape.n);
      return gemm_->multiply(product);
    };
    GANTRY_TRY(multiply(0));  // a library's first product is slow
    const auto began = Clock::now();
    std::int64_t count = 0;
    do {
      for (std::int64_t piece = 0; piece < shape.pieces; ++piece) GANTRY_TRY(multiply(piece));
      count += shape.pieces;
    } while (seconds_since(began) < kLeastSeconds);
    return seconds_since(began) / static_cast<double>(count);
  }

  /// The whole by rank 0 alone; then all shapes by all ranks at the same time, as they will be: who
  /// shares caches and CPUs pays for that most with small pieces.
  Result<void> measure_products() {
    const auto all = shapes();
    Matrices memory = matrices_for(all.front());
    double alone = 0;
    if (group_.rank() == 0) {
      GANTRY_ASSIGN(alone, time_product(memory, all.front()));
    }
    std::vector<ProductSample> samples;
    for (const Shape& shape : all) {
      GANTRY_TRY(meet());
      GANTRY_ASSIGN(const double seconds, time_product(memory, shape));
      if (shape.m * shape.n * shape.k > 0)
        samples.push_back({shape.m, shape.n, shape.k, shape.adds, seconds});
    }
    if (group_.rank() != 0 || samples.size() < kFewestSamples) return {};
    const double slower = samples.front().seconds / alone;
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
    GANTRY_ASSIGN(const double small, time_plan(puts(op_.ranks, kSmallBytes, kSmallPuts, false)));
    const double cpu = cpu_seconds();
    GANTRY_ASSIGN(const double large, time_plan(puts(op_.ranks, kLargeBytes, kLargePuts, false)));
    const double spent = cpu_seconds() - cpu;
    GANTRY_ASSIGN(const double all, time_plan(puts(op_.ranks, kLargeBytes, kLargePuts, true)));
    const double bytes = static_cast<double>(kLargeBytes) * kLargePuts;
    costs_.link = {small / kSmallPuts * 1e9, bytes / large};
    costs_.topology = all > kSwitchedFrom * large ? Topology::switched : Topology::mesh;
    costs_.port_bytes_per_s = bytes * (op_.ranks - 1) / all;
    if (costs_.topology == Topology::switched)
      costs_.port_bytes_per_s = std::max(costs_.port_bytes_per_s, costs_.link.bytes_per_s);
    // It sent as much as it received.
    costs_.cpu_s_per_byte = spent / (2 * bytes * (kTimes + 1));
    return {};
  }

  Result<double> time_plan(const Plan& plan) {
    GANTRY_ASSIGN(const PlanBuffers buffers, PlanBuffers::make(plan, group_.rank()));
    GANTRY_ASSIGN(PlanExecutor executor,
                  PlanExecutor::prepare(group_, plan, buffers.tensors, {}, deadline_));
    double least = 0;
    for (unsigned i = 0; i <= kTimes; ++i) {  // the first one makes pages
      GANTRY_TRY(meet());
      GANTRY_ASSIGN(const PlanRun run, executor.run(deadline_));
      const double took = std::chrono::duration<double>(run.elapsed).count();
      least = i <= 1 ? took : std::min(least, took);
    }
    return least;
  }

  /// All ranks are here.
  Result<void> meet() {
    if (!meeting_) {
      Plan plan;
      plan.ranks = group_.ranks();
      for (unsigned rank = 0; rank < plan.ranks; ++rank)
        plan.steps.push_back({PlanVerb::barrier, rank, 0, {}, {}, {}, false, {}});
      GANTRY_ASSIGN(PlanExecutor made, PlanExecutor::prepare(group_, plan, {}, {}, deadline_));
      meeting_.emplace(std::move(made));
    }
    GANTRY_TRY(meeting_->run(deadline_));
    return {};
  }

  Group& group_;
  const OverlapOperator& op_;
  const std::shared_ptr<GemmLibrary> gemm_;
  const Deadline deadline_;
  std::optional<PlanExecutor> meeting_;
  ScheduleCosts costs_;
};

/// What rank 0 says.
Result<std::string> agree_on(Group::Impl& group, const std::string& text, Deadline deadline) {
  const auto held = group.hold();
  group.begin_operation();
  if (group.rank() == 0) {
    const auto bytes = std::as_bytes(std::span(text));
    RankMessage message{
        RankMessage::Kind::text, group.operation(), 0, {bytes.begin(), bytes.end()}};
    if (bytes.size() > RankMessage::kMostPayload)
      return fail(Code::too_large, fmt::format("costs of {} bytes", bytes.size()));
    GANTRY_TRY(group.say_to_all(message));
    return text;
  }
  for (;;) {
    GANTRY_ASSIGN(const bool has_moved, group.serve());
    GANTRY_ASSIGN(const auto message, group.take(0, RankMessage::Kind::text));
    if (message)
      return std::string(reinterpret_cast<const char*>(message->payload.data()),
                         message->payload.size());
    if (deadline.passed()) return fail(Code::timed_out, "rank 0 did not say what it measured");
    if (!has_moved) group.sleep(-1, deadline);
  }
}

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
      if (gemm == nullptr) {
        GANTRY_ASSIGN(gemm, open_gemm());
      }
      GANTRY_ASSIGN(const ScheduleCosts costs, Measurement(group, op, gemm, deadline).measure());
      GANTRY_ASSIGN(const std::string text, agree_on(ranks, to_text(costs), deadline));
      return parse_costs(text);
    };
    auto costs = measure();
    if (costs) return costs;
    const auto held = ranks.hold();
    return tl::unexpected(ranks.break_with(costs.error()));
  });
}

}  // namespace gantry
