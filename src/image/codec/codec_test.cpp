// What is packed comes back byte for byte, and whatever a stream says, nothing is written beyond
// the raw bytes.
#include "image/codec/codec.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <random>
#include <vector>

#include "core/base/crc32c.hpp"
#include "core/base/test_effort.hpp"

namespace gantry::codec {
namespace {

using ::testing::HasSubstr;
using Data = std::vector<std::byte>;

constexpr Bytes kGuard = 64;
constexpr std::byte kUntouched{0xa5};

enum class Content { zeros, random, weights, repeats };

Data make_content(Content content, Bytes bytes) {
  std::mt19937_64 random(bytes);
  std::normal_distribution<float> weight(0, 0.02f);
  Data data(bytes);
  for (Bytes i = 0; i < bytes; ++i) {
    if (content == Content::random) data[i] = static_cast<std::byte>(random());
    if (content == Content::repeats) data[i] = static_cast<std::byte>(i / 3 % 200);
    if (content == Content::weights && i % 2 == 0 && i + 1 < bytes) {  // the upper halves of floats
      const auto bits = std::bit_cast<std::uint32_t>(weight(random)) >> 16;
      std::memcpy(data.data() + i, &bits, 2);
    }
  }
  return data;
}

/// Unpacked between guards, which are looked at.
Result<std::uint32_t> decode_guarded(Coding coding, ConstByteSpan stored, Data& raw) {
  Data memory(raw.size() + 2 * kGuard, kUntouched);
  Decoder decoder;
  const auto crc = decoder.decode(coding, stored, ByteSpan(memory).subspan(kGuard, raw.size()));
  const auto is_untouched = [](std::byte byte) { return byte == kUntouched; };
  EXPECT_TRUE(std::ranges::all_of(std::span(memory).first(kGuard), is_untouched));
  EXPECT_TRUE(std::ranges::all_of(std::span(memory).last(kGuard), is_untouched));
  std::memcpy(raw.data(), memory.data() + kGuard, raw.size());
  return crc;
}

std::optional<Data> pack(Coding coding, const Data& raw, int level = 0) {
  auto encoder = must(Encoder::make(coding.codec, level));
  Data stored(raw.size() + 256);  // room for the sizes of frames that gain nothing
  const auto bytes = encoder.encode(coding, raw, stored);
  if (!bytes) return std::nullopt;
  stored.resize(*bytes);
  return stored;
}

std::vector<Codec> codecs() {
  std::vector<Codec> there{Codec::deflate};
  for (const Codec codec : {Codec::lz4, Codec::zstd})
    if (make_codec(codec)) there.push_back(codec);
  return there;
}

class EachCodec : public ::testing::TestWithParam<std::tuple<Codec, int>> {
 protected:
  [[nodiscard]] static Coding coding(std::uint32_t frame_bytes = kMostFrameBytes) {
    return {std::get<0>(GetParam()), static_cast<std::uint8_t>(std::get<1>(GetParam())),
            frame_bytes};
  }
};
INSTANTIATE_TEST_SUITE_P(
    , EachCodec, ::testing::Combine(::testing::ValuesIn(codecs()), ::testing::Values(1, 2, 4)),
    [](const auto& test) {
      return fmt::format("{}_{}", to_string(std::get<0>(test.param)), std::get<1>(test.param));
    });

// With frames of every size that there is.
TEST_P(EachCodec, GivesBackWhatWasPackedAndItsCrc) {
  for (const Content content :
       {Content::zeros, Content::random, Content::weights, Content::repeats})
    for (Bytes frame = kLeastFrameBytes; frame <= kMostFrameBytes; frame *= 2)
      for (const Bytes bytes : {Bytes{1}, Bytes{3}, Bytes{4}, Bytes{257}, frame - 1, frame,
                                frame + 1, 2 * frame + 4099}) {
        const Coding how = coding(static_cast<std::uint32_t>(frame));
        const Data raw = make_content(content, bytes);
        const auto stored = pack(how, raw);
        ASSERT_TRUE(stored) << bytes;
        Data back(bytes);
        const auto crc = decode_guarded(how, *stored, back);
        ASSERT_TRUE(crc) << bytes << crc.error().message;
        EXPECT_EQ(*crc, crc32c(raw));
        EXPECT_EQ(back, raw) << bytes;
      }
}

TEST_P(EachCodec, AFrameAloneIsThatPartOfTheBytes) {
  const Coding how = coding(kLeastFrameBytes);
  const Bytes frame_bytes = how.frame_bytes;
  const Data raw = make_content(Content::repeats, 3 * frame_bytes + 1001);
  const Data stored = *pack(how, raw);
  const Bytes head = head_bytes(how, raw.size());
  EXPECT_EQ(head, 4 * sizeof(std::uint32_t));
  const auto frames =
      must(read_head(how, ConstByteSpan(stored).first(head), stored.size(), raw.size()));
  ASSERT_EQ(frames.size(), 4u);
  Decoder decoder;
  for (const std::size_t i : {3, 0, 2, 1}) {
    const auto& [at, bytes, raw_bytes] = frames[i];
    ASSERT_EQ(raw_bytes, i == 3 ? 1001 : frame_bytes);
    Data back(raw_bytes);
    must(decoder.decode_frame(how, ConstByteSpan(stored).subspan(at, bytes), back));
    EXPECT_EQ(std::memcmp(back.data(), raw.data() + i * frame_bytes, raw_bytes), 0) << i;
  }
  EXPECT_FALSE(read_head(how, ConstByteSpan(stored).first(head - 1), stored.size(), raw.size()));
  EXPECT_FALSE(read_head(how, stored, stored.size() - 1, raw.size()));
}

TEST_P(EachCodec, PacksTheSameBytesEachTime) {
  const Data raw = make_content(Content::weights, kMostFrameBytes + 1000);
  EXPECT_EQ(pack(coding(), raw), pack(coding(), raw));
}

TEST_P(EachCodec, WhatHasNoRoomIsNotPacked) {
  const Data raw = make_content(Content::random, kMostFrameBytes);
  auto encoder = must(Encoder::make(coding().codec));
  Data small(raw.size() * 95 / 100);
  EXPECT_EQ(encoder.encode(coding(), raw, small), std::nullopt);
  EXPECT_EQ(encoder.encode(coding(), raw, ByteSpan(small).first(3)), std::nullopt);
}

TEST_P(EachCodec, OfAnotherSizeIsAnError) {
  const Data raw = make_content(Content::repeats, 10'000);
  const Data stored = *pack(coding(), raw);
  for (const Bytes bytes : {Bytes{9'000}, Bytes{9'999}, Bytes{10'001}, Bytes{20'000}}) {
    Data back(bytes);
    const auto crc = decode_guarded(coding(), stored, back);
    ASSERT_FALSE(crc) << bytes;
    EXPECT_THAT(crc.error().message, HasSubstr("frame 0 of "));
  }
}

TEST_P(EachCodec, CutOffAnywhereIsAnError) {
  const Data raw = make_content(Content::repeats, 3'000);
  const Data stored = *pack(coding(), raw);
  for (Bytes bytes = 0; bytes < stored.size(); ++bytes) {
    Data back(raw.size());
    EXPECT_FALSE(decode_guarded(coding(), ConstByteSpan(stored).first(bytes), back)) << bytes;
  }
}

// Beyond the sizes a changed bit may give other bytes, but never more of them.
TEST_P(EachCodec, AChangedBitWritesNothingBeyond) {
  const Data raw = make_content(Content::repeats, 3'000);
  Data stored = *pack(coding(), raw);
  const Bytes kStride = kTestStride == 1 ? 1 : 7;  // so that each bit of a byte has its turn
  for (Bytes bit = 0; bit < stored.size() * 8; bit += kStride) {
    stored[bit / 8] ^= std::byte{1} << bit % 8;
    Data back(raw.size());
    const auto crc = decode_guarded(coding(), stored, back);
    if (bit < 32) {
      EXPECT_FALSE(crc) << bit;
    }
    if (crc) {
      EXPECT_EQ(*crc, crc32c(back)) << bit;
    }
    stored[bit / 8] ^= std::byte{1} << bit % 8;
  }
}

TEST_P(EachCodec, RandomBytesWriteNothingBeyond) {
  for (Bytes bytes = 4; bytes < 400; ++bytes) {
    Data stored = make_content(Content::random, bytes);
    const auto size = static_cast<std::uint32_t>(bytes - 4);
    std::memcpy(stored.data(), &size, sizeof size);
    Data back(1'000);
    const auto crc = decode_guarded(coding(), stored, back);
    if (crc) {
      EXPECT_EQ(*crc, crc32c(back));
    }
  }
}

// ---- what is the same for all -------------------------------------------------------------------

TEST(Codecs, PlainBytesAreCopiedOrLeftWhereTheyAre) {
  Data raw = make_content(Content::random, 100'000);
  Data back(raw.size());
  Decoder decoder;
  EXPECT_EQ(decoder.decode({}, raw, back), crc32c(raw));
  EXPECT_EQ(back, raw);
  EXPECT_EQ(decoder.decode({}, raw, raw), crc32c(back));
  EXPECT_FALSE(decoder.decode({}, raw, ByteSpan(back).first(99'999)));
}

TEST(Codecs, SizesOfFramesFillTheChunk) {
  const Data raw = make_content(Content::repeats, 2 * kMostFrameBytes);
  const Data stored = *pack({Codec::deflate, 1}, raw);
  const auto with = [&](std::size_t frame, std::uint32_t size) {
    Data changed = stored;
    std::memcpy(changed.data() + frame * 4, &size, 4);
    Data back(raw.size());
    const auto crc = decode_guarded({Codec::deflate, 1}, changed, back);
    return crc ? std::string() : crc.error().message;
  };
  EXPECT_EQ(with(0, 0), "frame 0: 0 bytes, of 1 to 524288");
  EXPECT_EQ(with(1, 0xffffffff), "frame 1: 4294967295 bytes, of 1 to 524288");
  EXPECT_THAT(with(1, 1), HasSubstr("its frames end at "));
}

TEST(Codecs, PlanesMakeWeightsSmaller) {
  const Data raw = make_content(Content::weights, 4 * kMostFrameBytes);
  for (const Codec codec : codecs()) {
    const Data apart = *pack({codec, 2}, raw);
    EXPECT_LT(apart.size(), pack({codec, 1}, raw)->size()) << to_string(codec);
    if (codec != Codec::lz4) {
      EXPECT_LT(apart.size(), raw.size() * 3 / 4) << to_string(codec);
    }
  }
}

TEST(Codecs, LevelsAndPlanesThatThereAreNot) {
  EXPECT_EQ(Encoder::make(Codec::none).error().message, "there is no codec 0");
  EXPECT_EQ(Encoder::make(static_cast<Codec>(9)).error().message, "there is no codec 9");
  EXPECT_EQ(Encoder::make(Codec::deflate, 4).error().message, "deflate has levels 1 to 3, not 4");
  EXPECT_FALSE(Encoder::make(Codec::zstd, -1));
  Data raw(100), stored = *pack({Codec::deflate, 1}, raw);
  EXPECT_EQ(Decoder().decode({Codec::deflate, 3}, stored, raw).error().message,
            "planes of numbers of 3 bytes");
  for (const std::uint32_t frame : {0U, 1U << 15, 96U << 10, 1U << 20})
    EXPECT_EQ(Decoder().decode({Codec::deflate, 1, frame}, stored, raw).error().message,
              fmt::format("frames of {} bytes", frame));
  EXPECT_FALSE(Decoder().decode({static_cast<Codec>(9), 1}, stored, raw));
}

TEST(Codecs, MoreLevelsPackTighter) {
  if (!make_codec(Codec::zstd)) GTEST_SKIP() << "built without zstd";
  const Data raw = make_content(Content::repeats, kMostFrameBytes);
  EXPECT_LE(pack({Codec::zstd, 1}, raw, 19)->size(), pack({Codec::zstd, 1}, raw, 1)->size());
}

}  // namespace
}  // namespace gantry::codec
