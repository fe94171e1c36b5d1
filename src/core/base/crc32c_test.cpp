#include "core/base/crc32c.hpp"

#include <gtest/gtest.h>

#include <string_view>

namespace gantry {
namespace {

TEST(Crc32c, IsThatOfRfc3720) {
  const std::string_view digits = "123456789";
  EXPECT_EQ(crc32c(std::as_bytes(std::span(digits))), 0xe3069283u);
  EXPECT_EQ(crc32c({}), 0u);
}

TEST(Crc32c, GoesOnFromThatOfTheBytesBefore) {
  const auto digits = std::as_bytes(std::span(std::string_view("123456789")));
  EXPECT_EQ(crc32c(digits.subspan(4), crc32c(digits.first(4))), 0xe3069283u);
}

}  // namespace
}  // namespace gantry
