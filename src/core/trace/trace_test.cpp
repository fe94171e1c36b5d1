// Rings, what is read of them, and recordings of this process.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <random>
#include <thread>

#include "core/base/test_effort.hpp"
#include "core/trace/test_traced.hpp"

namespace gantry::trace {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// ---- what an end writes ----------------------------------------------------------------------

TEST_F(Traced, EveryKindOfEventIsReadAsItWasWritten) {
  Recording recording = record();
  {
    EndTrace end;
    end.set_channel(77);
    end.join(directory_, EndKind::consumer, "images");
    ASSERT_TRUE(is_on());
    const std::uint64_t now = read_ticks();
    end.received(now, now, 5, 100);
    end.sent(now, now, 6, 200);
    end.copied(now, 0, 6, 200, CopyEngine::thread, 3);
    end.waited(now, Awaited::credit, 4321);
    end.note(EventKind::release, 5);
    end.woke(1234);
    const Span span("decode");
  }
  const auto trace = recording.finish();
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_THAT(trace->notes, IsEmpty());
  ASSERT_THAT(trace->tracks, SizeIs(2));
  const bool is_first = trace->tracks[0].kind == EndKind::consumer;
  const Track& track = trace->tracks[is_first ? 0 : 1];
  EXPECT_EQ(track.channel, "images");
  EXPECT_EQ(track.pid, ::getpid());
  EXPECT_TRUE(track.is_closed);
  EXPECT_EQ(track.lost, 0u);
  ASSERT_THAT(track.events, SizeIs(6));
  EXPECT_EQ(track.events[0].kind, EventKind::receive);
  EXPECT_EQ(track.events[0].message, (MessageId{77, 5}));
  EXPECT_EQ(track.events[0].bytes, 100u);
  EXPECT_EQ(track.events[1].message, (MessageId{77, 6}));
  EXPECT_EQ(track.events[1].cause, (MessageId{77, 5}));
  EXPECT_EQ(track.events[2].what, "thread");
  EXPECT_EQ(track.events[2].chunks, 3u);
  EXPECT_EQ(track.events[3].what, "credit");
  EXPECT_EQ(track.events[3].peer, 4321);
  EXPECT_EQ(track.events[4].message, (MessageId{77, 5}));
  EXPECT_EQ(track.events[5].peer, 1234);
  const Track& thread = trace->tracks[is_first ? 1 : 0];
  ASSERT_THAT(thread.events, SizeIs(1));
  EXPECT_EQ(thread.events[0].what, "decode");
  ASSERT_THAT(trace->processes, SizeIs(1));
  EXPECT_FALSE(trace->processes[0].ended_ns);
  last_received = {};
}

TEST_F(Traced, WhatARingHadNoRoomForIsCounted) {
  Recording recording = record(4);
  EndTrace end;
  end.join(directory_, EndKind::producer, "c");
  for (std::uint64_t i = 1; i <= 10; ++i) send(end, i);
  const auto trace = recording.finish();
  ASSERT_TRUE(trace);
  ASSERT_THAT(trace->tracks, SizeIs(1));
  EXPECT_EQ(trace->tracks[0].written, 10u);
  EXPECT_EQ(trace->tracks[0].lost, 6u);
  ASSERT_THAT(trace->tracks[0].events, SizeIs(4));
  EXPECT_EQ(trace->tracks[0].events.front().message.sequence, 7u);
  EXPECT_FALSE(trace->tracks[0].is_closed);
}

TEST_F(Traced, NothingIsWrittenAndNothingIsLeftWhileNobodyRecords) {
  EndTrace end;
  end.join(directory_, EndKind::producer, "c");
  EXPECT_EQ(Scope::of(directory_)->run(), 0u);
  send(end, 3);
  EXPECT_TRUE(fs::is_empty(directory_));
  {
    Recording recording = record();
    Scope::of(directory_)->look();
    send(end, 3);
    EXPECT_THAT(ring_bytes(), SizeIs(kHeaderBytes + 64 * sizeof(Ring::Cell)));
  }
  EXPECT_TRUE(fs::is_empty(directory_));
}

TEST_F(Traced, TheNextRecordingHasARingOfItsOwn) {
  EndTrace end;
  for (std::uint64_t i = 1; i <= 2; ++i) {
    Recording recording = record();
    if (i == 1) end.join(directory_, EndKind::producer, "c");
    Scope::of(directory_)->look();
    send(end, i);
    const auto trace = recording.finish();
    ASSERT_TRUE(trace);
    ASSERT_THAT(trace->tracks, SizeIs(1));
    ASSERT_THAT(trace->tracks[0].events, SizeIs(1));
    EXPECT_EQ(trace->tracks[0].events[0].message.sequence, i);
  }
}

// ---- while they write ------------------------------------------------------------------------

TEST_F(Traced, MoreThanARingHoldsIsThereIfItIsReadInTime) {
  Recording recording = record(8);
  std::vector<std::uint64_t> sent;
  {
    EndTrace end;
    end.join(directory_, EndKind::producer, "c");
    for (std::uint64_t i = 1; i <= 50; ++i) {
      send(end, i);
      sent.push_back(i);
      if (i % 7 == 0) {
        EXPECT_TRUE(recording.keep_up());
      }
    }
  }
  const auto trace = recording.finish();
  ASSERT_TRUE(trace);
  ASSERT_THAT(trace->tracks, SizeIs(1));
  EXPECT_EQ(numbers_of(*trace), sent);
  EXPECT_EQ(trace->tracks[0].lost, 0u);
  EXPECT_EQ(trace->tracks[0].written, 50u);
  EXPECT_TRUE(trace->tracks[0].is_closed);
}

// Method: two threads overwrite a ring as fast as they can, while it is read all the time; half-way
// they wait for a look that began then, which a busy machine may else not have before the end.
TEST_F(Traced, WhatIsReadWhileItIsWrittenIsThereOnceOrCounted) {
  const std::uint64_t kEach = 100'000 / static_cast<unsigned>(kTestStride);
  Recording recording = record(4096);
  EndTrace end;
  end.join(directory_, EndKind::producer, "c");
  std::atomic<int> writing{2};
  std::atomic<int> looks{0};  // that are over
  const auto write = [&](std::uint64_t first) {
    for (std::uint64_t i = 0; i < kEach; ++i) {
      send(end, first + 2 * i);
      const int before = looks.load(std::memory_order_relaxed);
      while (i == kEach / 2 && looks.load(std::memory_order_relaxed) < before + 2)
        std::this_thread::yield();
    }
    writing.fetch_sub(1, std::memory_order_relaxed);  // the joining carries the events
  };
  std::jthread odd(write, 1), even(write, 2);
  while (writing.load(std::memory_order_relaxed) > 0) {
    ASSERT_TRUE(recording.keep_up());
    looks.fetch_add(1, std::memory_order_relaxed);
  }
  odd.join(), even.join();
  const auto trace = recording.finish();
  ASSERT_TRUE(trace);
  ASSERT_THAT(trace->tracks, SizeIs(1));
  auto numbers = numbers_of(*trace);
  EXPECT_EQ(trace->tracks[0].written, 2 * kEach);
  EXPECT_EQ(numbers.size() + trace->tracks[0].lost, 2 * kEach);
  EXPECT_GT(numbers.size(), 4096u);
  std::ranges::sort(numbers);
  EXPECT_EQ(std::ranges::adjacent_find(numbers), numbers.end());
}

// Its writer goes on into nothing; what was read before is there.
TEST_F(Traced, WhoCutsARingOffEndsNobody) {
  Recording recording = record();
  EndTrace end;
  end.join(directory_, EndKind::producer, "c");
  for (std::uint64_t i = 1; i <= 3; ++i) send(end, i);
  ASSERT_TRUE(recording.keep_up());
  for (const auto& entry : fs::directory_iterator(folder()))
    if (entry.path().filename() != kControlFile) {
      ASSERT_EQ(::truncate(entry.path().c_str(), 0), 0);
    }
  for (std::uint64_t i = 4; i <= 300; ++i) send(end, i);
  const auto trace = recording.finish();
  ASSERT_TRUE(trace);
  EXPECT_EQ(numbers_of(*trace), (std::vector<std::uint64_t>{1, 2, 3}));
  EXPECT_THAT(trace->notes, ::testing::ElementsAre(HasSubstr("it is cut off")));
}

TEST_F(Traced, ARingWithTwoNamesIsReadOnce) {
  Recording recording = record();
  EndTrace end;
  end.join(directory_, EndKind::producer, "c");
  send(end, 1);
  ASSERT_TRUE(recording.keep_up());
  for (const auto& entry : fs::directory_iterator(folder()))
    if (const auto name = entry.path().filename().string(); name != kControlFile)
      fs::create_hard_link(entry.path(), folder() + "/" + name + "9");
  const auto trace = recording.finish();
  ASSERT_TRUE(trace);
  EXPECT_EQ(numbers_of(*trace), std::vector<std::uint64_t>{1});
  EXPECT_THAT(trace->notes, ::testing::ElementsAre(HasSubstr("it has a second name")));
}

TEST_F(Traced, AWaitIsThereWhileItLasts) {
  for (const bool is_over : {false, true}) {
    Recording recording = record();
    EndTrace end;
    end.join(directory_, EndKind::producer, "c");
    OpenWait wait(end, read_ticks(), Awaited::credit, 4321);
    wait.falls_asleep();
    if (is_over) wait.end();
    const auto trace = recording.finish();
    ASSERT_TRUE(trace);
    ASSERT_THAT(trace->tracks, SizeIs(1));
    ASSERT_THAT(trace->tracks[0].events, SizeIs(is_over ? 0 : 1));
    if (is_over) continue;
    const Event& event = trace->tracks[0].events[0];
    EXPECT_EQ(event.kind, EventKind::wait);
    EXPECT_EQ(event.what, "credit, not ended");
    EXPECT_EQ(event.peer, 4321);
    EXPECT_EQ(event.begin_ns + event.duration_ns, trace->until_ns);
    EXPECT_EQ(trace->tracks[0].lost, 0u);
  }
}

// A recorder that is killed: its folder and its word stay, and run out.
TEST_F(Traced, ARecordingThatNobodyKeepsUpEnds) {
  fs::create_directory(folder());
  fs::permissions(folder(), fs::perms::owner_all);
  Control control{.events = 64, .run = 9, .until_ns = monotonic_ns() - 1};
  std::ofstream(folder() + "/" + kControlFile)
      .write(reinterpret_cast<const char*>(&control), sizeof control);
  fs::permissions(folder() + "/" + kControlFile, fs::perms::owner_read);
  EXPECT_EQ(Scope::of(directory_)->run(), 0u);
  EXPECT_TRUE(Recording::start({directory_}));  // and is no hindrance
}

// ---- who may ---------------------------------------------------------------------------------

TEST_F(Traced, ASecondRecordingIsRefused) {
  const Recording recording = record();
  const auto second = Recording::start({directory_});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::busy);
  EXPECT_THAT(
      second.error().message,
      HasSubstr("another trace is being recorded there by process " + std::to_string(::getpid())));
}

TEST_F(Traced, AFolderThatOthersCanUseIsNotBelieved) {
  Recording recording = record();
  fs::permissions(folder(), fs::perms::others_exec, fs::perm_options::add);
  EXPECT_EQ(Scope::of(directory_)->run(), 0u);
  fs::permissions(folder(), fs::perms::owner_all);
  EXPECT_NE(Scope::of(directory_)->run(), 0u);
}

TEST_F(Traced, ALinkInTheFoldersPlaceIsNotFollowed) {
  fs::create_directory(directory_ + "/elsewhere");
  fs::create_directory_symlink(directory_ + "/elsewhere", folder());
  EXPECT_FALSE(Recording::start({directory_}));
  EXPECT_EQ(Scope::of(directory_)->run(), 0u);
}

// ---- what makes no sense ---------------------------------------------------------------------

TEST_F(Traced, FilesThatAreNoRingsAreNotes) {
  Recording recording = record();
  const std::string mine =
      std::to_string(::getpid()) + "-" + std::to_string(start_time_of(::getpid())) + "-";
  std::ofstream(folder() + "/" + mine + "90") << '.';  // kNoRoomBytes
  std::ofstream(folder() + "/" + mine + "91") << std::string(10'000, 'x');
  fs::create_symlink("/etc/passwd", folder() + "/" + mine + "92");
  std::ofstream(folder() + "/" + mine + "94").close();
  ASSERT_EQ(::mkfifo((folder() + "/" + mine + "93").c_str(), 0600), 0);
  std::ofstream(folder() + "/readme") << "no name of ours";
  const auto trace = recording.finish();
  ASSERT_TRUE(trace);
  EXPECT_THAT(trace->tracks, IsEmpty());
  EXPECT_THAT(trace->notes, SizeIs(5));
  EXPECT_THAT(trace->notes, ::testing::Contains(HasSubstr("there was no room for it")));
  EXPECT_THAT(trace->notes, ::testing::Contains(HasSubstr("it is no ring of events")));
  EXPECT_THAT(trace->notes, ::testing::Contains(HasSubstr("94: it is cut off")));
  std::vector<std::string> left;  // what no process of ours has made
  for (const auto& entry : fs::directory_iterator(folder()))
    left.push_back(entry.path().filename().string());
  EXPECT_THAT(left,
              ::testing::UnorderedElementsAre(mine + "91", mine + "92", mine + "93", "readme"));
}

TEST_F(Traced, WhatHasATextIsReadAsItWasWritten) {
  Recording recording = record();
  {
    RoamingTrace roaming(EndKind::link, "far");
    const auto scope = Scope::of(directory_);
    const EndTrace::Time begin = std::chrono::steady_clock::now();
    const auto end = begin + std::chrono::microseconds(3);
    roaming.worked(
        {EventKind::transfer, static_cast<std::uint8_t>(Moved::landed), begin, end, 7, 1000, {}});
    roaming.worked({EventKind::step, static_cast<std::uint8_t>(StepVerb::reduce), begin, end, 9,
                    256, "tensor_of_a_long_name@1 0:4,0:8"});
    roaming.worked({EventKind::wait, static_cast<std::uint8_t>(Awaited::step), begin, end, 4, 0,
                    "put, rank 1"});
    roaming.worked({EventKind::operation, static_cast<std::uint8_t>(QueueWork::launch), begin, end,
                    0, 0, "add"});
    roaming.worked({EventKind::control, 99, begin, end, 0, 0, {}});  // nobody writes that
  }
  const auto trace = recording.finish();
  ASSERT_TRUE(trace) << trace.error().message;
  ASSERT_THAT(trace->tracks, SizeIs(1));
  const Track& track = trace->tracks[0];
  EXPECT_EQ(track.kind, EndKind::link);
  EXPECT_EQ(track.channel, "far");
  EXPECT_EQ(track.lost, 1u);
  ASSERT_THAT(track.events, SizeIs(4));
  EXPECT_EQ(track.events[0].what, "landed");
  EXPECT_EQ(track.events[0].bytes, 1000u);
  EXPECT_EQ(track.events[0].number, 7u);
  EXPECT_EQ(track.events[0].duration_ns, 3000u);
  EXPECT_EQ(track.events[1].what, "reduce tensor_of_a_long_name@1 ");
  EXPECT_EQ(track.events[1].number, 9u);
  EXPECT_EQ(track.events[2].what, "step 4 (put, rank 1)");
  EXPECT_EQ(track.events[3].what, "launch add");
}

}  // namespace
}  // namespace gantry::trace
