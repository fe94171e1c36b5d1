#include <gtest/gtest.h>

#include <array>

#include "engine/shape/rows.hpp"
#include "engine/shape/test_rows.hpp"

namespace gantry::shape {
namespace {

Raw numbered(std::size_t bytes, unsigned seed) {
  Raw raw(bytes);
  std::mt19937 random(seed);
  for (std::byte& byte : raw) byte = static_cast<std::byte>(random());
  return raw;
}

TEST(OrderRows, GatherTakesEveryStepthElementAndReadsNothingBehindTheLast) {
  Walled walled;
  for (const unsigned bytes : {1, 2, 4, 8})
    for (const std::size_t step : {1, 2, 3, 4, 5, 7, 64})
      on_every_target([&] {
        for (std::size_t count = 0; count <= 130; ++count) {
          const std::size_t reach = count == 0 ? 0 : ((count - 1) * step + 1) * bytes;
          const Raw all = numbered(reach, 1);
          Raw got(count * bytes + 130, std::byte{0xee}), wanted = got;
          for (std::size_t i = 0; i < count; ++i)
            std::memcpy(wanted.data() + 65 + i * bytes, all.data() + i * step * bytes, bytes);
          gather(got.data() + 65, walled.put(all.data(), reach), step, count, bytes);
          ASSERT_TRUE(got == wanted) << count << " of " << bytes << " bytes, step " << step;
        }
      });
}

TEST(OrderRows, InterleaveTakesOneOfEachStreamInTurn) {
  for (const unsigned bytes : {1, 2, 4, 8})
    for (const unsigned streams : {2, 3, 4})
      on_every_target([&] {
        for (std::size_t count = 0; count <= 130; ++count) {
          std::array<Raw, 4> raw;
          std::array<const std::byte*, 4> sources{};
          for (unsigned s = 0; s < streams; ++s) {
            raw[s] = numbered(count * bytes, s);
            sources[s] = raw[s].data();
          }
          Raw got(count * bytes * streams + 130, std::byte{0xee}), wanted = got;
          for (std::size_t i = 0; i < count * streams; ++i)
            std::memcpy(wanted.data() + 65 + i * bytes, sources[i % streams] + i / streams * bytes,
                        bytes);
          interleave(got.data() + 65, sources.data(), streams, count, bytes);
          ASSERT_TRUE(got == wanted) << count << " of " << bytes << " bytes, " << streams;
        }
      });
}

TEST(OrderRows, PackedNumbersBecomeCodesFromAnyPlaceOn) {
  const Raw packed = numbered(200, 5);
  for (const Element from : {Element::u4, Element::i4, Element::e2m1})
    on_every_target([&] {
      for (std::size_t first = 0; first < 5; ++first)
        for (std::size_t count = 0; count <= 300; ++count) {
          Raw got(count + 2, std::byte{0xee}), wanted = got;
          for (std::size_t i = 0; i < count; ++i) {
            const auto byte = std::to_integer<int>(packed[(first + i) / 2]);
            int code = (first + i) % 2 == 0 ? byte % 16 : byte / 16;
            if (from == Element::i4 && code >= 8) code -= 16;
            wanted[i + 1] = static_cast<std::byte>(code);
          }
          unpack(got.data() + 1, from, packed.data(), first, count);
          ASSERT_TRUE(got == wanted) << count << " from " << first;
        }
    });
}

TEST(OrderRows, CodesArePackedTheFirstToTheLowHalf) {
  const Raw codes = numbered(300, 6);
  on_every_target([&] {
    for (std::size_t count = 0; count <= 300; ++count) {
      Raw got((count + 1) / 2 + 2, std::byte{0xee}), wanted = got;
      for (std::size_t i = 0; i < count; ++i) {
        const int code = std::to_integer<int>(codes[i]) % 16;
        std::byte& byte = wanted[i / 2 + 1];
        byte = static_cast<std::byte>(i % 2 == 0 ? code : std::to_integer<int>(byte) + code * 16);
      }
      pack(got.data() + 1, codes.data(), count);
      ASSERT_TRUE(got == wanted) << count;
    }
  });
}

}  // namespace
}  // namespace gantry::shape
