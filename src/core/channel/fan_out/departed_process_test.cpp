#include <sys/stat.h>

#include <vector>

#include "core/channel/test_child.hpp"
#include "core/channel/test_support.hpp"

// Who leaves with messages in hand, and comes again as another process: users count, not processes.
namespace gantry {
namespace {

using test::Child;
using test::consumer_options;
using test::make_producer;
using test::options_in;
using test::pattern;
using test::soon;

class Hoarding : public testing::Test {
 protected:
  Hoarding() {
    options_.consumers = 4;
    options_.history = 1;
    options_.access.socket_mode = 0666;
  }
  /// Joins, takes the message that is kept for whoever comes, and leaves with it.
  static Result<Message> take_one(const ConsumerOptions& options) {
    auto in = Consumer::open("frames", options, soon());
    if (!in) return tl::unexpected(in.error());
    return in->receive(soon());
  }
  /// A process that takes so many and keeps them. It waits for the producer, which is made later:
  /// nobody is forked beside threads of ours.
  std::unique_ptr<Child> hoarder(std::size_t messages, uid_t user) {
    return std::make_unique<Child>([this, messages, user](const Child& self) {
      ConsumerOptions options = consumer_options(options_);
      options.access.users = {0};
      if (user != ::geteuid() && ::setuid(user) != 0) ::_exit(2);
      std::vector<Message> hoard;
      while (hoard.size() < messages) {
        auto one = take_one(options);
        if (!one) ::_exit(1);
        hoard.push_back(std::move(*one));
      }
      self.report();
      Child::hold();
    });
  }
  Producer open_producer() {
    auto out = *make_producer("frames", options_);
    EXPECT_TRUE(out.send(pattern(1000, 1), soon()));
    return out;
  }
  static void await_departed(Producer& out, std::size_t messages) {
    while (out.explain().status.departed.size() < messages) std::this_thread::yield();
  }

  test::ScratchDirectory directory_;
  ProducerOptions options_ = options_in(directory_);
};

TEST_F(Hoarding, ByManyProcessesOfAUserIsThatUsers) {
  const auto first = hoarder(32, ::geteuid()), second = hoarder(32, ::geteuid());
  Producer out = open_producer();
  first->await_report();
  second->await_report();
  await_departed(out, 64);
  const auto third = take_one(consumer_options(options_));
  ASSERT_FALSE(third) << "a process that holds nothing, of a user who does";
  EXPECT_EQ(third.error().code, Code::busy) << third.error().message;
}

TEST_F(Hoarding, LeavesOtherUsersTheirShareAndNoMore) {
  constexpr uid_t kOther = 54321;
  if (::geteuid() != 0) GTEST_SKIP() << "only root can play another user";
  ASSERT_EQ(::chmod(directory_.path().c_str(), 0711), 0);
  options_.access.users = {kOther};
  const auto other = hoarder(64, kOther);
  Producer out = open_producer();
  other->await_report();
  await_departed(out, 64);
  std::vector<Message> hoard;
  Result<Message> one = take_one(consumer_options(options_));
  for (; one && hoard.size() < 100; one = take_one(consumer_options(options_))) {
    hoard.push_back(std::move(*one));
    await_departed(out, 64 + hoard.size());
  }
  ASSERT_FALSE(one);
  EXPECT_EQ(one.error().code, Code::busy) << one.error().message;
  EXPECT_EQ(hoard.size(), 32u) << "half of what there is for all";
}

}  // namespace
}  // namespace gantry
