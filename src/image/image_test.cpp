// What is packed is read back byte for byte, whatever its type, codec and place.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "image/test_image.hpp"

namespace gantry {
namespace {

using namespace test;
using ::testing::HasSubstr;

void expect_content(Image& image, const Content& content) {
  ASSERT_EQ(image.tensors().size(), content.tensors.size());
  for (std::size_t i = 0; i < content.tensors.size(); ++i) {
    const ImageTensor& found = image.tensors()[i];
    EXPECT_EQ(found.name, content.tensors[i].name);
    EXPECT_EQ(found.tensor, content.tensors[i].tensor);
    EXPECT_EQ(found.partition, content.tensors[i].partition);
    EXPECT_EQ(found.offset % kImageTensorBorder, 0u);
    Data read(found.bytes);
    must(image.read(found, read));
    EXPECT_TRUE(test::same(read, content.data[i])) << found.name;
  }
}

std::vector<ImageOptions> ways() {
  std::vector<ImageOptions> all{{Codec::none, 0, false}, {Codec::none, 0, true}};
  for (const EngineStatus& codec : list_codecs())
    for (const Codec one : {Codec::lz4, Codec::zstd, Codec::deflate})
      if (codec.usable && codec.name == to_string(one))
        for (const bool planes : {false, true}) all.push_back({one, 0, planes});
  all.push_back({std::nullopt, 0, false});
  return all;
}

std::string text_of(const ImageOptions& options) {
  return std::string(options.codec ? to_string(*options.codec) : "auto") +
         (options.planes ? " in planes" : "");
}

/// Of every type, of every size about borders, over several chunks.
Content rich_content() {
  Content content;
  for (const char* name : {"u8", "i8", "u16", "i16", "i32", "f16", "bf16", "f32", "f64", "e4m3fn",
                           "e5m2", "u4", "i4", "e2m1", "i8[32]", "u4[64,f32,zero]"})
    content.add(tensor(name, *parse_type(name), {3, 192}));
  content.add(tensor("i64", {DataType::signed_int, 64, 1}, {3, 5}));
  content.add(tensor("bool", {6, 8, 1}, {9}));
  content.add(tensor("scalar", types::f32, {}));
  content.add(tensor("none", types::f32, {4, 0}));
  content.add(tensor("odd", types::u4, {7}));
  content.add(tensor("large", types::bf16, {3, 1 << 20, 1}));  // more than one chunk
  content.add(tensor("behind", types::f32, {300'000}, 1));
  content.add(tensor("whole", types::f32, {1 << 20}, 2));  // exactly one chunk
  content.add(tensor("eight", types::u8, {1, 2, 1, 3, 1, 2, 1, 2}, 3));
  content.add(tensor("empty", types::u8, {0}, 4));
  return content;
}

TEST(Image, GivesBackEveryTypeByEveryCodec) {
  const Folder folder;
  const Content content = rich_content();
  std::optional<ImageDigest> digest;
  for (const ImageOptions& options : ways()) {
    SCOPED_TRACE(text_of(options));
    const ImageFacts facts = must(content.pack(folder.file("a.gimg"), options));
    Image image = must(Image::open(folder.file("a.gimg")));
    expect_content(image, content);
    must(image.verify());
    EXPECT_EQ(image.digest(), facts.digest);
    EXPECT_EQ(image.file_bytes(), std::filesystem::file_size(folder.file("a.gimg")));
    EXPECT_EQ(digest.value_or(facts.digest), facts.digest);  // however it is packed
    digest = facts.digest;
  }
}

TEST(Image, ChunksBeginAtBordersAndPackedOnesAreSmaller) {
  const Folder folder;
  Content content;
  content.add(tensor("w", types::bf16, {5 << 20}));
  for (const ImageOptions& options : ways()) {
    SCOPED_TRACE(text_of(options));
    must(content.pack(folder.file("a.gimg"), options));
    const Image image = must(Image::open(folder.file("a.gimg")));
    ASSERT_EQ(image.chunks().size(), 3u);
    for (const ImageChunk& chunk : image.chunks()) {
      EXPECT_EQ(chunk.offset % kImageBorder, 0u);
      if (options.codec == Codec::none || chunk.coding.codec == Codec::none) {
        EXPECT_EQ(chunk.coding, Coding{});
        EXPECT_EQ(chunk.stored_bytes, chunk.raw_bytes);
        continue;
      }
      EXPECT_LE(chunk.stored_bytes, chunk.raw_bytes * 0.95);
      if (options.planes) {
        EXPECT_EQ(chunk.coding.plane_bytes, 2);
      }
    }
  }
}

TEST(Image, AutoTakesPlanesAndTheCodecThatGains) {
  const auto codecs = list_codecs();
  if (!codecs[0].usable || !codecs[1].usable) GTEST_SKIP() << "built without lz4 or zstd";
  const Folder folder;
  Content content;
  content.add(tensor("w", types::bf16, {2 << 20}));
  content.add(tensor("zeros", types::u8, {4 << 20}, 1));
  std::ranges::fill(content.data.back(), std::byte{0});
  content.add(tensor("noise", types::u8, {4 << 20}, 2));
  std::mt19937_64 random(1);
  for (std::byte& byte : content.data.back()) byte = static_cast<std::byte>(random());
  must(content.pack(folder.file("a.gimg"), {std::nullopt, 0, false}));
  const Image image = must(Image::open(folder.file("a.gimg")));
  EXPECT_EQ(image.chunks()[0].coding, (Coding{Codec::zstd, 2}));
  EXPECT_LT(image.chunks()[0].stored_bytes, image.chunks()[0].raw_bytes * 0.72);
  EXPECT_NE(image.chunks()[1].coding.codec, Codec::none);
  EXPECT_EQ(image.chunks()[2].coding, Coding{});
}

TEST(Image, ReadsAnyPartOfAPartition) {
  const Folder folder;
  Content content;
  content.add(tensor("w", types::u8, {9 << 20}));
  Data whole = content.data[0];
  for (const ImageOptions& options : {ImageOptions{}, ImageOptions{Codec::deflate, 0, false}}) {
    must(content.pack(folder.file("a.gimg"), options));
    Image image = must(Image::open(folder.file("a.gimg")));
    std::mt19937_64 random(7);
    for (int i = 0; i < 50; ++i) {
      const Bytes from = random() % whole.size();
      Data read(random() % (whole.size() - from + 1));
      must(image.read(std::size_t{0}, from, read));
      EXPECT_TRUE(
          std::equal(read.begin(), read.end(), whole.begin() + static_cast<std::ptrdiff_t>(from)));
    }
    Data all(whole.size());
    must(image.read(std::size_t{0}, 0, all));
    EXPECT_EQ(all, whole);
  }
}

TEST(Image, RefusesWhatIsNotInIt) {
  const Folder folder;
  must(small_content().pack(folder.file("a.gimg")));
  Image image = must(Image::open(folder.file("a.gimg")));
  EXPECT_EQ(image.find("fourth"), nullptr);
  ASSERT_NE(image.find("third"), nullptr);
  EXPECT_EQ(image.find("third")->partition, 1u);
  Data room(100);
  EXPECT_THAT(image.read(*image.find("third"), room).error().message,
              HasSubstr("tensor 'third' has 3 bytes; there is room for 100"));
  EXPECT_THAT(image.read(std::size_t{2}, 0, room).error().message, HasSubstr("no partition 2"));
  for (const Bytes from : {Bytes{0}, Bytes{4}, ~Bytes{0}})
    EXPECT_THAT(image.read(std::size_t{1}, from, room).error().message,
                HasSubstr("of partition 1, which has 3"));
}

TEST(Image, KeepsTheFileThatItOpened) {
  const Folder folder;
  const Content content = small_content();
  must(content.pack(folder.file("a.gimg")));
  Image image = must(Image::open(folder.file("a.gimg")));
  Content other;
  other.add(tensor("other", types::u8, {9}));
  must(other.pack(folder.file("a.gimg")));
  expect_content(image, content);
}

TEST(Image, OneThatIsChangedOrCutOffMeanwhileIsNoticed) {
  const Folder folder;
  Content content;
  content.add(tensor("w", types::u8, {9 << 20}));
  must(content.pack(folder.file("a.gimg")));
  Image image = must(Image::open(folder.file("a.gimg")));
  Data bytes = read_file(folder.file("a.gimg"));
  const Bytes second = image.chunks()[1].offset;
  bytes[second + 5] ^= std::byte{1};
  write_file(folder.file("a.gimg"), bytes);
  Data read(content.data[0].size());
  EXPECT_THAT(image.read(image.tensors()[0], read).error().message,
              HasSubstr("a.gimg: chunk 1 (offset 4202496): its raw bytes are not those"));
  std::filesystem::resize_file(folder.file("a.gimg"), second + 100);
  EXPECT_THAT(image.read(image.tensors()[0], read).error().message,
              HasSubstr("a.gimg: chunk 1 (offset 4202496): the file ends at 4202596"));
}

TEST(Image, NoFileIsAnError) {
  const Folder folder;
  EXPECT_EQ(Image::open(folder.file("a.gimg")).error().code, Code::not_found);
  EXPECT_THAT(Image::open(folder.path()).error().message, HasSubstr("it is no regular file"));
}

}  // namespace
}  // namespace gantry
