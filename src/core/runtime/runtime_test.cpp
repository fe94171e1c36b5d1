#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <gantry/device.hpp>
#include <gantry/runtime.hpp>

namespace gantry {
namespace {

using ::testing::HasSubstr;

class Runtimes : public ::testing::Test {
 protected:
  Runtimes() {
    EXPECT_NE(::mkdtemp(cache_.data()), nullptr);
    ::setenv("XDG_CACHE_HOME", cache_.c_str(), 1);
    ::unsetenv("GANTRY_ENGINE");
    ::unsetenv("GANTRY_CALIBRATE");
  }
  ~Runtimes() override {
    ::unsetenv("GANTRY_ENGINE");
    ::unsetenv("XDG_CACHE_HOME");
    std::filesystem::remove_all(cache_);
  }
  std::string cache_ = std::filesystem::temp_directory_path() / "gantry-cache-XXXXXX";
};

TEST_F(Runtimes, ThePolicyChoosesByDefault) {
  const auto runtime = Runtime::create();
  ASSERT_TRUE(runtime) << to_string(runtime.error());
  EXPECT_EQ(runtime->default_engine()->name(), "auto");
  EXPECT_EQ(runtime->default_engine(), *runtime->engine("auto"));
}

// NOLINTBEGIN(bugprone-use-after-move): that is what is tested
TEST_F(Runtimes, OneThatWasMovedFromRefuses) {
  Runtime runtime = *Runtime::create();
  const Runtime moved = std::move(runtime);
  const auto told = [](const auto& result) { return result ? "" : to_string(result.error()); };
  for (const std::string& text :
       {told(runtime.producer("x")), told(runtime.consumer("x", {}, Deadline::now())),
        told(runtime.inbox("x")), told(runtime.connect("x", {}, Deadline::now())),
        told(runtime.server("x")), told(runtime.client("x", {}, Deadline::now())),
        told(runtime.engine("auto")), told(runtime.open_device("cpu")), told(runtime.calibrate())})
    EXPECT_THAT(text, HasSubstr("this Runtime is empty, or was moved from"));
  EXPECT_EQ(runtime.engine("auto").error().code, Code::invalid_argument);
  EXPECT_EQ(runtime.default_engine(), nullptr);
  EXPECT_TRUE(runtime.engines().empty());
  EXPECT_EQ(runtime.calibration().path, "");
  EXPECT_EQ(moved.default_engine()->name(), "auto");
}
// NOLINTEND(bugprone-use-after-move)

TEST_F(Runtimes, TheVariableChoosesTheEngine) {
  for (const char* wish : {"inline", "require:inline"}) {
    ::setenv("GANTRY_ENGINE", wish, 1);
    const auto runtime = Runtime::create();
    ASSERT_TRUE(runtime) << to_string(runtime.error());
    EXPECT_EQ(runtime->default_engine()->name(), "inline");
  }
}

TEST_F(Runtimes, TheOptionComesBeforeTheVariable) {
  ::setenv("GANTRY_ENGINE", "warp", 1);
  const auto runtime = Runtime::create({{}, "inline", true});
  ASSERT_TRUE(runtime) << to_string(runtime.error());
  EXPECT_EQ(runtime->default_engine()->name(), "inline");
}

TEST_F(Runtimes, AnUnknownEngineIsNamedWithThoseThereAre) {
  for (const char* wish : {"warp", "require:warp"}) {
    ::setenv("GANTRY_ENGINE", wish, 1);
    const auto runtime = Runtime::create();
    ASSERT_FALSE(runtime);
    EXPECT_EQ(runtime.error().code, Code::not_found);
    EXPECT_THAT(to_string(runtime.error()), HasSubstr("GANTRY_ENGINE"));
    EXPECT_THAT(to_string(runtime.error()), HasSubstr("'warp'"));
    EXPECT_THAT(runtime.error().hint, HasSubstr("inline, thread"));
    EXPECT_THAT(runtime.error().hint, HasSubstr("auto"));
  }
}

// Of the engines that this machine has, none or some cannot be used.
TEST_F(Runtimes, WhatCannotBeUsedIsReplacedUnlessRequired) {
  const auto plain = Runtime::create();
  ASSERT_TRUE(plain);
  for (const auto& status : plain->engines()) {
    if (status.usable) continue;
    ::setenv("GANTRY_ENGINE", status.name.c_str(), 1);
    const auto preferring = Runtime::create();
    ASSERT_TRUE(preferring) << to_string(preferring.error());
    EXPECT_EQ(preferring->default_engine()->name(), "auto");
    EXPECT_THAT(preferring->engines().back().why, HasSubstr("stands in"));
    EXPECT_THAT(preferring->engines().back().why, HasSubstr(status.why));
    ::setenv("GANTRY_ENGINE", ("require:" + status.name).c_str(), 1);
    const auto requiring = Runtime::create();
    ASSERT_FALSE(requiring);
    EXPECT_THAT(to_string(requiring.error()), HasSubstr(status.why));
  }
}

TEST_F(Runtimes, CalibrateForThisProcessAndTheNext) {
  auto runtime = Runtime::create();
  ASSERT_TRUE(runtime);
  EXPECT_EQ(runtime->calibration().calibration.source, Calibration::Source::defaults);
  EXPECT_FALSE(runtime->calibration().kept);
  const auto measured = runtime->calibrate({.quick = true});
  ASSERT_TRUE(measured) << to_string(measured.error());
  EXPECT_TRUE(measured->kept) << measured->note;
  EXPECT_EQ(runtime->calibration().calibration.source, Calibration::Source::quick);
  const auto next = Runtime::create();
  ASSERT_TRUE(next);
  EXPECT_EQ(next->calibration().calibration.source, Calibration::Source::quick);
  EXPECT_EQ(next->calibration().path, measured->path);
}

TEST_F(Runtimes, AnInterruptedCalibrationLeavesEverythingAsItWas) {
  auto runtime = Runtime::create();
  ASSERT_TRUE(runtime);
  const auto stopped = runtime->calibrate(
      {.quick = true, .on_step = [](std::string_view, double) { return false; }});
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, Code::interrupted);
  EXPECT_EQ(runtime->calibration().calibration.source, Calibration::Source::defaults);
  EXPECT_FALSE(std::filesystem::exists(runtime->calibration().path));
}

TEST_F(Runtimes, ADamagedCalibrationIsNotedAndMadeAnew) {
  auto first = Runtime::create();
  ASSERT_TRUE(first);
  const auto measured = first->calibrate({.quick = true});
  ASSERT_TRUE(measured);
  std::ofstream(measured->path) << "rubbish";
  auto second = Runtime::create();
  ASSERT_TRUE(second);
  EXPECT_EQ(second->calibration().calibration.source, Calibration::Source::defaults);
  EXPECT_THAT(second->calibration().note, HasSubstr(measured->path));
  ASSERT_TRUE(second->calibrate({.quick = true}));
  EXPECT_EQ(second->calibration().note, "");
  EXPECT_EQ(Runtime::create()->calibration().calibration.source, Calibration::Source::quick);
}

TEST_F(Runtimes, TheFirstLargeMoveCalibratesUnlessThatIsOff) {
  const auto copy_a_mebibyte = [](Runtime& runtime) {
    const std::vector<std::byte> source(1 << 20, std::byte{7});
    std::vector<std::byte> copy(source.size());
    const auto lane = *(*runtime.engine("auto"))->open_lane();
    EXPECT_EQ(lane->wait(*lane->submit(Move::copy(copy, source))), Outcome::done);
    EXPECT_TRUE(copy == source);
  };
  ::setenv("GANTRY_CALIBRATE", "off", 1);
  auto off = Runtime::create();
  ASSERT_TRUE(off);
  copy_a_mebibyte(*off);
  EXPECT_EQ(off->calibration().calibration.source, Calibration::Source::defaults);
  ::unsetenv("GANTRY_CALIBRATE");
  auto on = Runtime::create();
  ASSERT_TRUE(on);
  copy_a_mebibyte(*on);
  EXPECT_EQ(on->calibration().calibration.source, Calibration::Source::quick);
  EXPECT_TRUE(std::filesystem::exists(on->calibration().path));
}

TEST_F(Runtimes, AnEngineIsBuiltOnce) {
  const auto runtime = Runtime::create();
  ASSERT_TRUE(runtime);
  for (const auto& status : runtime->engines()) {
    if (!status.usable) continue;
    EXPECT_EQ(*runtime->engine(status.name), *runtime->engine(status.name)) << status.name;
  }
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

// Each opens in the runtime's directory, with its engine.
TEST_F(Runtimes, OpensInboxesAndServers) {
  auto runtime = Runtime::create({.directory = cache_});
  ASSERT_TRUE(runtime);
  const Deadline soon = Deadline::after(std::chrono::minutes(1));
  auto inbox = runtime->inbox("in");
  ASSERT_TRUE(inbox) << to_string(inbox.error());
  EXPECT_TRUE(std::filesystem::exists(cache_ + "/in.sock")) << "in the runtime's own folder";
  auto out = runtime->connect("in", {}, soon);
  ASSERT_TRUE(out) << to_string(out.error());
  const std::vector<std::byte> payload(300'000, std::byte{7});
  ASSERT_TRUE(out->send(payload, soon));
  EXPECT_EQ(inbox->receive(soon)->message.bytes().size(), payload.size());
  auto server = runtime->server("service");
  ASSERT_TRUE(server) << to_string(server.error());
  EXPECT_TRUE(std::filesystem::exists(cache_ + "/service.sock"));
  auto client = runtime->client("service", {}, soon);
  ASSERT_TRUE(client) << to_string(client.error());
  auto pending = client->call_async(payload, {.deadline = soon});
  ASSERT_TRUE(pending) << to_string(pending.error());
  ASSERT_TRUE(server->next(soon)->reply(payload));
  EXPECT_EQ(pending->wait(soon)->bytes().size(), payload.size());
}

}  // namespace
}  // namespace gantry
