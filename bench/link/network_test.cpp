// Two hosts and the wire between them: what crosses it is counted, and nothing of it stays.

#include "network.hpp"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "../support/system/command.hpp"

namespace gantry::bench {
namespace {

using ::testing::HasSubstr;

TEST(BenchRate, IsBitsByPowersOfThousand) {
  EXPECT_EQ(parse_rate("10G")->bits_per_second, 10'000'000'000u);
  EXPECT_EQ(parse_rate("500M")->bits_per_second, 500'000'000u);
  EXPECT_FALSE(parse_rate("unlimited")->is_limited());
  for (const char* wrong : {"", "G", "0G", "10", "10g", "-1G", "1.5G", "all"})
    EXPECT_FALSE(parse_rate(wrong)) << wrong;
}

TEST(BenchCommand, SaysWhyItFailed) {
  EXPECT_TRUE(run_command({"true"}));
  const auto failed = run_command({"ls", "/no/such/folder"});
  ASSERT_FALSE(failed);
  EXPECT_THAT(failed.error().message, HasSubstr("No such file"));
  const auto missing = run_command({"no-such-program"});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Code::not_found);
}

/// The namespace that this thread is in.
ino_t present_namespace() {
  struct stat space{};
  EXPECT_EQ(::stat("/proc/thread-self/ns/net", &space), 0);
  return space.st_ino;
}

void expect_payload_is_counted(const Network& network) {
  constexpr Bytes kBytes = 10'000;  // fits into what a socket holds back: nobody has to read yet
  const ino_t home = present_namespace();
  const auto pair = network.connect();
  ASSERT_TRUE(pair) << to_string(pair.error());
  const auto before = network.received_bytes();
  ASSERT_TRUE(before) << to_string(before.error());
  std::vector<std::byte> payload(kBytes);
  ASSERT_TRUE(write_all(pair->asking.get(), payload));
  ASSERT_TRUE(read_all(pair->answering.get(), payload));
  EXPECT_GE(network.received_bytes().value(), *before + kBytes);
  EXPECT_THAT(network.free_endpoint(Host::asking).value(),
              HasSubstr(std::string(network.address(Host::asking)) + ":"));
  EXPECT_EQ(present_namespace(), home);
}

TEST(BenchNetwork, LoopbackCountsAndHasNoRate) {
  const Network network = Network::over_loopback();
  expect_payload_is_counted(network);
  EXPECT_TRUE(network.limit({"unlimited"}));
  const auto limited = network.limit({"1G", 1'000'000'000});
  ASSERT_FALSE(limited);
  EXPECT_EQ(limited.error().code, Code::unsupported);
}

TEST(BenchNetwork, NamespacesCountAndTakeRates) {
  const auto network = Network::make_namespaces();
  if (!network) GTEST_SKIP() << to_string(network.error());
  expect_payload_is_counted(*network);
  const auto limited = network->limit({"1G", 1'000'000'000});
  if (!limited) GTEST_SKIP() << to_string(limited.error());
  expect_payload_is_counted(*network);
  EXPECT_TRUE(network->limit({"unlimited"}));
}

}  // namespace
}  // namespace gantry::bench
