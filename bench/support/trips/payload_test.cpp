#include "payload.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <vector>

namespace gantry::bench {
namespace {

/// The definition, a byte at a time.
std::uint64_t plain_sum(ConstByteSpan bytes) {
  std::uint64_t sum = 0;
  for (Bytes i = 0; i < bytes.size(); ++i) {
    sum += std::to_integer<std::uint64_t>(bytes[i]) << (8 * (i % 8));
  }
  return sum;
}

TEST(Checksum, IsTheSumOfAllWordsAtEverySize) {
  std::vector<std::byte> bytes(300);
  for (Bytes i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 37 + 11);
  for (Bytes size = 0; size <= bytes.size(); ++size) {
    const ConstByteSpan part(bytes.data(), size);
    EXPECT_EQ(checksum(part), plain_sum(part)) << size;
  }
}

TEST(Checksum, SeesEveryByte) {
  std::vector<std::byte> bytes(275);
  const auto before = checksum(bytes);
  for (std::byte& byte : bytes) {
    byte = std::byte{1};
    EXPECT_NE(checksum(bytes), before) << (&byte - bytes.data());
    byte = std::byte{0};
  }
}

TEST(Payload, KnowsItsChecksumThroughChanges) {
  for (const Bytes size : {Bytes{8}, Bytes{12}, Bytes{64}, Bytes{4099}}) {
    Payload payload(size);
    EXPECT_EQ(payload.bytes().size(), size);
    for (int i = 0; i < 100; ++i) {
      payload.change();
      ASSERT_EQ(payload.checksum(), checksum(payload.bytes())) << size;
    }
  }
}

TEST(Payload, ChangesItsFirstAndItsLastWord) {
  Payload payload(256);
  std::array<std::byte, 256> before{};
  std::memcpy(before.data(), payload.bytes().data(), before.size());
  payload.change();
  EXPECT_NE(std::memcmp(payload.bytes().data(), before.data(), 8), 0);
  EXPECT_NE(std::memcmp(payload.bytes().data() + 248, before.data() + 248, 8), 0);
  EXPECT_NE(payload.checksum(), checksum(before));
}

TEST(Payload, RewritesEveryWordAndKnowsTheSum) {
  for (const Bytes size : {Bytes{8}, Bytes{12}, Bytes{64}, Bytes{4096}}) {
    Payload payload(size);
    std::vector<std::byte> before(payload.bytes().begin(), payload.bytes().end());
    payload.rewrite();
    for (Bytes at = 0; at + 8 <= size; at += 8)
      EXPECT_NE(std::memcmp(payload.bytes().data() + at, before.data() + at, 8), 0) << at;
    EXPECT_EQ(payload.checksum(), checksum(payload.bytes()));
    EXPECT_NE(payload.checksum(), checksum(before));
  }
}

TEST(Payload, BringsACopyUpToDate) {
  Payload payload(4096);
  std::vector<std::byte> copy(payload.bytes().begin(), payload.bytes().end());
  for (int i = 0; i < 20; ++i) {
    i % 3 == 0 ? payload.rewrite() : payload.change();
    EXPECT_NE(std::memcmp(payload.bytes().data(), copy.data(), copy.size()), 0) << i;
    payload.bring_up_to_date(copy);
    EXPECT_EQ(std::memcmp(payload.bytes().data(), copy.data(), copy.size()), 0) << i;
  }
}

}  // namespace
}  // namespace gantry::bench
