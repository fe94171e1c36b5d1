#include "run/process/programs.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

namespace gantry::run {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class Programs : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "programs-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    fs::create_directories(folder_ + "/bin/folder");
    make("bin/tool", 0755);
    make("bin/text", 0644);
  }
  void TearDown() override { fs::remove_all(folder_); }

  void make(const std::string& name, mode_t mode) const {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path) << "#!/bin/sh\n";
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
  }
  std::string error_of(const std::string& command) const {
    const auto found = find_program(command, folder_ + "/bin", folder_);
    return found ? "found " + *found : gantry::to_string(found.error());
  }

  std::string folder_;
};

TEST_F(Programs, LooksWordsUpAlongThePath) {
  const std::string path = "/nowhere:" + folder_ + "/bin:/bin";
  EXPECT_EQ(find_program("tool", path, "/").value(), folder_ + "/bin/tool");
  EXPECT_EQ(find_program("sh", path, "/").value(), "/bin/sh");
}

TEST_F(Programs, TakesADotForTheFolderOfTheFile) {
  EXPECT_EQ(find_program("./tool", "", folder_ + "/bin").value(), folder_ + "/bin/./tool");
  EXPECT_EQ(find_program("../bin/tool", "", folder_ + "/bin").value(),
            folder_ + "/bin/../bin/tool");
  EXPECT_EQ(find_program("/bin/sh", "", folder_).value(), "/bin/sh");
}

TEST_F(Programs, SaysWhyThereIsNone) {
  EXPECT_THAT(error_of("tol"), HasSubstr("there is no program 'tol' in PATH; install it"));
  EXPECT_THAT(error_of("text"), HasSubstr("there is no program 'text' in PATH"));
  EXPECT_THAT(error_of("./bin/text"), HasSubstr("is not executable; chmod +x "));
  EXPECT_THAT(error_of("./bin/folder"), HasSubstr("is a folder"));
  EXPECT_THAT(error_of("./bin/none"), HasSubstr("there is no "));
}

TEST_F(Programs, NamesThePlaceInTheFile) {
  Pipeline pipeline;
  pipeline.source = {"p.toml", folder_};
  Stage stage;
  stage.name = "a";
  stage.command = {"./bin/none"};
  stage.command_at = {7, 12};
  pipeline.stages.push_back(stage);
  Mistakes missing;
  locate_programs(pipeline, kThisHost, pipeline.source.folder, missing);
  ASSERT_FALSE(missing.first());
  EXPECT_THAT(missing.first().error().message,
              HasSubstr("p.toml:7:12: stages.a.command: there is no "));
}

}  // namespace
}  // namespace gantry::run
