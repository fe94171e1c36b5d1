#include "engine/shape/scaled_rows.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "engine/shape/test_rows.hpp"

namespace gantry::shape {
namespace {

Raw scaled_one_by_one(const Raw& bytes, float scale, float offset) {
  Raw made(bytes.size() * sizeof(float));
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    auto value = static_cast<float>(std::to_integer<unsigned>(bytes[i]));
    reference::scale(&value, scale, offset);
    std::memcpy(made.data() + i * sizeof value, &value, sizeof value);
  }
  return made;
}

// Whatever the place, so that heads, lines and rests of all lengths are among them.
TEST(ScaledRows, BytesAreMultipliedThenAddedToWhereverTheyGo) {
  Raw bytes(300);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7);
  constexpr float kScale = 1 / (255 * 0.229f), kOffset = -0.485f / 0.229f;
  const Raw wanted = scaled_one_by_one(bytes, kScale, kOffset);
  on_every_target([&] {
    for (const bool streaming : {false, true})
      for (const std::size_t place : {0, 1, 4, 20, 60, 63})
        for (std::size_t count = 0; count <= bytes.size(); count += count < 80 ? 1 : 13) {
          alignas(64) std::array<std::byte, 64 + 300 * sizeof(float) + 64> got;
          got.fill(std::byte{0xee});
          scaled_floats(got.data() + place, bytes.data(), count, kScale, kOffset, streaming);
          ASSERT_EQ(std::memcmp(got.data() + place, wanted.data(), count * sizeof(float)), 0)
              << count << " at " << place;
          const auto untouched = [](std::byte byte) { return byte == std::byte{0xee}; };
          const auto end = got.begin() + static_cast<std::ptrdiff_t>(place + count * sizeof(float));
          EXPECT_TRUE(std::all_of(got.begin(), got.begin() + static_cast<std::ptrdiff_t>(place),
                                  untouched) &&
                      std::all_of(end, got.end(), untouched))
              << count << " at " << place;
        }
  });
}

}  // namespace
}  // namespace gantry::shape
