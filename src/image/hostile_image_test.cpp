// Files that may be anything: an error that says where, or the tensors that were packed.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/os/fd.hpp"
#include "core/base/test_sanitizer.hpp"
#include "image/tables.hpp"
#include "image/test_image.hpp"

namespace gantry {
namespace {

using namespace test;
using namespace gantry::image;
using ::testing::HasSubstr;

std::string at_chunk(std::size_t index, Bytes offset) {
  return chunk_place("a.gimg", index, offset) + ": ";
}

class HostileImage : public ::testing::Test {
 protected:
  void SetUp() override {
    must(content_.pack(path_));
    bytes_ = read_file(path_);
  }

  /// What opening and reading all of `bytes` says; empty: the content is what was packed.
  std::string said_of(const Data& bytes, bool verifies = false) const {
    write_file(path_, bytes);
    return said(verifies);
  }
  /// All bits, but one of each byte where nothing is.
  [[nodiscard]] bool is_tried(Bytes at, unsigned bit) const {
    const bool is_nothing =
        bytes_[at] == std::byte{0} && ((at >= 120 && at < 4092) || at >= chunk_at(2));
    return bit == 0 || !is_nothing;
  }
  void put(Bytes at, ConstByteSpan bytes) const {
    const Fd file(::open(path_.c_str(), O_WRONLY | O_CLOEXEC));
    ASSERT_EQ(::pwrite(file.get(), bytes.data(), bytes.size(), static_cast<off_t>(at)),
              static_cast<ssize_t>(bytes.size()));
  }
  std::string said(bool verifies) const {
    auto image = Image::open(path_);
    if (!image) return image.error().message;
    if (verifies)
      if (const auto fine = image->verify(); !fine) return fine.error().message;
    if (image->tensors().size() != content_.tensors.size()) return "OTHER TENSORS";
    for (std::size_t i = 0; i < content_.tensors.size(); ++i) {
      const ImageTensor& one = image->tensors()[i];
      if (one.name != content_.tensors[i].name || one.tensor != content_.tensors[i].tensor)
        return "OTHER TENSORS";
      Data read(one.bytes);
      if (const auto done = image->read(one, read); !done) return done.error().message;
      if (read != content_.data[i]) return "OTHER BYTES";
    }
    return {};
  }

  /// With an entry of the tables, or the superblock, changed and everything sealed.
  template <class Entry, class Change>
  std::string said_with(Bytes offset, Change change) const {
    Data bytes = bytes_;
    Entry entry;
    std::memcpy(&entry, bytes.data() + offset, sizeof entry);
    change(entry);
    std::memcpy(bytes.data() + offset, &entry, sizeof entry);
    seal(bytes);
    return said_of(bytes);
  }
  [[nodiscard]] static Bytes partition_at(std::size_t index) { return 4096 + index * 16; }
  [[nodiscard]] static Bytes tensor_at(std::size_t index) { return 4096 + 2 * 16 + index * 88; }
  [[nodiscard]] Bytes names_at() const { return tensor_at(content_.tensors.size()); }
  [[nodiscard]] Bytes chunk_at(std::size_t index) const {
    Bytes names = 0;
    for (const ImageTensor& one : content_.tensors) names += one.name.size();
    return names_at() + names + index * 32;
  }

  Folder folder_;
  std::string path_ = folder_.file("a.gimg");
  Content content_ = small_content();
  Data bytes_;
};

TEST_F(HostileImage, AsItWasPackedItIsFine) {
  EXPECT_EQ(said_of(bytes_, true), "");
}

TEST_F(HostileImage, EachBitOfItIsNoticed) {
  for (Bytes at = 0; at < bytes_.size(); ++at)
    for (unsigned bit = 0; bit < 8; ++bit) {
      if (!is_tried(at, bit)) continue;
      put(at, ConstByteSpan(Data{bytes_[at] ^ std::byte{1} << bit}));
      const std::string said = this->said(true);
      ASSERT_THAT(said, HasSubstr("a.gimg: ")) << at << ":" << bit;
      ASSERT_THAT(said, ::testing::Not(HasSubstr("OTHER"))) << at << ":" << bit;
      put(at, ConstByteSpan(bytes_).subspan(at, 1));
    }
}

// Without the CRCs that hide what is behind them. What no other table or the content contradicts
// (a name, a type of the same size) may be read; nothing else may.
TEST_F(HostileImage, EachBitOfTheTablesIsLookedAt) {
  for (Bytes at = 0; at < chunk_at(2); ++at)
    for (unsigned bit = 0; bit < 8; ++bit) {
      if (!is_tried(at, bit)) continue;
      Data changed = bytes_;
      changed[at] ^= std::byte{1} << bit;
      seal(changed);
      put(0, ConstByteSpan(changed).first(chunk_at(2)));
      ASSERT_NE(said(false), "OTHER BYTES") << at << ":" << bit;
    }
}

TEST_F(HostileImage, CutOffAnywhereOrLonger) {
  for (const Bytes bytes : {Bytes{0}, Bytes{1}, Bytes{4095}})
    EXPECT_THAT(said_of(Data(bytes_.begin(), bytes_.begin() + static_cast<long>(bytes))),
                HasSubstr("a.gimg: "))
        << bytes;
  for (Bytes bytes = 4096; bytes < bytes_.size(); bytes += 97)
    EXPECT_THAT(said_of(Data(bytes_.begin(), bytes_.begin() + static_cast<long>(bytes))),
                HasSubstr("it was cut off"))
        << bytes;
  Data longer = bytes_;
  longer.push_back({});
  EXPECT_THAT(said_of(longer), HasSubstr("it was made longer"));
  longer.resize(bytes_.size() + 4096);
  EXPECT_THAT(said_of(longer), HasSubstr("it was made longer"));
}

TEST_F(HostileImage, NoImageOrOneOfAnotherVersion) {
  Data text(5000, std::byte{'x'});
  EXPECT_THAT(said_of(text), HasSubstr("a.gimg: it is no image"));
  EXPECT_THAT(said_with<Superblock>(0, [](auto& block) { block.version = 2; }),
              HasSubstr("it is of version 2; this Gantry reads 1"));
  EXPECT_THAT(said_with<Superblock>(0, [](auto& block) { block.chunk_bytes = 4096; }),
              HasSubstr("something that this version does not know"));
}

TEST_F(HostileImage, CountsThatDoNotGoIntoTheFile) {
  const auto with = [&](auto change) { return said_with<Superblock>(0, change); };
  for (const std::uint32_t count : {0u, 0xffffffffu, 1u << 20, 2u}) {
    EXPECT_THAT(with([&](auto& b) { b.tensors = count; }), HasSubstr("superblock (offset 0)"));
    if (count == 2) continue;
    EXPECT_THAT(with([&](auto& b) { b.partitions = count; }), HasSubstr("superblock (offset 0)"));
    EXPECT_THAT(with([&](auto& b) { b.chunks = count; }), HasSubstr("superblock (offset 0)"));
    EXPECT_THAT(with([&](auto& b) { b.names_bytes = count; }), HasSubstr("superblock (offset 0)"));
  }
  EXPECT_THAT(with([&](auto& b) { b.tables_bytes = ~0ull; }), HasSubstr("superblock (offset 0)"));
}

// A file with holes may say anything of its size: it is refused before memory is asked for.
TEST_F(HostileImage, TablesOfAHugeFileAreRefusedBeforeTheyAreRead) {
  if (has_address_sanitizer())
    GTEST_SKIP() << "the sanitizer needs more address space than the test leaves";
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit most{Bytes{1} << 30, Bytes{1} << 30};
    ::setrlimit(RLIMIT_AS, &most);
    Data bytes = bytes_;
    Superblock block;
    std::memcpy(&block, bytes.data(), sizeof block);
    block.file_bytes = Bytes{1} << 40;
    block.names_bytes = 0xffffffff;
    block.tables_bytes = TableSizes(block).all;
    std::memcpy(bytes.data(), &block, sizeof block);
    seal(bytes);
    write_file(path_, bytes);
    if (::truncate(path_.c_str(), Bytes{1} << 40) != 0) ::_exit(0);  // no such files here
    const auto image = Image::open(path_);
    ::_exit(!image && image.error().code == Code::invalid_argument ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST_F(HostileImage, TensorsThatOverlapOverflowAreMissingOrThereTwice) {
  const auto with = [&](std::size_t index, auto change) {
    return said_with<TensorEntry>(tensor_at(index), change);
  };
  const std::string place = "a.gimg: tensor 1 'second.weight' (offset 4216): ";
  EXPECT_THAT(with(1, [](auto& t) { t.offset = 0; }),
              HasSubstr(place + "it is at byte 0 of partition 0; what is before it ends for 256"));
  EXPECT_THAT(with(1, [](auto& t) { t.offset = ~0ull - 10; }), HasSubstr(place));
  EXPECT_THAT(with(1, [](auto& t) { t.shape[0] = std::int64_t{1} << 62; }),
              HasSubstr(place + "it has more bits than can be counted"));
  EXPECT_THAT(with(1, [](auto& t) { t.shape[0] = std::int64_t{1} << 50; }),
              HasSubstr(place + "an image has at most"));
  EXPECT_THAT(with(1, [](auto& t) { t.shape[0] = -1; }), HasSubstr("a negative dimension"));
  EXPECT_THAT(with(1, [](auto& t) { t.shape[5] = 1; }), HasSubstr("where nothing must be"));
  EXPECT_THAT(with(1, [](auto& t) { t.dimensions = 9; }), HasSubstr("9 dimensions are more than"));
  EXPECT_THAT(with(1, [](auto& t) { t.type_code = 200; }), HasSubstr("groups that nobody knows"));
  EXPECT_THAT(with(1, [](auto& t) { t.type_bits = 0; }), HasSubstr("a type without bits"));
  EXPECT_THAT(with(1, [](auto& t) { t.partition = 7; }), HasSubstr("partition 7 does not follow"));
  EXPECT_THAT(with(2, [](auto& t) { t.partition = 0; }), HasSubstr("a.gimg: "));
  EXPECT_THAT(with(1, [](auto& t) { t.shape[0] = 99; }), HasSubstr("partition 0 (offset 4096)"));
  EXPECT_THAT(with(1, [](auto& t) { t.name_bytes = 0; }), HasSubstr("has 0 bytes, of 1 to 255"));
  EXPECT_THAT(with(1, [](auto& t) { t.name_bytes = 10'000; }),
              HasSubstr("its name has 10000 bytes, of which the tables hold"));
  EXPECT_THAT(with(2, [](auto& t) { t.name_bytes = 4; }),
              HasSubstr("the names of its tensors end at byte"));

  Data bytes = bytes_;
  std::memcpy(bytes.data() + names_at(), "a/b", 3);
  seal(bytes);
  EXPECT_THAT(said_of(bytes), HasSubstr("tensor 0 'a/bst' (offset 4128): 'a/bst' is no name"));
  bytes = bytes_;
  std::memcpy(bytes.data() + tensor_at(2) + 12, bytes.data() + tensor_at(0) + 12, 2);  // 5 bytes
  std::memcpy(bytes.data() + names_at() + 18, "first", 5);
  seal(bytes);
  EXPECT_THAT(said_of(bytes), HasSubstr("another tensor has its name"));
}

TEST_F(HostileImage, PartitionsThatAreNotThoseOfTheTensors) {
  const auto with = [&](auto change) { return said_with<PartitionEntry>(partition_at(1), change); };
  const std::string place = "a.gimg: partition 1 (offset 4112): ";
  EXPECT_THAT(with([](auto& p) { p.bytes = ~0ull; }), HasSubstr(place));
  EXPECT_THAT(with([](auto& p) { p.first_chunk = 0; }), HasSubstr(place));
  EXPECT_THAT(with([](auto& p) { p.chunks = 0xffffffff; }), HasSubstr(place));
}

TEST_F(HostileImage, ChunksThatOverlapOverflowAreMissingOrThereTwice) {
  const auto with = [&](auto change) { return said_with<ChunkEntry>(chunk_at(1), change); };
  const Bytes first = must(Image::open(path_)).chunks()[0].offset;
  EXPECT_THAT(with([&](auto& c) { c.offset = first; }),
              HasSubstr(at_chunk(1, first) + "what is before it ends for 12288"));
  EXPECT_THAT(with([](auto& c) { c.offset = ~0ull; }),
              HasSubstr(at_chunk(1, ~0ull) + "what is before it ends for 12288"));
  EXPECT_THAT(with([](auto& c) { c.raw_bytes = 0xffffffff; }),
              HasSubstr(at_chunk(1, 12288) + "4294967295 raw bytes, of 3"));
  for (const std::uint32_t stored : {0u, 2u, 4u, 0xffffffffu})
    EXPECT_THAT(with([&](auto& c) { c.stored_bytes = stored; }),
                HasSubstr(at_chunk(1, 12288) + std::to_string(stored) + " bytes are stored of"));
  EXPECT_THAT(with([](auto& c) { c.codec = 1; }), HasSubstr("3 bytes are stored of 3"));
  EXPECT_THAT(with([](auto& c) { c.codec = 4; }), HasSubstr(at_chunk(1, 12288) + "codec 4"));
  EXPECT_THAT(with([](auto& c) { c.plane_bytes = 2; }), HasSubstr("planes of numbers of 2 bytes"));
  EXPECT_THAT(with([](auto& c) { c.frame_bits = 16; }), HasSubstr("frames of 2^16 bytes"));
  EXPECT_THAT(with([](auto& c) { c.frame_bits = 15; }), HasSubstr("frames of 2^15 bytes"));
  EXPECT_THAT(with([](auto& c) { c.zeros[3] = 2; }), HasSubstr("where nothing must be"));
  EXPECT_THAT(with([](auto& c) { c.stored_crc32c ^= 1; }), HasSubstr("two CRCs"));
  EXPECT_THAT(with([](auto& c) { c.raw_crc32c = c.stored_crc32c ^= 1; }),
              HasSubstr(at_chunk(1, 12288) + "its raw bytes are not those that were packed"));
}

// A stream that was packed of other bytes: sealed, so that nothing but its size gives it away.
class HostileStream : public HostileImage, public ::testing::WithParamInterface<int> {
 protected:
  /// The one chunk of an image of 3,000 bytes holds the stream of an image of `bytes`.
  std::string with_stream_of(std::int64_t bytes) {
    const ImageOptions options{Codec::deflate, 0, GetParam() > 1};
    const auto packed = [&](std::int64_t size) {
      content_ = {};
      content_.add(tensor("w", GetParam() > 1 ? types::bf16 : types::u8, {size / GetParam()}));
      std::ranges::fill(content_.data[0], std::byte{7});
      must(content_.pack(path_, options));
      return read_file(path_);
    };
    const Data other = packed(bytes);
    bytes_ = packed(3'000);
    ChunkEntry entry, others;
    const Bytes at = 4096 + 16 + 88 + 1;
    std::memcpy(&others, other.data() + at, sizeof others);
    std::memcpy(&entry, bytes_.data() + at, sizeof entry);
    entry.stored_bytes = others.stored_bytes;
    entry.stored_crc32c = others.stored_crc32c;
    std::memcpy(bytes_.data() + at, &entry, sizeof entry);
    std::memcpy(bytes_.data() + entry.offset, other.data() + others.offset, others.stored_bytes);
    seal(bytes_);
    return said_of(bytes_);
  }
};
INSTANTIATE_TEST_SUITE_P(, HostileStream, ::testing::Values(1, 2));

TEST_P(HostileStream, BeyondItsRawSizeOrShortOfIt) {
  EXPECT_EQ(with_stream_of(3'000), "");
  EXPECT_THAT(with_stream_of(2'000),
              HasSubstr("a.gimg: chunk 0 (offset 8192): frame 0 of deflate: it gives 2000 bytes"));
  EXPECT_THAT(
      with_stream_of(400'000),
      HasSubstr("a.gimg: chunk 0 (offset 8192): frame 0 of deflate: deflate: it is longer"));
}

}  // namespace
}  // namespace gantry
