// A file that an option names: an earlier one stays until the new one is whole.
#include "tools/command_line/output_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "support/subprocess.hpp"

namespace gantry::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

class OutputFiles : public ::testing::Test {
 protected:
  [[nodiscard]] std::string file(const char* name) const { return scratch_.file(name); }
  [[nodiscard]] static std::string text_of(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  static void expect_refused(const std::string& path, const char* why) {
    const auto refused = OutputFile::at(path);
    ASSERT_FALSE(refused) << path;
    EXPECT_THAT(refused.error().message, HasSubstr(why));
  }

  test::ScratchDirectory scratch_;
};

TEST_F(OutputFiles, OneIsReplacedWhenItIsWhole) {
  std::ofstream(file("page")) << "an earlier page, which is longer";
  const auto page = OutputFile::at(file("page"));
  ASSERT_TRUE(page);
  EXPECT_THAT(scratch_.entries(), ElementsAre("page"));
  EXPECT_TRUE(page->write("a page"));
  EXPECT_EQ(text_of(file("page")), "a page");
  EXPECT_THAT(scratch_.entries(), ElementsAre("page"));
}

// In a folder that others may write to.
TEST_F(OutputFiles, ALinkThatWasPutThereMeanwhileIsNotFollowed) {
  std::ofstream(file("victim")) << "the victim's";
  const auto page = OutputFile::at(file("page"));
  ASSERT_TRUE(page);
  fs::create_symlink(file("victim"), file("page.partial-") + std::to_string(::getpid()));
  EXPECT_FALSE(page->write("a page"));
  EXPECT_EQ(text_of(file("victim")), "the victim's");
}

TEST_F(OutputFiles, WhoMayReadTheEarlierOneMayReadTheNext) {
  std::ofstream(file("page")) << "earlier";
  fs::permissions(file("page"), fs::perms::owner_read | fs::perms::owner_write);
  const auto page = OutputFile::at(file("page"));
  ASSERT_TRUE(page && page->write("a page"));
  EXPECT_EQ(fs::status(file("page")).permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

// No room: the limit of a file's size stands for that of the disk.
TEST_F(OutputFiles, AFullDiskLeavesTheEarlierOneAndNoHalf) {
  std::ofstream(file("page")) << "earlier";
  const auto page = OutputFile::at(file("page"));
  ASSERT_TRUE(page);
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit little{3, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &little), 0);
  const auto written = page->write("a page for which there is no room");
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ASSERT_FALSE(written);
  EXPECT_THAT(written.error().message, HasSubstr(file("page") + ": File too large"));
  EXPECT_EQ(text_of(file("page")), "earlier");
  EXPECT_THAT(scratch_.entries(), ElementsAre("page"));
}

TEST_F(OutputFiles, WhatIsNoFileIsRefusedAtOnce) {
  ASSERT_EQ(::mkfifo(file("fifo").c_str(), 0600), 0);
  expect_refused(file("fifo"), "/fifo: it is no regular file");
  expect_refused(scratch_.path(), "Is a directory");
  expect_refused(file("no/page"), "/no/page: No such file or directory");
  expect_refused("-", "'-': it names no file here");
  EXPECT_TRUE(OutputFile::at("/dev/null")->write("text"));
  EXPECT_EQ(OutputFile::at("/dev/full")->write("text").error().code, Code::system);
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
}

TEST_F(OutputFiles, TheSameFileByAnyNameIsRefused) {
  std::ofstream(file("in.toml")) << "text";
  fs::create_symlink(file("in.toml"), file("link"));
  fs::create_hard_link(file("in.toml"), file("hard"));
  const auto check = [&](const std::string& trace, const std::string& report) {
    return check_different({"pipeline file", file("in.toml")},
                           {{"--trace", trace}, {"--report", report}});
  };
  for (const char* same : {"in.toml", "./in.toml", "link", "hard", "no/../in.toml"}) {
    const auto refused = check(file(same), {});
    ASSERT_FALSE(refused) << same;
    EXPECT_THAT(refused.error().message, HasSubstr("it is the same file as the pipeline file"));
  }
  EXPECT_THAT(check(file("new"), file("./new")).error().message,
              HasSubstr("--report " + file("./new") + ": it is the same file as that of --trace"));
  EXPECT_TRUE(check(file("new"), file("other")));
  EXPECT_TRUE(check("/dev/null", "/dev/null"));
}

}  // namespace
}  // namespace gantry::cli
