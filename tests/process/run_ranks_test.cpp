// Hosts that are ranks of one `mpirun -n 4 gantry run FILE`, all of them on this machine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <nlohmann/json.hpp>

#include "run_support.hpp"

namespace gantry::test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

bool has_mpirun() {
  Command look;
  look.argv = {"sh", "-c", "command -v mpirun"};
  return run(look).status == 0;
}

class RunRanks : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_mpirun()) GTEST_SKIP() << "there is no mpirun";
    if (!HAS_PMIX) GTEST_SKIP() << "built without PMIx";
  }

  /// Four ranks, of which 1 and 3 are the hosts b and c; `rank` stands in place of 3.
  [[nodiscard]] Command four(std::uint64_t count, const std::string& rank = "3",
                             std::vector<std::string> arguments = {}) {
    std::string text =
        "[hosts.b]\naddress = '127.0.0.2'\nrank = 1\n[hosts.c]\naddress = "
        "'127.0.0.3'\nrank = " +
        rank + "\n" + RunScratch::three_stages(count, RunScratch::kBytes);
    for (const auto& [stage, host] : {std::pair("relay", "b"), std::pair("sink", "c")}) {
      const std::string head = std::string("[stages.") + stage + "]\n";
      text.insert(text.find(head) + head.size(), std::string("host = '") + host + "'\n");
    }
    Command command = scratch_.command(text, std::move(arguments));
    command.argv.insert(command.argv.begin(),
                        {"mpirun", "--oversubscribe", "--bind-to", "none", "-n", "4"});
    command.env.emplace_back("LSAN_OPTIONS", "detect_leaks=0");  // PMIx keeps what it allocates
    for (const char* name : {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"})
      command.env.emplace_back(name, "1");
    return command;
  }

  RunScratch scratch_;
};

TEST_F(RunRanks, AreTheHostsOfOneRun) {
  const Ended ended = run(four(200, "3", {"--json"}));
  ASSERT_EQ(ended.status, 0) << ended.errors;
  EXPECT_EQ(scratch_.read_results(), "200 20100");          // as on one host: run_hosts_test.cpp
  const auto report = nlohmann::json::parse(ended.output);  // of one run, not of four
  EXPECT_TRUE(report["accounted"]);
  EXPECT_EQ(report["stages"][1]["host"], "b");
  EXPECT_EQ(report["stages"][2]["host"], "c");
  EXPECT_THAT(scratch_.left_behind(), IsEmpty());
}

TEST_F(RunRanks, BeyondTheJobAreOneLine) {
  const Ended ended = run(four(1, "4"));
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.errors, HasSubstr("hosts.c.rank: 4 is beyond the 4 ranks of this job; start"));
  EXPECT_THAT(scratch_.left_behind(), IsEmpty());
}

TEST_F(RunRanks, AnInterruptEndsAll) {
  Subprocess job(four(RunScratch::kForEver));
  ASSERT_TRUE(job.wait_errors("[sink@c] flowing"));
  job.signal(SIGINT);
  ASSERT_TRUE(job.wait()) << "still running";
  EXPECT_TRUE(eventually([&] { return scratch_.left_behind().empty(); }))
      << testing::PrintToString(scratch_.left_behind());
}

}  // namespace
}  // namespace gantry::test
