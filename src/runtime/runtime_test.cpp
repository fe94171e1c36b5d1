#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <gantry/runtime.hpp>

namespace gantry {
namespace {

using ::testing::HasSubstr;

class Runtimes : public ::testing::Test {
 protected:
  ~Runtimes() override { ::unsetenv("GANTRY_ENGINE"); }
};

TEST_F(Runtimes, CopiesInlineByDefault) {
  const auto runtime = Runtime::create();
  ASSERT_TRUE(runtime) << to_string(runtime.error());
  EXPECT_EQ(runtime->default_engine()->kind(), CopyEngine::inline_);
}

TEST_F(Runtimes, TheVariableChoosesTheEngine) {
  ::setenv("GANTRY_ENGINE", "thread", 1);
  const auto runtime = Runtime::create();
  ASSERT_TRUE(runtime) << to_string(runtime.error());
  EXPECT_EQ(runtime->default_engine()->kind(), CopyEngine::thread);
}

TEST_F(Runtimes, AnUnknownEngineIsNamedWithThoseThereAre) {
  ::setenv("GANTRY_ENGINE", "warp", 1);
  const auto runtime = Runtime::create();
  ASSERT_FALSE(runtime);
  EXPECT_EQ(runtime.error().code, Code::not_found);
  EXPECT_THAT(to_string(runtime.error()), HasSubstr("GANTRY_ENGINE"));
  EXPECT_THAT(to_string(runtime.error()), HasSubstr("'warp'"));
  EXPECT_THAT(runtime.error().hint, HasSubstr("inline and thread"));
}

TEST_F(Runtimes, AnEngineIsBuiltOnce) {
  const auto runtime = Runtime::create();
  ASSERT_TRUE(runtime);
  const auto first = runtime->engine("thread");
  const auto second = runtime->engine("thread");
  ASSERT_TRUE(first && second);
  EXPECT_EQ(*first, *second);
}

TEST_F(Runtimes, ReportsEveryEngine) {
  const auto runtime = Runtime::create();
  ASSERT_TRUE(runtime);
  for (const auto& status : runtime->engines()) {
    EXPECT_EQ(status.usable, runtime->engine(status.name).has_value()) << status.name;
    EXPECT_FALSE(status.why.empty()) << status.name;
    EXPECT_EQ(status.mend.empty(), status.usable) << status.name;
  }
}

TEST_F(Runtimes, OpensChannelsInItsDirectory) {
  std::string folder = std::filesystem::temp_directory_path() / "gantry-runtime-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  auto runtime = Runtime::create({folder});
  ASSERT_TRUE(runtime);
  {
    const auto producer = runtime->producer("here");
    ASSERT_TRUE(producer) << to_string(producer.error());
    const auto channels = list_channels(folder);
    ASSERT_TRUE(channels);
    ASSERT_EQ(channels->size(), 1u);
    EXPECT_EQ(channels->front().name, "here");
  }
  std::filesystem::remove_all(folder);
}

TEST_F(Runtimes, HasAVersion) {
  EXPECT_EQ(std::count(version().begin(), version().end(), '.'), 2);
}

}  // namespace
}  // namespace gantry
