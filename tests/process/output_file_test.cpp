// A file that an option names: an earlier one stays until the new one is whole.
#include "tools/command_line/output_file.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <cstddef>
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

TEST_F(OutputFiles, OneThatIsNotKeptWasNeverThere) {
  std::ofstream(file("page")) << "earlier";
  for (const char* name : {"page", "new"}) {
    auto writer = OutputWriter::open(*OutputFile::at(file(name)));
    ASSERT_TRUE(writer);
    EXPECT_TRUE(writer->write("half a page"));
    EXPECT_THAT(scratch_.entries(), ElementsAre("page"));
  }
  EXPECT_EQ(text_of(file("page")), "earlier");
}

// In a folder that others may write to.
TEST_F(OutputFiles, ALinkThatWasPutThereMeanwhileIsNotFollowed) {
  std::ofstream(file("victim")) << "the victim's";
  std::ofstream(file("page")) << "earlier";
  const auto page = OutputFile::at(file("page")), fresh = OutputFile::at(file("new"));
  ASSERT_TRUE(page && fresh);
  for (const char* name : {"page", "new"})
    fs::create_symlink(file("victim"), file(name) + ".partial-" + std::to_string(::getpid()));
  fs::create_symlink(file("victim"), file("new"));
  EXPECT_TRUE(page->write("a page"));
  EXPECT_TRUE(fresh->write("a page"));
  for (const char* name : {"page", "new"}) {
    EXPECT_EQ(text_of(file(name)), "a page");
    EXPECT_FALSE(fs::is_symlink(file(name)));
  }
  EXPECT_EQ(text_of(file("victim")), "the victim's");
}

/// As on a file system that has no files without names. For ever.
bool deny_unnamed_files() {
  constexpr std::uint32_t kUnnamed = O_TMPFILE & ~O_DIRECTORY;
  std::array<sock_filter, 6> filter{{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[2])),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, kUnnamed, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EOPNOTSUPP),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  const sock_fprog program{filter.size(), filter.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST_F(OutputFiles, WithoutUnnamedFilesItHasAnotherNameUntilItIsWhole) {
  std::ofstream(file("page")) << "earlier";
  std::ofstream(file("victim")) << "the victim's";
  const pid_t pid = ::fork();
  ASSERT_GE(pid, 0);
  if (pid == 0) {
    if (!deny_unnamed_files()) ::_exit(2);
    const std::string mine = ".partial-" + std::to_string(::getpid());
    for (const char* name : {"page", "new"}) {
      const auto target = OutputFile::at(file(name));
      if (!target || fs::exists(file(name) + mine)) ::_exit(3);
      for (const bool is_kept : {false, true}) {
        auto writer = OutputWriter::open(*target);
        if (!writer || !writer->write("a page") || !fs::exists(file(name) + mine)) ::_exit(4);
        if (is_kept && !writer->keep()) ::_exit(5);
      }
      if (fs::exists(file(name) + mine)) ::_exit(6);
    }
    const auto target = OutputFile::at(file("new"));
    fs::create_symlink(file("victim"), file("new") + mine);  // by somebody else, meanwhile
    ::_exit(target && target->write("a new page") ? 0 : 7);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(pid, &status, 0), pid);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 2) GTEST_SKIP() << "no seccomp here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(text_of(file("page")), "a page");
  EXPECT_EQ(text_of(file("new")), "a new page");
  EXPECT_EQ(text_of(file("victim")), "the victim's");
  const std::string link = "new.partial-" + std::to_string(pid);
  EXPECT_THAT(scratch_.entries(), ElementsAre("new", link, "page", "victim"));
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
