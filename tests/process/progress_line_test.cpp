// Progress: what is to be seen on a terminal and in a pipe, while it goes on and afterwards.
#include <gmock/gmock.h>

#include <cstdlib>

#include "support/screen.hpp"
#include "tools/command_line/progress.hpp"

namespace gantry::cli {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::size_t columns_of(std::string_view text) {
  std::size_t columns = 0;
  for (const char byte : text) columns += (byte & 0xc0) != 0x80 ? 1 : 0;
  return columns;
}

const ProgressLine kHalf{.title = "bench ipc",
                         .label = "64 KiB",
                         .count = "20/40",
                         .left = "1 min 3 s left",
                         .part = 0.5};

TEST(ProgressLineTest, ShowsABarWhatIsDoneHowMuchAndWhatIsLeft) {
  EXPECT_EQ(progress_line(kHalf, 80, false),
            "bench ipc [############............] 20/40 64 KiB (1 min 3 s left)");
  EXPECT_THAT(progress_line(kHalf, 80, true),
              AllOf(HasSubstr("[████████████░"), Not(HasSubstr("#"))));
}

TEST(ProgressLineTest, LeavesOutWhatFindsNoRoom) {
  EXPECT_EQ(progress_line(kHalf, 64, false),
            "[############............] 20/40 64 KiB (1 min 3 s left)");
  EXPECT_EQ(progress_line(kHalf, 40, false), "20/40 64 KiB (1 min 3 s left)");
  EXPECT_EQ(progress_line(kHalf, 20, false), "20/40 64 KiB");
  const ProgressLine longer{"bench", "a case with a läng name", "3/4", "", 0.5};
  EXPECT_EQ(progress_line(longer, 20, false), "3/4 a case with a ~");
  EXPECT_EQ(progress_line(longer, 22, true), "3/4 a case with a lä…");
  for (std::size_t columns = 2; columns < 100; ++columns)
    EXPECT_LT(columns_of(progress_line(longer, columns, true)), columns);
}

class ProgressTest : public ::testing::Test {
 protected:
  ProgressTest() {
    ::setenv("TERM", "xterm", 1);
    ::setenv("LC_ALL", "C", 1);
    ::unsetenv("NO_COLOR");
  }
  static void two_things(int stream) {
    Progress progress("bench", 3, stream);
    progress.step("small");
    progress.step("small");
    progress.step("big");
  }
};

TEST_F(ProgressTest, OneLineIsDrawnOverAndOver) {
  test::TestTerminal terminal;
  Progress progress("bench", 2, terminal.stream());
  progress.step("small");
  progress.step("big");
  EXPECT_THAT(terminal.rows(), ElementsAre("bench [############............] 2/2 big"));
}

TEST_F(ProgressTest, NothingIsLeftOfIt) {
  test::TestTerminal terminal;
  two_things(terminal.stream());
  EXPECT_THAT(terminal.read_all(), HasSubstr("3/3 big"));
  EXPECT_THAT(terminal.rows(), IsEmpty());
}

TEST_F(ProgressTest, OtherWordsStandWhereItStood) {
  test::TestTerminal terminal;
  Progress progress("bench", 2, terminal.stream());
  progress.step("small");
  progress.clear();
  ASSERT_EQ(::write(terminal.stream(), "a note\n", 7), 7);
  progress.step("big");
  EXPECT_THAT(terminal.rows(), ElementsAre("a note", HasSubstr("2/2 big")));
}

TEST_F(ProgressTest, FollowsTheWindow) {
  test::TestTerminal terminal;
  Progress progress("bench", 2, terminal.stream());
  progress.step("small");
  terminal.resize(20);
  progress.step("what has a long name");
  const std::string all = terminal.read_all();
  EXPECT_EQ(all.substr(all.rfind('\r')), "\r2/2 what has a lon~\x1b[K");
}

TEST_F(ProgressTest, IsDrawnAtMostTenTimesASecond) {
  test::TestTerminal terminal;
  const auto started = std::chrono::steady_clock::now();
  Progress progress("bench", 0, terminal.stream());
  for (int i = 0; i < 10'000; ++i) progress.show("the same", i / 10'000.0);
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - started;
  const std::string all = terminal.read_all();
  const auto draws = std::count(all.begin(), all.end(), '\r');
  EXPECT_GE(draws, 1);
  EXPECT_LE(static_cast<double>(draws), 1 + passed.count() * 10);
}

TEST_F(ProgressTest, DrawsWithLettersOfTheLocale) {
  ::setenv("LC_ALL", "en_GB.UTF-8", 1);
  test::TestTerminal terminal;
  two_things(terminal.stream());
  EXPECT_THAT(terminal.read_all(), HasSubstr("█"));
}

TEST_F(ProgressTest, ATerminalThatCannotOrShouldNotDrawGetsLines) {
  for (const char* const name : {"TERM", "NO_COLOR"}) {
    ::setenv("TERM", "xterm", 1);
    ::unsetenv("NO_COLOR");
    ::setenv(name, "dumb", 1);
    test::TestTerminal terminal;
    two_things(terminal.stream());
    EXPECT_THAT(terminal.rows(), ElementsAre("bench: small (1/3)", "bench: big (3/3)")) << name;
  }
}

TEST_F(ProgressTest, APipeGetsALineForEachThingThatBegins) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  two_things(ends[1]);
  ::close(ends[1]);
  std::array<char, 256> text{};
  const ssize_t got = ::read(ends[0], text.data(), text.size());
  EXPECT_EQ(std::string(text.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0))),
            "bench: small (1/3)\nbench: big (3/3)\n");
  ::close(ends[0]);
}

}  // namespace
}  // namespace gantry::cli
