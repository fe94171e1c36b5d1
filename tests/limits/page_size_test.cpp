// Machines whose pages are of 16 or 64 KiB (arm64, ppc64), as far as one with smaller ones can play
// them: the library is told another size, by which it rounds whatever it makes.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "limits/exchange.hpp"

namespace {

std::atomic<long> page_bytes{4096};

}  // namespace

extern "C" long __sysconf(int name) noexcept;  // the C library's own

// Stands in for the C library's, in the library under test too.
extern "C" [[gnu::visibility("default")]] long sysconf(int name) noexcept {
  return name == _SC_PAGESIZE ? page_bytes.load(std::memory_order_relaxed) : __sysconf(name);
}

namespace gantry {
namespace {

constexpr Bytes kSmallest = 4096;

const Bytes kRealPage = static_cast<Bytes>(::__sysconf(_SC_PAGESIZE));

class PageSize : public testing::TestWithParam<Bytes> {
 protected:
  PageSize() {
    // What is found out once is found out of the machine's own pages.
    EXPECT_TRUE(Region::create(kSmallest, "test")->touch(0, kSmallest));
    use(GetParam());
  }
  ~PageSize() override { use(kRealPage); }
  void SetUp() override {
    if (GetParam() < kRealPage) GTEST_SKIP() << "this machine's pages are larger";
  }
  static void use(Bytes bytes) {
    page_bytes.store(static_cast<long>(bytes), std::memory_order_relaxed);
  }
  static Deadline soon() { return Deadline::after(std::chrono::seconds(60)); }

  test::ChannelFolder folder_;
  Runtime runtime_ = *Runtime::create({.directory = folder_.path()});
};
INSTANTIATE_TEST_SUITE_P(Sizes, PageSize, testing::Values(4096, 8192, 16384, 65536),
                         [](const auto& one) { return std::to_string(one.param); });

TEST_P(PageSize, IsRoundedUpToByWhoMakesMemoryAndTakenByWhoImportsIt) {
  for (const Bytes size : {Bytes{1}, kSmallest, 5 * kSmallest, Bytes{65536} + 1}) {
    auto made = Region::create(size, "test");
    ASSERT_TRUE(made) << made.error().message;
    EXPECT_EQ(made->size() % GetParam(), 0u);
    made->data()[made->size() - 1] = std::byte{9};
    const Bytes announced = (size + kSmallest - 1) / kSmallest * kSmallest;
    const auto imported = Region::import(::dup(made->descriptor()), announced);
    ASSERT_TRUE(imported) << imported.error().message;
    ASSERT_EQ(imported->size(), made->size());
    EXPECT_EQ(imported->data()[imported->size() - 1], std::byte{9});
  }
}

TEST_P(PageSize, IsNoExcuseForMemoryOfAnotherSize) {
  const auto made = Region::create(3 * GetParam(), "test");
  ASSERT_TRUE(made);
  for (const Bytes wrong : {2 * GetParam(), 3 * GetParam() + kSmallest, 4 * GetParam(), Bytes{1}})
    EXPECT_EQ(Region::import(::dup(made->descriptor()), wrong).error().code, Code::peer_misbehaved)
        << wrong;
}

TEST_P(PageSize, IsOfNoConcernToAChannel) {
  const auto done = test::exchange(runtime_);
  EXPECT_TRUE(done) << done.error().message;
}

TEST_P(PageSize, IsOfNoConcernToAServerAndItsClient) {
  const auto done = test::call_and_reply(runtime_);
  EXPECT_TRUE(done) << done.error().message;
}

TEST_P(PageSize, IsOfNoConcernToAnInbox) {
  const auto done = test::deliver(runtime_);
  EXPECT_TRUE(done) << done.error().message;
}

// As under an emulator: each rounds up to what it takes for the page.
TEST_P(PageSize, MayDifferBetweenTheEnds) {
  auto out = runtime_.producer("frames");
  ASSERT_TRUE(out);
  use(kRealPage);
  auto in = runtime_.consumer("frames", {}, soon());
  ASSERT_TRUE(in) << in.error().message;
  std::vector<std::byte> payload(Bytes{1} << 20);
  for (Bytes i = 0; i < payload.size(); ++i) payload[i] = static_cast<std::byte>(i % 251);
  ASSERT_TRUE(out->send(payload, soon()));
  const auto message = in->receive(soon());
  ASSERT_TRUE(message) << message.error().message;
  EXPECT_TRUE(std::ranges::equal(message->bytes(), payload));
}

}  // namespace
}  // namespace gantry
