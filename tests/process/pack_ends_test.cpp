// How `gantry pack` ends before it has packed: killed, interrupted, with files that change.
#include <filesystem>
#include <thread>

#include "pack_support.hpp"

namespace gantry::test {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

/// A FIFO cannot be packed, so what is slow is the amount.
TEST_F(Pack, KilledAtAnyTimeItLeavesNoFileOrAWholeOne) {
  write("a.bin", random_bytes(24 << 20));
  std::mt19937_64 random(1);
  int killed = 0;
  for (int i = 0; i < 40; ++i) {
    Command command = gantry({"pack", "a.bin", "a.gimg", "--codec", "zstd"});
    command.cwd = files_.path();
    Subprocess packing(command);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 120'000));  // any instant
    packing.signal(SIGKILL);
    const auto ended = packing.wait();
    ASSERT_TRUE(ended);
    killed += ended->signal == SIGKILL ? 1 : 0;
    if (fs::exists(path("a.gimg"))) expect_done({"image", "verify", "a.gimg"});
    fs::remove(path("a.gimg"));
    EXPECT_EQ(files_.entries(), std::vector<std::string>{"a.bin"});
  }
  EXPECT_GT(killed, 0);
}

TEST_F(Pack, InterruptedItCleansUp) {
  write("a.bin", random_bytes(64 << 20));
  Command command = gantry({"pack", "a.bin", "a.gimg", "--codec", "zstd:19"});
  command.cwd = files_.path();
  Subprocess packing(command);
  ASSERT_TRUE(packing.wait_errors("packing: "));
  packing.signal(SIGINT);
  const auto ended = packing.wait();
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->status, 130);
  EXPECT_EQ(files_.entries(), std::vector<std::string>{"a.bin"});
}

TEST_F(Pack, AFileThatIsWrittenMeanwhileIsNoticed) {
  write("a.bin", random_bytes(64 << 20));
  Command command = gantry({"pack", "a.bin", "a.gimg", "--codec", "zstd:19"});
  command.cwd = files_.path();
  Subprocess packing(command);
  ASSERT_TRUE(packing.wait_errors("packing: "));
  write("a.bin", random_bytes(64 << 20));
  const auto ended = packing.wait();
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->status, 1);
  EXPECT_THAT(ended->errors, HasSubstr("a.bin: it was c"));  // changed, or cut off
  EXPECT_EQ(files_.entries(), std::vector<std::string>{"a.bin"});
}

}  // namespace
}  // namespace gantry::test
