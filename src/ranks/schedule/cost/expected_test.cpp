// What closed forms say of an all-gather before a product, on 2 and 4 ranks, mesh and switch.
#include <gantry/plan.hpp>

#include <gtest/gtest.h>

#include <algorithm>

#include "ranks/schedule/cost/costs.hpp"

namespace gantry {
namespace {

constexpr std::int64_t kSize = 3840;  // divides by ranks and chunks

struct Case {
  unsigned ranks;
  Topology topology;
  double rho;  // communication to compute
  double serial_to_ring;
  double serial_to_best;
};
constexpr Case kExpected[] = {
    {2, Topology::mesh, 0.5, 1.50, 1.48},     {2, Topology::mesh, 1, 1.33, 1.85},
    {2, Topology::mesh, 2, 1.20, 1.44},       {4, Topology::mesh, 0.25, 1.25, 1.22},
    {4, Topology::mesh, 0.5, 0.86, 1.47},     {4, Topology::mesh, 1, 0.62, 1.82},
    {4, Topology::mesh, 2, 0.48, 1.43},       {4, Topology::switched, 0.25, 1.25, 1.22},
    {4, Topology::switched, 0.5, 1.50, 1.47}, {4, Topology::switched, 1, 1.60, 1.82},
    {4, Topology::switched, 2, 1.33, 1.43},
};

OverlapOperator operator_of(const Case& one) {
  return {
      .kind = OverlapKind::all_gather_gemm, .m = kSize, .n = kSize, .k = kSize, .ranks = one.ranks};
}

/// A rank's product takes one second, everything that it receives `rho`. `loss`: of the peers'
/// part in pieces of an eighth of a shard.
ScheduleCosts costs_of(const Case& one, double loss) {
  constexpr double kBytes = 4;
  constexpr double kSides = kSize;
  ScheduleCosts costs;
  const double piece = kSides / one.ranks / 8;
  costs.product = {0, 2 * kSides * kSides * kSides / one.ranks, loss * piece, 0, 0, 1e30};
  const double received = kSides * kSides * kBytes * (one.ranks - 1) / one.ranks;
  costs.topology = one.topology;
  costs.port_bytes_per_s = received / one.rho;
  costs.link.bytes_per_s =
      costs.port_bytes_per_s / (one.topology == Topology::mesh ? one.ranks - 1 : 1);
  costs.copy = {0, 1e30};
  return costs;
}

double seconds_of_schedule(const OverlapOperator& op, const std::string& text,
                           const ScheduleCosts& costs) {
  const auto plan = make_plan(op, *parse_schedule(text));
  EXPECT_TRUE(plan);
  const auto simulated = simulate(*plan, costs);
  EXPECT_TRUE(simulated) << to_string(simulated.error());
  return simulated->seconds;
}

TEST(SimulateExpected, SerialAndRingAreTheClosedForm) {
  for (const Case& one : kExpected) {
    const OverlapOperator op = operator_of(one);
    const ScheduleCosts costs = costs_of(one, 0);
    const double serial = seconds_of_schedule(op, "serial put", costs);
    EXPECT_NEAR(serial, 1 + one.rho, 1e-9);
    const double ring = seconds_of_schedule(op, "ring rows own-first piece 1 put", costs);
    EXPECT_NEAR(serial / ring, one.serial_to_ring, 0.006) << one.ranks << " ranks, " << one.rho;
    EXPECT_EQ(ring, seconds_of_schedule(op, "ring rows own-first piece 1 get", costs));
  }
}

// Own part first, the peers' in eighths: no better than the closed form, no worse than 4 % of it.
TEST(SimulateExpected, FineGrainIsTheClosedForm) {
  for (const Case& one : kExpected) {
    const OverlapOperator op = operator_of(one);
    const ScheduleCosts costs = costs_of(one, 0.03);
    const double serial = seconds_of_schedule(op, "serial put", costs);
    const double fine = seconds_of_schedule(op, "at-once rows own-first piece 8 put", costs);
    EXPECT_NEAR(serial / fine, one.serial_to_best, 0.04) << one.ranks << " ranks, " << one.rho;
    // By hand: peers' pieces come evenly; the last step's products stand alone behind it.
    const double shard = 1.0 / one.ranks;
    const double own = shard * (1 + 0.03 / 8);
    const double peers = (1 - shard) * 1.03;
    EXPECT_NEAR(fine, std::max(own + peers, one.rho + peers / 8), 0.001);
  }
}

TEST(SimulateExpected, NothingBeatsTheIdeal) {
  for (const Case& one : kExpected) {
    const OverlapOperator op = operator_of(one);
    const auto schedules = schedules_of(op);
    ASSERT_TRUE(schedules);
    double best = 1e9;
    for (const Schedule& schedule : *schedules)
      best = std::min(best, seconds_of_schedule(op, to_string(schedule), costs_of(one, 0.03)));
    EXPECT_GE(best, std::max(1.0, one.rho) - 1e-9);
    EXPECT_GE((1 + one.rho) / best, one.serial_to_best - 0.01) << one.ranks << ' ' << one.rho;
  }
}

}  // namespace
}  // namespace gantry
