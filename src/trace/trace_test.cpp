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

#include "base/test_effort.hpp"
#include "trace/end_trace.hpp"

namespace gantry::trace {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class Traced : public ::testing::Test {
 protected:
  Traced() {
    std::string made = fs::temp_directory_path() / "gantry-trace-XXXXXX";
    directory_ = ::mkdtemp(made.data());
  }
  ~Traced() override { fs::remove_all(directory_); }

  [[nodiscard]] Recording record(unsigned events = 64) const {
    auto recording = Recording::start({directory_}, {events});
    if (!recording) throw std::runtime_error(recording.error().message);
    return std::move(*recording);
  }
  [[nodiscard]] std::string folder() const { return directory_ + "/" + kFolder; }
  /// The bytes of the only ring there is.
  [[nodiscard]] std::vector<std::byte> ring_bytes() const {
    for (const auto& entry : fs::directory_iterator(folder())) {
      if (entry.path().filename() == kControlFile) continue;
      std::ifstream file(entry.path(), std::ios::binary);
      const std::string text(std::istreambuf_iterator<char>(file), {});
      std::vector<std::byte> bytes(text.size());
      std::memcpy(bytes.data(), text.data(), text.size());
      return bytes;
    }
    return {};
  }

  std::string directory_;
};

std::uint64_t head_of(const std::vector<std::byte>& bytes) {
  std::uint64_t head = 0;
  std::memcpy(&head, bytes.data() + offsetof(RingHeader, head), sizeof head);
  return head;
}

TimeScale scale() {
  return {ClockPair::now(), 1};
}

void send(EndTrace& end, std::uint64_t sequence) {
  const std::uint64_t now = read_ticks();
  end.sent(now, now, sequence, sequence);
}

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

// A recorder that is killed: its folder and its word stay, and run out.
TEST_F(Traced, ARecordingThatNobodyKeepsUpEnds) {
  fs::create_directory(folder());
  fs::permissions(folder(), fs::perms::owner_all);
  Control control{.events = 64, .run = 9, .until_ns = monotonic_ns() - 1};
  std::ofstream(folder() + "/" + kControlFile)
      .write(reinterpret_cast<const char*>(&control), sizeof control);
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
  std::ofstream(folder() + "/" + mine + "90").close();  // no room on the disk
  std::ofstream(folder() + "/" + mine + "91") << std::string(10'000, 'x');
  fs::create_symlink("/etc/passwd", folder() + "/" + mine + "92");
  ASSERT_EQ(::mkfifo((folder() + "/" + mine + "93").c_str(), 0600), 0);
  std::ofstream(folder() + "/readme") << "no name of ours";
  const auto trace = recording.finish();
  ASSERT_TRUE(trace);
  EXPECT_THAT(trace->tracks, IsEmpty());
  EXPECT_THAT(trace->notes, SizeIs(4));
  EXPECT_THAT(trace->notes, ::testing::Contains(HasSubstr("there was no room for it")));
  EXPECT_THAT(trace->notes, ::testing::Contains(HasSubstr("it is no ring of events")));
  EXPECT_TRUE(fs::is_empty(directory_));
}

TEST_F(Traced, WhateverLiesInTheFolderGoesWithIt) {
  for (const bool is_left : {true, false}) {  // of one that was killed; put there meanwhile
    std::optional<Recording> recording;
    if (!is_left) recording.emplace(record());
    if (is_left) fs::create_directory(folder());
    fs::permissions(folder(), fs::perms::owner_all);
    fs::create_directories(folder() + "/1-1-1/deeper/still");
    std::ofstream(folder() + "/1-1-1/deeper/file") << "text";
    fs::create_directory_symlink("/etc", folder() + "/1-1-1/link");
    ASSERT_EQ(::mkfifo((folder() + "/pipe").c_str(), 0600), 0);
    if (is_left) fs::create_directory(folder() + "/" + kControlFile);
    if (is_left) recording.emplace(record());
    ASSERT_TRUE(recording->finish());
    EXPECT_TRUE(fs::is_empty(directory_));
  }
  EXPECT_TRUE(fs::exists("/etc/passwd"));
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

class Decoded : public Traced {
 protected:
  Decoded() {
    const Recording recording = record();
    EndTrace end;
    end.join(directory_, EndKind::producer, "c");
    for (std::uint64_t i = 1; i <= 100; ++i) send(end, i);
    bytes_ = ring_bytes();
  }
  /// Whatever it says, it is little, and made of what is there.
  static void expect_sane(const Result<DecodedRing>& ring) {
    if (!ring) {
      EXPECT_EQ(ring.error().code, Code::invalid_argument);
      return;
    }
    EXPECT_LE(ring->track.events.size(), 64u);
    EXPECT_EQ(ring->track.lost, ring->track.written - ring->track.events.size());
    for (const Event& event : ring->track.events)
      EXPECT_LE(event.what.size(), Span::kMostName + kMostText);
  }
  std::vector<std::byte> bytes_;
};

TEST_F(Decoded, TheNewestEventsAreThere) {
  const auto ring = decode_ring(bytes_, head_of(bytes_), scale());
  ASSERT_TRUE(ring) << ring.error().message;
  EXPECT_THAT(ring->track.events, SizeIs(64));
  EXPECT_EQ(ring->track.lost, 36u);
}

// I3 of the ring: what may have been overwritten between the copy and the look at the head goes.
TEST_F(Decoded, WhatWasOverwrittenWhileItWasCopiedIsLost) {
  const auto ring = decode_ring(bytes_, head_of(bytes_) + 10, scale());
  ASSERT_TRUE(ring);
  EXPECT_THAT(ring->track.events, SizeIs(54));
  EXPECT_EQ(ring->track.events.front().message.sequence, 47u);
}

TEST_F(Decoded, OfEveryLengthItSaysSomethingSane) {
  for (std::size_t size = 0; size < bytes_.size(); size += size < 600 ? 1 : 61)
    expect_sane(decode_ring(std::span(bytes_).first(size), head_of(bytes_), scale()));
}

TEST_F(Decoded, OfBrokenBytesItSaysSomethingSane) {
  std::mt19937_64 random(20);
  for (int turn = 0; turn < 20'000 / kTestStride; ++turn) {
    auto broken = bytes_;
    for (unsigned hits = 1 + random() % 8; hits > 0; --hits) {
      const std::size_t most = random() % 2 == 0 ? sizeof(RingHeader) : broken.size();
      broken[random() % most] = static_cast<std::byte>(random());
    }
    expect_sane(decode_ring(broken, random() % 2 == 0 ? head_of(broken) : random(), scale()));
  }
}

TEST_F(Decoded, OfRandomBytesItSaysSomethingSane) {
  std::mt19937_64 random(21);
  std::vector<std::byte> noise(bytes_.size());
  for (int turn = 0; turn < 200 / kTestStride; ++turn) {
    for (std::byte& byte : noise) byte = static_cast<std::byte>(random());
    std::memcpy(noise.data(), bytes_.data(), 16);  // magic, version, cells
    expect_sane(decode_ring(noise, random(), scale()));
  }
}

}  // namespace
}  // namespace gantry::trace
