#include "device/file/file_queue.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <filesystem>

// What becomes of a range whose pieces end in any order, in parts, or not at all.
namespace gantry {
namespace {

using testing::HasSubstr;

class FileWorkTest : public testing::Test {
 protected:
  FileWorkTest()
      : work_(Ticket{1},
              {FileTransfer::Kind::read, std::make_shared<OpenFile>(-1, "file 'x'"), 1000, bytes_},
              128) {}

  /// All that there is to ask for now.
  std::deque<FilePiece> ask() {
    std::deque<FilePiece> pieces;
    while (const auto piece = work_.next()) pieces.push_back(*piece);
    return pieces;
  }
  /// The answer of a file of which `size` bytes are there from the transfer's offset on.
  void answer(const FilePiece& piece, Bytes size) {
    work_.ended(piece, static_cast<std::int64_t>(
                           std::min(piece.size, std::max(size, piece.at) - piece.at)));
  }

  std::vector<std::byte> bytes_ = std::vector<std::byte>(400);
  FileWork work_;
};

TEST_F(FileWorkTest, CoversItsRangeOnceInPieces) {
  Bytes at = 0;
  for (const FilePiece& piece : ask()) {
    EXPECT_EQ(piece.at, at);
    EXPECT_LE(piece.size, 128u);
    at += piece.size;
    EXPECT_FALSE(work_.is_over());
    answer(piece, 400);
  }
  EXPECT_EQ(at, 400u);
  EXPECT_TRUE(work_.is_over());
  EXPECT_TRUE(work_.outcome());
}

TEST_F(FileWorkTest, AsksAgainForWhatIsLeftOver) {
  const auto pieces = ask();
  work_.ended(pieces[1], 100);
  work_.ended(pieces[0], -EINTR);
  for (const auto& piece : {pieces[2], pieces[3]}) answer(piece, 400);
  EXPECT_FALSE(work_.is_over());
  auto rest = ask();
  ASSERT_EQ(rest.size(), 2u);
  EXPECT_EQ(rest[0].at, 0u);
  EXPECT_EQ(rest[0].size, 128u);
  EXPECT_EQ(rest[1].at, 228u);
  EXPECT_EQ(rest[1].size, 28u);
  for (const auto& piece : rest) answer(piece, 400);
  EXPECT_TRUE(work_.is_over());
  EXPECT_TRUE(work_.outcome());
}

TEST_F(FileWorkTest, ThatEndsEarlySaysHowFarItGoesWhateverEndsFirst) {
  auto pieces = ask();
  while (!pieces.empty()) {  // those beyond the end first
    answer(pieces.back(), 202);
    pieces.pop_back();
    for (const auto& more : ask()) pieces.push_front(more);
  }
  EXPECT_TRUE(work_.is_over());
  const auto outcome = work_.outcome();
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, Code::system);
  EXPECT_EQ(outcome.error().message, "file 'x': 202 of 400 bytes are there from offset 1000 on");
}

TEST_F(FileWorkTest, TellsTheFirstErrorByPlaceAndStopsAsking) {
  const auto first = *work_.next(), second = *work_.next();
  work_.ended(second, -EIO);
  EXPECT_FALSE(work_.next());
  EXPECT_FALSE(work_.is_over());
  work_.ended(first, -ENOMEM);
  EXPECT_TRUE(work_.is_over());
  EXPECT_EQ(work_.outcome().error().code, Code::out_of_memory);
  EXPECT_THAT(work_.outcome().error().message, HasSubstr("reading file 'x'"));
}

TEST(DirectFileWork, GoesOnOnlyWhereDirectReadsMay) {
  const auto file = OpenFile::open_direct("/proc/self/exe");  // on some disk
  ASSERT_TRUE(file) << to_string(file.error());
  const Bytes alignment = (*file)->alignment();
  if (alignment == 1) GTEST_SKIP() << (*file)->why_not_direct();
  std::vector<std::byte> bytes(alignment * 8);
  FileWork work(Ticket{1}, {FileTransfer::Kind::read, *file, 0, bytes}, bytes.size());
  const FilePiece whole = *work.next();
  work.ended(whole, static_cast<std::int64_t>(alignment * 2));
  const auto rest = work.next();
  ASSERT_TRUE(rest);
  EXPECT_EQ(rest->at, alignment * 2);
  EXPECT_EQ(rest->size, alignment * 6);
  work.ended(*rest, 100);  // the file ends there: it is not asked again from the middle of a sector
  EXPECT_FALSE(work.next());
  ASSERT_TRUE(work.is_over());
  EXPECT_THAT(work.outcome().error().message,
              HasSubstr(std::to_string(alignment * 2 + 100) + " of "));
}

TEST_F(FileWorkTest, ThatIsStoppedIsOverWhenItsPiecesAre) {
  const auto first = *work_.next();
  work_.stop();
  EXPECT_FALSE(work_.next());
  EXPECT_FALSE(work_.is_over());
  work_.ended(first, -EINTR);
  EXPECT_TRUE(work_.is_over());
  EXPECT_EQ(work_.outcome().error().code, Code::interrupted);
}

/// What the page cache has of a file of 100,000 bytes that was just written.
class AtHand : public testing::Test {
 protected:
  AtHand() {
    for (std::size_t i = 0; i < content_.size(); ++i) content_[i] = static_cast<std::byte>(i * 7);
    EXPECT_EQ(::pwrite(file_->descriptor(), content_.data(), content_.size(), 0),
              static_cast<ssize_t>(content_.size()));
  }
  void SetUp() override {
    std::byte first{};
    const iovec into{&first, 1};
    if (::preadv2(file_->descriptor(), &into, 1, 0, RWF_NOWAIT) != 1)
      GTEST_SKIP() << "the file system cannot say what it has cached";
  }
  FileWork reading(std::shared_ptr<OpenFile> file, std::uint64_t offset) {
    return {Ticket{1}, {FileTransfer::Kind::read, std::move(file), offset, bytes_}, 4096};
  }

  const std::shared_ptr<OpenFile> file_ = std::make_shared<OpenFile>(
      ::open(std::filesystem::temp_directory_path().c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600),
      "file 'x'");
  std::vector<std::byte> content_ = std::vector<std::byte>(100'000);
  std::vector<std::byte> bytes_ = std::vector<std::byte>(50'000);
};

TEST_F(AtHand, WhatMemoryHasIsReadAtOnce) {
  FileWork work = reading(file_, 777);
  work.take_cached();
  EXPECT_TRUE(work.is_over());
  EXPECT_TRUE(work.outcome());
  EXPECT_TRUE(std::ranges::equal(bytes_, std::span(content_).subspan(777, bytes_.size())));
}

TEST_F(AtHand, AFileThatEndsEarlySaysSo) {
  FileWork work = reading(file_, 90'000);
  work.take_cached();
  EXPECT_TRUE(work.is_over());
  EXPECT_THAT(work.outcome().error().message, HasSubstr("10000 of 50000 bytes"));
}

// A pipe has no offsets: whatever is wrong is for the thread that may take its time to find.
TEST_F(AtHand, WhatCannotBeReadThereIsLeftForLater) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  FileWork work = reading(std::make_shared<OpenFile>(ends[0], "pipe"), 0);
  work.take_cached();
  EXPECT_FALSE(work.is_over());
  const auto piece = work.next();
  ASSERT_TRUE(piece);
  EXPECT_EQ(piece->at, 0u);
  EXPECT_EQ(piece->size, 4096u);
  ::close(ends[1]);
}

/// The lane of a process without a CPU for the lane's thread, which these tests play.
class HeldBack : public AtHand {
 protected:
  void SetUp() override {
    AtHand::SetUp();
    if (!IsSkipped()) queue_ = must(FileQueue::make(4096, 4096, true));
  }
  Ticket read(std::uint64_t offset = 777) {
    return must(queue_->submit({FileTransfer::Kind::read, file_, offset, bytes_}));
  }
  [[nodiscard]] bool is_read(std::uint64_t offset = 777) const {
    return std::ranges::equal(bytes_, std::span(content_).subspan(offset, bytes_.size()));
  }
  std::shared_ptr<FileQueue> queue_;
};

TEST_F(HeldBack, WhoWaitsReadsWhatMemoryHas) {
  const Ticket ticket = read();
  EXPECT_FALSE(is_read());
  EXPECT_TRUE(queue_->wait(ticket, Deadline::never()));
  EXPECT_TRUE(is_read());
  EXPECT_TRUE(queue_->take().empty());
  EXPECT_EQ(queue_->wait(ticket, Deadline::never()).error().code, Code::invalid_argument);
  EXPECT_TRUE(queue_->close());
}

TEST_F(HeldBack, WhatEndsEarlySaysSo) {
  ASSERT_EQ(::ftruncate(file_->descriptor(), 60'000), 0);
  const Ticket ticket = read(20'000);
  EXPECT_EQ(queue_->take().size(), 1u) << "its last byte is not cached";
  ASSERT_EQ(::ftruncate(file_->descriptor(), 70'000), 0);
  const Ticket second = read(20'000);
  ASSERT_EQ(::ftruncate(file_->descriptor(), 60'000), 0);
  const auto cut = queue_->wait(second, Deadline::never());
  ASSERT_FALSE(cut);
  EXPECT_THAT(cut.error().message, HasSubstr("40000 of 50000 bytes"));
  EXPECT_FALSE(queue_->is_over(ticket));
}

// The thread has it once somebody only asks, has no time, or ends the lane.
TEST_F(HeldBack, WhoDoesNotWaitLeavesItToTheThread) {
  const auto taken = [&] { return queue_->take().size(); };
  EXPECT_FALSE(queue_->is_over(read()));
  EXPECT_EQ(taken(), 1u);
  EXPECT_EQ(queue_->wait(read(), Deadline::now()).error().code, Code::timed_out);
  EXPECT_EQ(taken(), 1u);
  read();
  EXPECT_EQ(taken(), 0u);
  queue_->cancel();
  EXPECT_EQ(taken(), 1u);
  EXPECT_FALSE(is_read());
}

TEST_F(HeldBack, ALaneThatClosesLeavesItToTheThread) {
  read();
  EXPECT_FALSE(queue_->close());
  EXPECT_EQ(queue_->take().size(), 1u);
}

TEST_F(HeldBack, WritesAndWhatOthersHaveCpusForGoToTheThread) {
  must(queue_->submit({FileTransfer::Kind::write, file_, 0, bytes_}));
  EXPECT_EQ(queue_->take().size(), 1u);
  const auto other = must(FileQueue::make(4096, 4096, false));
  must(other->submit({FileTransfer::Kind::read, file_, 0, bytes_}));
  EXPECT_EQ(other->take().size(), 1u);
}

}  // namespace
}  // namespace gantry
