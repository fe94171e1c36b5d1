// The folder of a recording: what is made there, what goes, what stays.
#include <set>
#include <thread>

#include "core/trace/test_traced.hpp"

namespace gantry::trace {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// Somebody may have called a folder of their own so, and files by a date.
TEST_F(Traced, WhatNoRecordingHasMadeStays) {
  fs::create_directory(folder());
  fs::permissions(folder(), fs::perms::owner_all);
  const auto make = [&](const std::string& name, fs::perms mode) {
    std::ofstream(folder() + "/" + name) << name;
    fs::permissions(folder() + "/" + name, mode);
  };
  make("2026-11-27", fs::perms::owner_read | fs::perms::owner_write);
  make("2026-11-27.csv", fs::perms::owner_read);
  fs::create_directories(folder() + "/1-1-1/deeper");
  fs::create_directory_symlink("/etc", folder() + "/2-2-2");
  make("7-7-7", fs::perms::owner_read);  // as one that was killed leaves it
  const auto refused = Recording::start({directory_});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::invalid_argument);
  EXPECT_THAT(refused.error().message, HasSubstr("lies there, which no recording has made"));
  std::set<std::string> left;
  for (const auto& entry : fs::recursive_directory_iterator(folder()))
    left.insert(entry.path().lexically_relative(folder()).string());
  EXPECT_EQ(left, (std::set<std::string>{"1-1-1", "1-1-1/deeper", "2-2-2", "2026-11-27",
                                         "2026-11-27.csv"}));
  fs::remove_all(folder());
  Recording recording = record();
  std::ofstream(folder() + "/notes") << "mine";
  ASSERT_TRUE(recording.finish());
  EXPECT_TRUE(fs::exists(folder() + "/notes"));
  EXPECT_FALSE(fs::exists(folder() + "/" + kControlFile));
}

// Threads that come and go have rings, too.
TEST_F(Traced, ARingThatIsClosedAndReadGoes) {
  Recording recording = record();
  for (std::uint64_t i = 1; i <= 3; ++i) {
    EndTrace end;
    end.join(directory_, EndKind::producer, "c" + std::to_string(i));
    send(end, i);
  }
  for (int look = 0; look < 3; ++look) ASSERT_TRUE(recording.keep_up());
  EXPECT_EQ(std::distance(fs::directory_iterator(folder()), {}), 1) << "control";
  const auto trace = recording.finish();
  ASSERT_TRUE(trace);
  EXPECT_THAT(trace->tracks, SizeIs(3));
  EXPECT_EQ(numbers_of(*trace), (std::vector<std::uint64_t>{1, 2, 3}));
}

// A process that is recorded again and again has room for it.
TEST_F(Traced, ARingOfAnEarlierRecordingTakesNoRoom) {
  EndTrace end;
  end.join(directory_, EndKind::producer, "c");
  for (std::uint64_t i = 1; i <= 40; ++i) {  // 40 of 8 MiB are five times what a process may have
    Recording recording = record(1U << 16);
    Scope::of(directory_)->look();
    send(end, i);
    const auto trace = recording.finish();
    ASSERT_TRUE(trace);
    EXPECT_EQ(numbers_of(*trace), std::vector<std::uint64_t>{i});
    ASSERT_THAT(trace->tracks, SizeIs(1));
  }
  Recording recording = record(1U << 16);
  Scope::of(directory_)->look();
  for (std::uint64_t i = 1; i <= 60'000; ++i) send(end, i);
  const auto trace = recording.finish();
  ASSERT_TRUE(trace);
  EXPECT_EQ(trace->tracks.at(0).lost, 0u);
}

/// What a recording says that cannot go on.
Error error_of(Recording& recording) {
  for (;;) {
    if (auto kept = recording.keep_up(); !kept) return kept.error();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // it is renewed once a second
  }
}

TEST_F(Traced, AFolderInPlaceOfTheControlIsNamed) {
  Recording recording = record();
  fs::remove(folder() + "/" + kControlFile);
  fs::create_directory(folder() + "/" + kControlFile);
  const Error error = error_of(recording);
  EXPECT_THAT(error.message, HasSubstr("trace/control: Is a directory"));
  EXPECT_THAT(error.hint, HasSubstr("leave that folder to the recording"));
}

TEST_F(Traced, AFolderThatIsRemovedEndsTheRecording) {
  Recording recording = record();
  fs::remove_all(folder());
  const auto kept = recording.keep_up();
  ASSERT_FALSE(kept);
  EXPECT_EQ(kept.error().code, Code::not_found);
  EXPECT_THAT(kept.error().message, HasSubstr("trace: somebody removed it"));
  EXPECT_FALSE(recording.finish());
}

}  // namespace
}  // namespace gantry::trace
