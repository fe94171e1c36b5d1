#include "core/runtime/worker_places.hpp"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>

#include <numeric>
#include <set>
#include <thread>

namespace gantry {
namespace {

NodeCpus node_of(int node, int first_cpu, std::size_t cpus) {
  NodeCpus made{node, std::vector<int>(cpus)};
  std::iota(made.cpus.begin(), made.cpus.end(), first_cpu);
  return made;
}

std::vector<int> nodes_of(const std::vector<WorkerPlace>& places) {
  std::vector<int> nodes;
  for (const WorkerPlace& place : places) nodes.push_back(place.node);
  return nodes;
}

TEST(WorkerPlaces, OneCpuOfANodeIsLeftToSubmitters) {
  EXPECT_EQ(worker_places({node_of(0, 0, 2)}, 0).size(), 1u);
  EXPECT_EQ(worker_places({node_of(0, 0, 4)}, 0).size(), 3u);
  EXPECT_EQ(worker_places({node_of(0, 0, 5)}, 0).size(), 4u);
  EXPECT_EQ(worker_places({node_of(0, 0, 96)}, 0).size(), 4u);
}

TEST(WorkerPlaces, ThereIsOneAtTheLeast) {
  EXPECT_EQ(worker_places({}, 0).size(), 1u);
  EXPECT_EQ(worker_places({node_of(0, 0, 1)}, 0).size(), 1u);
  EXPECT_EQ(nodes_of(worker_places({node_of(2, 0, 1), node_of(3, 1, 1)}, 0)), (std::vector{2}));
  EXPECT_EQ(worker_places({node_of(0, 0, 8)}, 0.5).size(), 1u);
}

TEST(WorkerPlaces, EachNodeHasItsOwnOnItsCpus) {
  const auto places = worker_places({node_of(0, 0, 3), node_of(5, 3, 2)}, 0);
  EXPECT_EQ(nodes_of(places), (std::vector{0, 0, 5}));
  EXPECT_EQ(places[0].cpus, (std::vector{0, 1, 2}));
  EXPECT_EQ(places[2].cpus, (std::vector{3, 4}));
}

TEST(WorkerPlaces, OnASingleNodeTheyRunWhereTheProcessMay) {
  for (const WorkerPlace& place : worker_places({node_of(0, 0, 4)}, 0))
    EXPECT_TRUE(place.cpus.empty());
}

TEST(WorkerPlaces, AQuotaIsNotUsedUp) {
  const std::vector nodes{node_of(0, 0, 8), node_of(1, 8, 8)};
  EXPECT_EQ(nodes_of(worker_places(nodes, 0)), (std::vector{0, 0, 0, 0, 1, 1, 1, 1}));
  EXPECT_EQ(nodes_of(worker_places(nodes, 5)), (std::vector{0, 0, 1, 1}));
  EXPECT_EQ(worker_places(nodes, 2.5).size(), 1u);
  EXPECT_EQ(worker_places(nodes, 0.1).size(), 1u);
  EXPECT_EQ(worker_places(nodes, 1e300).size(), 8u);
}

TEST(WorkerPlaces, NotMoreThanAnEngineTakes) {
  std::vector<NodeCpus> nodes;
  for (int i = 0; i < 40; ++i) nodes.push_back(node_of(i, i * 8, 8));
  EXPECT_EQ(worker_places(nodes, 0).size(), kMaxWorkers);
}

TEST(UsableNodes, HoldTheCpusOfThisThreadOnce) {
  std::vector<NodeCpus> nodes;
  std::thread([&] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<std::size_t>(::sched_getcpu()), &one);
    ASSERT_EQ(::pthread_setaffinity_np(::pthread_self(), sizeof one, &one), 0);
    nodes = usable_nodes();
  }).join();
  ASSERT_EQ(nodes.size(), 1u);
  EXPECT_EQ(nodes[0].cpus.size(), 1u);
  std::multiset<int> all;
  for (const NodeCpus& node : usable_nodes()) all.insert(node.cpus.begin(), node.cpus.end());
  cpu_set_t mine;
  ASSERT_EQ(::sched_getaffinity(0, sizeof mine, &mine), 0);
  EXPECT_EQ(all.size(), static_cast<std::size_t>(CPU_COUNT(&mine)));
  for (const int cpu : all) EXPECT_EQ(all.count(cpu), 1u);
}

}  // namespace
}  // namespace gantry
