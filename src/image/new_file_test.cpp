// What is left of a file that did not get its name, and who removes it.
#include "image/new_file.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <climits>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

namespace gantry::image {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class NewFiles : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_NE(::mkdtemp(folder_.data()), nullptr); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  [[nodiscard]] std::string file(const std::string& name) const { return folder_ + "/" + name; }
  [[nodiscard]] std::set<std::string> entries() const {
    std::set<std::string> names;
    for (const auto& one : std::filesystem::directory_iterator(folder_))
      names.insert(one.path().filename().string());
    return names;
  }
  [[nodiscard]] std::string text_of(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(file(name)).rdbuf();
    return text.str();
  }
  static Result<void> write(const std::string& path, std::string_view text) {
    GANTRY_ASSIGN(NewFile made, NewFile::create(path));
    GANTRY_TRY(made.write(std::as_bytes(std::span(text)), 0));
    return made.keep();
  }
  /// A process that is no more.
  static pid_t dead() {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(0);
    ::waitpid(child, nullptr, 0);
    return child;
  }
  void leave(const std::string& name) const { std::ofstream(file(name)) << "half"; }

  std::string folder_ = (std::filesystem::temp_directory_path() / "gantry-file-XXXXXX").string();
};

TEST_F(NewFiles, TheNextOneRemovesWhatDeadOnesLeft) {
  const std::string gone = std::to_string(dead());
  leave("a.partial-" + gone);
  leave("a.partial-" + gone + "-7");
  leave("a.partial-" + std::to_string(::getpid()));  // of one before, with this number
  must(write(file("a"), "new"));
  EXPECT_THAT(entries(), ElementsAre("a"));
  leave("a.partial-" + gone);
  must(write(file("a"), "newer"));
  EXPECT_THAT(entries(), ElementsAre("a"));
  EXPECT_EQ(text_of("a"), "newer");
}

TEST_F(NewFiles, NobodyElsesFileIsRemoved) {
  const std::string gone = std::to_string(dead());
  const std::vector<std::string> others{"a.partial-" + std::to_string(::getppid()),
                                        "a.partial-" + gone + "-locked",
                                        "a.partial-" + gone + "x",
                                        "a.partial-",
                                        "a.partial-0",
                                        "b.partial-" + gone,
                                        "xa.partial-" + gone};
  for (const std::string& one : others) leave(one);
  leave("a.partial-" + gone);
  const Fd held(::open(file("a.partial-" + gone).c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(::flock(held.get(), LOCK_EX), 0);  // as its maker in another container has it
  std::filesystem::create_directory(file("a.partial-" + gone + "-1"));
  must(write(file("a"), "new"));
  EXPECT_EQ(entries().size(), others.size() + 3);
}

TEST_F(NewFiles, TwoOfOneProcessDoNotTakeEachOthers) {
  leave("a");
  auto one = must(NewFile::create(file("a")));
  const std::string mine = NewFile::partial_path(file("a"));
  leave(std::filesystem::path(mine).filename().string());
  const Fd held(
      ::open(mine.c_str(), O_RDONLY | O_CLOEXEC));  // another thread is about to rename it
  ASSERT_EQ(::flock(held.get(), LOCK_EX), 0);
  must(one.write(std::as_bytes(std::span(std::string_view("one"))), 0));
  must(one.keep());
  EXPECT_EQ(text_of("a"), "one");
  EXPECT_TRUE(std::filesystem::exists(mine));
}

TEST_F(NewFiles, ANameMayBeAsLongAsThereAre) {
  const std::string name(NAME_MAX, 'n');
  must(write(file(name), "first"));
  const std::string mine = std::filesystem::path(NewFile::partial_path(name)).filename();
  leave(mine.substr(0, mine.rfind('-') + 1) + std::to_string(dead()));
  must(write(file(name), "second"));
  EXPECT_EQ(text_of(name), "second");
  EXPECT_THAT(entries(), ElementsAre(name));
}

TEST_F(NewFiles, OneThatIsNotKeptLeavesNothing) {
  {
    auto dropped = must(NewFile::create(file("a")));
    must(dropped.set_size(100));
  }
  EXPECT_THAT(entries(), IsEmpty());
}

}  // namespace
}  // namespace gantry::image
