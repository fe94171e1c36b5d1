// Where the ranks of a group are said to be: what is no address of a rank is told at once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/engine/inline/inline_engine.hpp"
#include "ranks/group/group.hpp"

namespace gantry {
namespace {

using testing::HasSubstr;

// Also another rank's, which nobody would answer at until the time to join is over.
TEST(GroupAddresses, WhatIsNoHostAndPortIsNamed) {
  for (const std::string address : {"tls:127.0.0.1:7000", "unix:/tmp/rank"})
    for (const unsigned rank : {0u, 1u}) {
      GroupOptions options;
      options.rank = rank;
      options.ranks = 2;
      options.name = "test";
      options.token = "a token of a test, 16 bytes or more";
      options.addresses = {"127.0.0.1:0", address};
      const auto outcome = Group::join(options, make_inline_engine().value());
      ASSERT_FALSE(outcome) << address;
      EXPECT_EQ(outcome.error().code, Code::unsupported);
      EXPECT_THAT(outcome.error().message,
                  HasSubstr("address '" + address + "': it must be HOST:PORT"));
      EXPECT_THAT(outcome.error().hint, HasSubstr("tls:"));
    }
}

}  // namespace
}  // namespace gantry
