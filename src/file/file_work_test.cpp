#include "file/file_work.hpp"

#include <gmock/gmock.h>

#include <cerrno>
#include <deque>

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

TEST_F(FileWorkTest, ThatIsStoppedIsOverWhenItsPiecesAre) {
  const auto first = *work_.next();
  work_.stop();
  EXPECT_FALSE(work_.next());
  EXPECT_FALSE(work_.is_over());
  work_.ended(first, -EINTR);
  EXPECT_TRUE(work_.is_over());
  EXPECT_EQ(work_.outcome().error().code, Code::interrupted);
}

}  // namespace
}  // namespace gantry
