#include "core/calibration/calibration_store.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace gantry {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kMachine = "cpu X; cpus 2";

Calibration stored_sample() {
  Calibration calibration;
  calibration.machine = kMachine;
  calibration.source = Calibration::Source::full;
  calibration.engines = {{"inline", false, {{64, 30, 31, 31}}}};
  return calibration;
}

mode_t mode_of(const std::string& path) {
  struct stat facts{};
  return ::stat(path.c_str(), &facts) == 0 ? facts.st_mode & 07777 : 0;
}

class Stores : public ::testing::Test {
 protected:
  Stores() {
    EXPECT_NE(::mkdtemp(folder_.data()), nullptr);
    ::setenv("XDG_CACHE_HOME", folder_.c_str(), 1);
  }
  ~Stores() override {
    ::unsetenv("XDG_CACHE_HOME");
    ::chmod((folder_ + "/gantry").c_str(), 0700);
    fs::remove_all(folder_);
  }
  void expect_ignored(std::string_view why) {
    const auto found = CalibrationStore(kMachine).load();
    EXPECT_FALSE(found.calibration) << why;
    EXPECT_THAT(found.note, HasSubstr(why));
  }

  std::string folder_ = fs::temp_directory_path() / "gantry-store-XXXXXX";
};

TEST_F(Stores, KeepOneForTheNextProcess) {
  const CalibrationStore store(kMachine);
  EXPECT_FALSE(store.load().calibration);
  EXPECT_THAT(store.load().note, IsEmpty());  // nothing there yet is no trouble
  ASSERT_TRUE(store.save(stored_sample()));
  const auto found = CalibrationStore(kMachine).load();
  ASSERT_TRUE(found.calibration) << found.note;
  EXPECT_EQ(found.calibration->engines[0].points[0].synchronous_ns, 30);
  EXPECT_THAT(found.note, IsEmpty());
}

TEST_F(Stores, KeepItFromOthers) {
  const CalibrationStore store(kMachine);
  ASSERT_TRUE(store.save(stored_sample()));
  EXPECT_EQ(mode_of(store.path()), 0600u);
  EXPECT_EQ(mode_of(folder_ + "/gantry"), 0700u);
}

TEST_F(Stores, LeaveNothingHalfWritten) {
  const CalibrationStore store(kMachine);
  ASSERT_TRUE(store.save(stored_sample()));
  std::ofstream(store.path() + ".new") << "of one that was killed";
  ASSERT_TRUE(store.save(stored_sample()));
  std::size_t files = 0;
  for (const auto& entry : fs::directory_iterator(folder_ + "/gantry")) {
    EXPECT_EQ(entry.path(), store.path());
    ++files;
  }
  EXPECT_EQ(files, 1u);
}

TEST_F(Stores, HaveAFileForEachMachine) {
  ASSERT_TRUE(CalibrationStore(kMachine).save(stored_sample()));
  EXPECT_FALSE(CalibrationStore("cpu Y; cpus 2").load().calibration);
  EXPECT_NE(CalibrationStore("cpu Y; cpus 2").path(), CalibrationStore(kMachine).path());
}

TEST_F(Stores, IgnoreWhatTheyCannotTrust) {
  const CalibrationStore store(kMachine);
  ASSERT_TRUE(store.save(stored_sample()));
  ::chmod(store.path().c_str(), 0666);
  expect_ignored("others may write it");
  ::chmod(store.path().c_str(), 0600);
  ::chmod((folder_ + "/gantry").c_str(), 0777);
  expect_ignored("chmod go-w");
  ::chmod((folder_ + "/gantry").c_str(), 0700);
  ASSERT_TRUE(store.load().calibration);
  fs::rename(store.path(), folder_ + "/elsewhere");
  fs::create_symlink(folder_ + "/elsewhere", store.path());
  expect_ignored("symbolic link");
  fs::remove(store.path());
  fs::create_directory(store.path());
  expect_ignored("it is no file");
  fs::remove(store.path());
  ASSERT_EQ(::mkfifo(store.path().c_str(), 0600), 0);
  expect_ignored("it is no file");  // and nobody waits for a writer
}

TEST_F(Stores, IgnoreWhatMakesNoSense) {
  const CalibrationStore store(kMachine);
  ASSERT_TRUE(store.save(stored_sample()));
  std::ofstream(store.path()) << "gantry-calibration 2\nrubbish\n";
  expect_ignored("line 2 makes no sense; `gantry calibrate` measures anew");
  std::ofstream(store.path()) << "gantry-calibration 1\nmachine cpu X\n";
  expect_ignored("version '1', this program's is 2; `gantry calibrate` measures anew");
  std::ofstream(store.path()) << std::string(100'000, 'x');
  expect_ignored("100000 bytes are too many");
  std::ofstream(store.path(), std::ios::trunc).flush();
  expect_ignored("does not end as it should");
  Calibration foreign = stored_sample();
  foreign.machine = "cpu Y";
  ASSERT_TRUE(store.save(foreign));
  expect_ignored("another machine");
  ASSERT_TRUE(store.save(stored_sample()));  // and it can be made anew
  EXPECT_TRUE(store.load().calibration);
}

TEST_F(Stores, SayWhenNothingCanBeKept) {
  fs::create_directory(folder_ + "/gantry");
  ::chmod((folder_ + "/gantry").c_str(), 0500);
  const CalibrationStore store(kMachine);
  if (::geteuid() != 0) {  // whom no mode stops
    const auto saved = store.save(stored_sample());
    ASSERT_FALSE(saved);
    EXPECT_EQ(saved.error().code, Code::permission_denied);
    EXPECT_THAT(saved.error().hint, HasSubstr("XDG_CACHE_HOME"));
  }
  fs::remove(folder_ + "/gantry");
  std::ofstream(folder_ + "/gantry") << "a file in the way";
  EXPECT_FALSE(store.save(stored_sample()));
  EXPECT_FALSE(store.lock());
  fs::remove(folder_ + "/gantry");
}

TEST_F(Stores, FollowTheHomeWhereThereIsNoCacheFolder) {
  ::setenv("XDG_CACHE_HOME", "relative/is/ignored", 1);
  const std::string home = std::getenv("HOME") == nullptr ? "" : std::getenv("HOME");
  ::setenv("HOME", folder_.c_str(), 1);
  EXPECT_TRUE(CalibrationStore(kMachine).path().starts_with(folder_ + "/.cache/gantry/"));
  EXPECT_TRUE(CalibrationStore(kMachine).save(stored_sample()));  // makes both folders
  EXPECT_EQ(mode_of(folder_ + "/.cache"), 0700u);
  ::unsetenv("HOME");
  const CalibrationStore nowhere(kMachine);
  EXPECT_EQ(nowhere.path(), "");
  EXPECT_THAT(nowhere.load().note, HasSubstr("HOME"));
  EXPECT_FALSE(nowhere.save(stored_sample()));
  EXPECT_FALSE(nowhere.lock());
  ::setenv("HOME", home.c_str(), 1);
}

TEST_F(Stores, LetOneCalibrateAtATime) {
  const CalibrationStore store(kMachine);
  {
    const auto first = store.lock();
    ASSERT_TRUE(first) << first.error().message;
    const auto second = CalibrationStore(kMachine).lock();
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, Code::busy);
    EXPECT_TRUE(CalibrationStore("another machine").lock());
  }
  EXPECT_TRUE(store.lock());
}

}  // namespace
}  // namespace gantry
