// What `gantry bench ipc` shows meanwhile, on a terminal and in a pipe, and what is left of it.

#include <nlohmann/json.hpp>

#include "cli_support.hpp"

namespace gantry::test {
namespace {

class BenchProgress : public OnATerminal {
 protected:
  [[nodiscard]] Command bench() const {
    return gantry({"bench", "ipc", "--quick", "--sizes", "64", "--cases", "latency", "--subjects",
                   "gantry/sync", "--json"});
  }
};

TEST_F(BenchProgress, ABarIsDrawnAndTakenBack) {
  const Ended ended = run(with("2>", bench()));
  EXPECT_EQ(ended.status, 0);
  EXPECT_EQ(nlohmann::json::parse(ended.output)["bench"], "ipc");
  EXPECT_THAT(terminal_.read_all(), ::testing::HasSubstr("bench ipc ["));
  EXPECT_THAT(terminal_.rows(), ::testing::IsEmpty());
}

TEST_F(BenchProgress, APipeGetsALineForEachCase) {
  const Ended ended = run(bench());
  EXPECT_EQ(ended.status, 0);
  EXPECT_EQ(ended.errors, "bench ipc: 64 B (1/3)\n");
}

}  // namespace
}  // namespace gantry::test
