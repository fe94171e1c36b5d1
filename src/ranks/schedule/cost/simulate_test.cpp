// Virtual time, beside closed forms.
#include <gtest/gtest.h>

#include "ranks/schedule/cost/costs.hpp"

namespace gantry {
namespace {

/// 1 flop takes 1 s, a byte 1 s on a link, half a second to copy; nothing has a start.
ScheduleCosts unit_costs() {
  ScheduleCosts costs;
  costs.product = {0, 1, 0, 0, 0, 1e30};
  costs.copy = costs.reduce = {0, 2};
  costs.link = {0, 1};
  costs.port_bytes_per_s = 1;
  return costs;
}

/// `steps` of ranks that have a tensor `t` of 64 x 1 bytes... of the smallest type: 2 bytes.
Plan plan_of(const std::string& steps, unsigned ranks = 4) {
  const auto plan = parse_plan("gantry-plan 1\nranks " + std::to_string(ranks) +
                               "\nlanes 4\ntensor t 64 64 bf16\ntensor u 64 64 bf16\n" + steps);
  EXPECT_TRUE(plan) << to_string(plan.error());
  return *plan;
}
/// A product of that many flops of rank r, in lane 0; `bytes` from one rank to another.
std::string gemm(unsigned rank, int flops, const std::string& after = "", unsigned lane = 0) {
  const std::string r = std::to_string(rank);
  return "gemm " + r + "/" + std::to_string(lane) + " t@" + r + " 0:" + std::to_string(flops / 2) +
         ",0:1 by t@" + r + " 0:1,0:1 to u@" + r + " 0:" + std::to_string(flops / 2) + ",0:1" +
         after + "\n";
}
std::string put(unsigned from, unsigned to, int bytes, const std::string& after = "",
                unsigned lane = 1) {
  const std::string rect = " 0:" + std::to_string(bytes / 2) + ",0:1";
  return "put " + std::to_string(from) + "/" + std::to_string(lane) + " t@" + std::to_string(from) +
         rect + " to u@" + std::to_string(to) + rect + after + "\n";
}

Simulated times(const Plan& plan, const ScheduleCosts& costs) {
  auto simulated = simulate(plan, costs);
  EXPECT_TRUE(simulated) << to_string(simulated.error());
  return simulated ? *simulated : Simulated{};
}
double seconds(const std::string& steps, const ScheduleCosts& costs) {
  return times(plan_of(steps), costs).seconds;
}

TEST(Simulate, OneStepTakesWhatItCosts) {
  ScheduleCosts costs = unit_costs();
  EXPECT_DOUBLE_EQ(seconds(gemm(0, 10), costs), 10);
  EXPECT_DOUBLE_EQ(seconds(put(0, 1, 10), costs), 10);
  EXPECT_DOUBLE_EQ(seconds("get 1/1 t@0 0:5,0:1 to u@1 0:5,0:1\n", costs), 10);
  EXPECT_DOUBLE_EQ(seconds("reduce 0/0 t@0 0:5,0:1 to u@0 0:5,0:1\n", costs), 5);
  EXPECT_DOUBLE_EQ(seconds("fill 0/0 t@0 0:5,0:2\n", costs), 10);
  costs.link.start_ns = 3e9;
  costs.links = {{0, 2, {1e9, 4}}};
  EXPECT_DOUBLE_EQ(seconds(put(0, 1, 10), costs), 13);
  EXPECT_DOUBLE_EQ(seconds(put(0, 2, 10), costs), 1 + 2.5);
  EXPECT_DOUBLE_EQ(seconds("signal 0/0 to 1\n", costs), 3);
  costs.product.start_ns = 2e9;
  EXPECT_DOUBLE_EQ(seconds(gemm(0, 10), costs), 12);
  EXPECT_DOUBLE_EQ(seconds("", costs), 0);
}

TEST(Simulate, WhatHasResourcesOfItsOwnTakesPlaceAtOnce) {
  const ScheduleCosts costs = unit_costs();
  EXPECT_DOUBLE_EQ(seconds(gemm(0, 10) + put(0, 1, 12), costs), 12);
  EXPECT_DOUBLE_EQ(seconds(put(0, 1, 10) + put(1, 0, 12), costs), 12);
  EXPECT_DOUBLE_EQ(seconds(put(0, 1, 10) + put(0, 2, 12, "", 2), costs), 12);
  EXPECT_DOUBLE_EQ(seconds(gemm(0, 10) + gemm(1, 12), costs), 12);
}

TEST(Simulate, OneResourceDoesOneStepAtATime) {
  const ScheduleCosts costs = unit_costs();
  EXPECT_DOUBLE_EQ(seconds(gemm(0, 10) + gemm(0, 12, "", 1), costs), 22);
  EXPECT_DOUBLE_EQ(seconds(put(0, 1, 10) + put(0, 1, 12, "", 2), costs), 22);
  EXPECT_DOUBLE_EQ(seconds(put(0, 1, 10) + "get 1/1 t@0 0:6,0:1 to t@1 0:6,0:1\n", costs), 22);
}

TEST(Simulate, LanesAndWaitsHold) {
  const ScheduleCosts costs = unit_costs();
  EXPECT_DOUBLE_EQ(seconds(put(0, 1, 10) + put(0, 2, 12), costs), 22);  // one lane
  EXPECT_DOUBLE_EQ(seconds(put(0, 1, 10) + gemm(1, 12, " after 0"), costs), 22);
  // The second in a lane waits for the first, which waits for another rank's.
  const Simulated all = times(
      plan_of(put(0, 1, 10) + gemm(1, 4, " after 0") + gemm(1, 6) + gemm(1, 8, "", 1)), costs);
  EXPECT_DOUBLE_EQ(all.steps[3].end_s, 8);  // in its own lane it need not wait
  EXPECT_DOUBLE_EQ(all.steps[1].begin_s, 10);
  EXPECT_DOUBLE_EQ(all.steps[2].begin_s, 14);
  EXPECT_DOUBLE_EQ(all.seconds, 20);
  EXPECT_EQ(all.last_rank, 1u);
  EXPECT_DOUBLE_EQ(all.ranks[1].compute_s, 18);
  EXPECT_DOUBLE_EQ(all.ranks[1].exposed_s, 2);
  EXPECT_DOUBLE_EQ(all.ranks[1].links_s, 10);
  EXPECT_DOUBLE_EQ(all.ranks[0].links_s, 10);
  EXPECT_DOUBLE_EQ(all.ranks[0].end_s, 10);
}

TEST(Simulate, ABarrierEndsWhenAllHaveCome) {
  ScheduleCosts costs = unit_costs();
  const std::string steps = gemm(0, 10) + "barrier 0/0\n" + gemm(0, 4) + gemm(1, 2) +
                            "barrier 1/0\n" + gemm(1, 6) + "barrier 2/0\nbarrier 3/0\n";
  EXPECT_DOUBLE_EQ(seconds(steps, costs), 16);
  costs.link.start_ns = 1e9;
  EXPECT_DOUBLE_EQ(seconds(steps, costs), 17);
}

TEST(Simulate, PortsAreSharedEvenly) {
  ScheduleCosts costs = unit_costs();
  costs.topology = Topology::switched;
  EXPECT_DOUBLE_EQ(seconds(put(0, 1, 10), costs), 10);
  EXPECT_DOUBLE_EQ(seconds(put(0, 1, 10) + put(0, 2, 10, "", 2), costs), 20);
  EXPECT_DOUBLE_EQ(seconds(put(1, 0, 10) + put(2, 0, 10), costs), 20);
  EXPECT_DOUBLE_EQ(seconds(put(0, 1, 10) + put(1, 0, 10), costs), 10);  // out and in
  // 10 and 20 at once: both at half until 20 s, then the rest alone.
  const Simulated both = times(plan_of(put(0, 1, 10) + put(0, 2, 20, "", 2)), costs);
  EXPECT_DOUBLE_EQ(both.steps[0].end_s, 20);
  EXPECT_DOUBLE_EQ(both.steps[1].end_s, 30);
  // The second one begins its bytes 5 s later: 5 alone, 10 s at half for the rest of the first.
  costs.links = {{0, 2, {5e9, 1}}};
  const Simulated late = times(plan_of(put(0, 1, 10) + put(0, 2, 20, "", 2)), costs);
  EXPECT_DOUBLE_EQ(late.steps[0].end_s, 15);
  EXPECT_DOUBLE_EQ(late.steps[1].end_s, 30);
  costs.links = {};
  costs.link.bytes_per_s = 0.25;  // a slow link leaves its port to others
  EXPECT_DOUBLE_EQ(seconds(put(0, 1, 10) + put(0, 2, 10, "", 2), costs), 40);
}

TEST(Simulate, CpusAreShared) {
  ScheduleCosts costs = unit_costs();
  costs.cpus = 2;
  EXPECT_DOUBLE_EQ(seconds(gemm(0, 10) + gemm(1, 10), costs), 10);
  EXPECT_DOUBLE_EQ(seconds(gemm(0, 10) + gemm(1, 10) + gemm(2, 10) + gemm(3, 10), costs), 20);
  // Three on two CPUs: 2/3 each until the short ones end at 15, then the long one goes on alone.
  const Simulated three = times(plan_of(gemm(0, 10) + gemm(1, 10) + gemm(2, 20)), costs);
  EXPECT_DOUBLE_EQ(three.steps[1].end_s, 15);
  EXPECT_DOUBLE_EQ(three.steps[2].end_s, 25);
  EXPECT_DOUBLE_EQ(three.ranks[2].compute_alone_s, 20);
  EXPECT_DOUBLE_EQ(three.ranks[2].compute_s, 25);
}

TEST(Simulate, TransfersTakeCpuWhereItIsShared) {
  ScheduleCosts costs = unit_costs();
  costs.cpu_s_per_byte = 0.5;  // at both ends: a CPU at a byte per second
  EXPECT_DOUBLE_EQ(seconds(gemm(0, 10) + put(2, 3, 10), costs), 10);  // nobody shares
  costs.cpus = 1;
  EXPECT_DOUBLE_EQ(seconds(gemm(0, 10) + put(2, 3, 10), costs), 20);
  EXPECT_DOUBLE_EQ(seconds(put(2, 3, 10), costs), 10);
  // While it starts a transfer takes none.
  costs.link.start_ns = 4e9;
  const Simulated both = times(plan_of(gemm(0, 10) + put(2, 3, 10)), costs);
  EXPECT_DOUBLE_EQ(both.steps[1].end_s, 4 + 10);  // and goes first then
  EXPECT_DOUBLE_EQ(both.seconds, 20);
  // Two compute on one CPU; a transfer of half of it keeps its rate.
  costs.link.start_ns = 0;
  costs.cpu_s_per_byte = 0.25;
  const Simulated three = times(plan_of(gemm(0, 10) + gemm(1, 10) + put(2, 3, 10)), costs);
  EXPECT_DOUBLE_EQ(three.steps[2].end_s, 10);
  EXPECT_DOUBLE_EQ(three.seconds, 25);
}

TEST(Simulate, RowsThatLieApartTakeCpuAtTheirEnd) {
  ScheduleCosts costs = unit_costs();
  costs.cpu_s_per_row = 0.5;
  costs.cpus = 1;
  const auto moved = [](const char* from, const char* to) {
    return gemm(0, 100) + "put 2/1 t@2 " + from + " to u@3 " + to + "\n";
  };
  // All columns: side by side. Of 5 rows apart each end takes 2.5 s.
  EXPECT_DOUBLE_EQ(seconds(moved("0:5,0:64", "0:5,0:64"), costs), 640);
  EXPECT_DOUBLE_EQ(seconds(moved("0:5,0:1", "0:5,0:1"), costs), 105);
  EXPECT_DOUBLE_EQ(seconds(moved("0:1,0:5", "0:1,0:5"), costs), 100);
  costs.cpu_s_per_transfer = 3;  // and 3 s for itself
  EXPECT_DOUBLE_EQ(seconds(moved("0:5,0:1", "0:5,0:1"), costs), 111);
  EXPECT_DOUBLE_EQ(seconds(moved("0:1,0:5", "0:1,0:5"), costs), 106);
  // A copy moves nothing between ranks.
  EXPECT_DOUBLE_EQ(seconds("copy 0/0 t@0 0:5,0:1 to u@0 0:5,0:1\n", costs), 5);
}

TEST(Simulate, ATransferTakesNoLessThanTheCpuOfAnEnd) {
  ScheduleCosts costs = unit_costs();
  costs.cpu_s_per_row = 4;
  const std::string rows = put(0, 1, 10);  // 5 rows of 2 bytes
  EXPECT_DOUBLE_EQ(seconds(rows, costs), 20);
  costs.cpus = 8;
  EXPECT_DOUBLE_EQ(seconds(rows, costs), 20);
  costs.topology = Topology::switched;
  EXPECT_DOUBLE_EQ(seconds(rows + put(0, 2, 10, "", 2), costs), 20);
  costs.cpus = 1;  // both ends share it
  EXPECT_DOUBLE_EQ(seconds(rows, costs), 40);
}

TEST(Simulate, ProductsAreSlowerBesideTransfers) {
  ScheduleCosts costs = unit_costs();
  costs.beside_transfers = 2;
  EXPECT_DOUBLE_EQ(seconds(gemm(0, 10) + put(0, 1, 10), costs), 15);
  EXPECT_DOUBLE_EQ(seconds(gemm(1, 10) + put(0, 1, 10), costs), 15);
  EXPECT_DOUBLE_EQ(seconds(gemm(2, 10) + put(0, 1, 10), costs), 10);
  EXPECT_DOUBLE_EQ(seconds("copy 0/0 t@0 0:10,0:1 to u@0 0:10,0:1\n" + put(0, 1, 10), costs), 10);
}

TEST(Simulate, LossesAddUp) {
  ScheduleCosts costs = unit_costs();
  costs.beside_transfers = 2;
  costs.product.m_knee = 1;
  const Simulated serial = times(plan_of(put(0, 1, 8) + gemm(1, 20, " after 0")), costs);
  const Simulated one = times(
      plan_of(put(0, 1, 8) + gemm(1, 10) + gemm(1, 10, " after 0") + put(1, 0, 2, " after 2")),
      costs);
  const ScheduleLosses losses = losses_of(one, serial);
  EXPECT_DOUBLE_EQ(losses.decomposition_s, 2);  // 12 + 12 instead of 22
  EXPECT_DOUBLE_EQ(losses.contention_s, 4);
  EXPECT_DOUBLE_EQ(losses.exposed_s, 2);
  EXPECT_DOUBLE_EQ(one.seconds, 22 + 2 + 4 + 2);
}

TEST(Simulate, RefusesWhatNeverEnds) {
  const ScheduleCosts costs = unit_costs();
  const auto said = [&](const std::string& steps) {
    const auto simulated = simulate(plan_of(steps, 2), costs);
    return simulated ? std::string() : to_string(simulated.error());
  };
  EXPECT_EQ(said(gemm(0, 2, " after 1") + gemm(0, 2)),
            "step 0 (gemm, rank 0) never begins; steps wait for each other");
  EXPECT_EQ(said("barrier 0/0\n"), "ranks have different numbers of barriers");
  EXPECT_EQ(said("signal 0/0 to 1 after 1\nbarrier 0/0\nbarrier 1/0\n"),
            "step 0 (signal, rank 0) never begins; steps wait for each other");
  EXPECT_EQ(said(gemm(0, 2, " after 7")),
            "step 0 (gemm, rank 0) is after step 7, which there is not");
  ScheduleCosts bad = costs;
  bad.link.bytes_per_s = 0;
  EXPECT_FALSE(simulate(plan_of(""), bad));
}

TEST(Simulate, AThousandRanksPassAMillionPieces) {
  Plan plan{.ranks = 1000, .lanes = 2};
  plan.tensors = {{"t", 1000, 1, {DataType::bfloat, 16, 1}}};
  for (unsigned round = 0; round < 999; ++round)
    for (unsigned rank = 0; rank < 1000; ++rank) {
      const PlanRect rect{(rank + 1000 - round) % 1000, 0, 1, 1};
      PlanStep step{PlanVerb::put,   rank, 1,     {(rank + 1) % 1000, 0, rect},
                    {rank, 0, rect}, {},   false, {}};
      if (round > 0) step.after = {(round - 1) * 1000 + (rank + 999) % 1000};
      plan.steps.push_back(std::move(step));
    }
  EXPECT_DOUBLE_EQ(times(plan, unit_costs()).seconds, 999 * 2);
}

}  // namespace
}  // namespace gantry
