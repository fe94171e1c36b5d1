#include "assignment.hpp"

#include <gtest/gtest.h>

namespace gantry::bench {
namespace {

Result<Assignment> parse(const std::vector<std::string>& words) {
  std::vector<const char*> pointers;
  for (const std::string& word : words) pointers.push_back(word.c_str());
  return Assignment::parse(pointers);
}

Assignment assignment() {
  Assignment told{.variant = "cma", .link = 7, .sockets = {8, 9}, .cpus = {0, 3}, .helper = 1234};
  told.post = {Post::kAsks, 2};
  told.what = {.name = "in-flight-4/64 B",
               .bytes = 64,
               .directory = "/tmp/x",
               .segments = {48, 16},
               .in_flight = 4,
               .readers = 2,
               .times_send = true,
               .keeps_payload = true,
               .crowded = true};
  return told;
}

TEST(Assignment, ComesOutAsItWentIn) {
  const auto told = parse(assignment().words());
  ASSERT_TRUE(told.has_value()) << to_string(told.error());
  EXPECT_EQ(told->words(), assignment().words());
  EXPECT_TRUE(told->post.asks());
  EXPECT_EQ(told->sockets, (std::vector{8, 9}));
  EXPECT_EQ(told->what.segments, (std::vector<Bytes>{48, 16}));
  EXPECT_EQ(told->what.in_flight, 4u);
  EXPECT_TRUE(told->what.keeps_payload);
  EXPECT_TRUE(told->what.crowded);
}

TEST(Assignment, WithNothingInItsListsToo) {
  const auto told = parse(Assignment{}.words());
  ASSERT_TRUE(told.has_value()) << to_string(told.error());
  EXPECT_TRUE(told->sockets.empty());
}

TEST(Assignment, WordsTooManyTooFewOrWrongAreRefused) {
  auto words = assignment().words();
  words.pop_back();
  EXPECT_FALSE(parse(words).has_value());
  words = assignment().words();
  words.push_back("more");
  EXPECT_FALSE(parse(words).has_value());
  words = assignment().words();
  words[1] = "first";
  EXPECT_FALSE(parse(words).has_value());
}

}  // namespace
}  // namespace gantry::bench
