// Shared memory counts as files do: what would exceed the limit of their sizes is an error, where
// the kernel alone would end the process by SIGXFSZ.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <vector>

#include "limits/exchange.hpp"

namespace gantry {
namespace {

using testing::HasSubstr;

class FileSizeLimit : public testing::Test {
 protected:
  FileSizeLimit() { ::getrlimit(RLIMIT_FSIZE, &before_); }
  ~FileSizeLimit() override { ::setrlimit(RLIMIT_FSIZE, &before_); }
  void limit(Bytes bytes) const {
    const rlimit small{bytes, before_.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  }
  static void expect_explained(const Error& error) {
    EXPECT_THAT(error.message, HasSubstr("File too large"));
    EXPECT_THAT(error.hint, HasSubstr("ulimit -f"));
  }

  rlimit before_{};
};

TEST_F(FileSizeLimit, BelowARegionIsAnError) {
  limit(Bytes{1} << 20);
  const auto large = Region::create(Bytes{2} << 20, "test");
  ASSERT_FALSE(large);
  expect_explained(large.error());
  EXPECT_TRUE(Region::create(Bytes{1} << 20, "test"));
}

TEST_F(FileSizeLimit, BelowAChannelsPagesIsAnErrorOfOpening) {
  const test::ChannelFolder folder;
  auto runtime = Runtime::create({.directory = folder.path()});
  ASSERT_TRUE(runtime);
  for (const Bytes bytes : {Bytes{0}, Bytes{4096}}) {
    limit(bytes);
    const auto refused = runtime->producer("frames");
    ASSERT_FALSE(refused) << bytes;
    expect_explained(refused.error());
  }
}

TEST_F(FileSizeLimit, BelowAPayloadIsAnErrorOfTheSendAndSmallerOnesGoOn) {
  const test::ChannelFolder folder;
  auto runtime = Runtime::create({.directory = folder.path()});
  ASSERT_TRUE(runtime);
  limit(Bytes{1} << 20);
  ProducerOptions options;
  options.pool.slab_bytes = Bytes{1} << 20;
  auto out = runtime->producer("frames", options);
  ASSERT_TRUE(out) << out.error().message;
  auto in = runtime->consumer("frames", {}, Deadline::after(std::chrono::seconds(60)));
  ASSERT_TRUE(in);
  const std::vector<std::byte> large(Bytes{4} << 20, std::byte{1});
  const auto refused = out->send(large, Deadline::after(std::chrono::seconds(60)));
  ASSERT_FALSE(refused);
  expect_explained(refused.error());
  const std::vector<std::byte> small(Bytes{300} << 10, std::byte{7});
  ASSERT_TRUE(out->send(small, Deadline::after(std::chrono::seconds(60))));
  const auto message = in->receive(Deadline::after(std::chrono::seconds(60)));
  ASSERT_TRUE(message);
  EXPECT_TRUE(std::ranges::equal(message->bytes(), small));
}

}  // namespace
}  // namespace gantry
