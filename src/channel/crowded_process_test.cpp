#include <gmock/gmock.h>
#include <sys/resource.h>

#include "base/socket.hpp"
#include "channel/naming/rendezvous.hpp"
#include "channel/test_child.hpp"
#include "channel/test_support.hpp"

// Who cannot let anybody in, and what those hear who come.
namespace gantry {
namespace {

using test::Child;
using test::consumer_options;
using test::make_producer;
using test::options_in;
using test::soon;
using testing::HasSubstr;

class Crowded : public testing::Test {
 protected:
  /// A producer that waits in its own process, with descriptors for `more` than it has.
  [[nodiscard]] std::unique_ptr<Child> producer_with(rlim_t more) {
    return std::make_unique<Child>([this, more](const Child& self) {
      const auto out = make_producer("frames", options_);
      const rlim_t most = static_cast<rlim_t>(test::open_descriptors() - 1) + more;  // less its own
      const rlimit limit{most, most};
      if (out && ::setrlimit(RLIMIT_NOFILE, &limit) == 0) self.report();
      Child::hold();
    });
  }

  test::ScratchDirectory directory_;
  ProducerOptions options_ = options_in(directory_);
};

// With one descriptor it can take the connection; each one more brings it a step further.
TEST_F(Crowded, WhoHasNoDescriptorsLeftSaysSo) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer needs a descriptor to look at an object's virtual table";
#endif
  bool let_in = false;
  for (rlim_t more = 1; more < 20 && !let_in; ++more) {
    const auto child = producer_with(more);
    child->await_report();
    const auto in = Consumer::open("frames", consumer_options(options_), soon());
    let_in = in.has_value();
    if (let_in) continue;
    EXPECT_EQ(in.error().code, Code::system) << "with " << more << ": " << to_string(in.error());
    EXPECT_THAT(to_string(in.error()), HasSubstr("ulimit -n")) << "with " << more;
  }
  EXPECT_TRUE(let_in);
}

// It is there; to start it, as for one that is not, would not mend it.
TEST_F(Crowded, AFullQueueIsNotAMissingOwner) {
  const auto child = producer_with(100);
  child->await_report();
  child->stop();
  std::vector<Fd> waiting;
  for (auto one = connect_to(directory_.path(), "frames.sock"); one;
       one = connect_to(directory_.path(), "frames.sock"))
    waiting.push_back(std::move(*one));
  for (const Error& error :
       {Consumer::open("frames", consumer_options(options_), Deadline::now()).error(),
        Producer::connect("frames", options_, std::make_shared<test::PlainEngine>(),
                          Deadline::now())
            .error()}) {
    EXPECT_EQ(error.code, Code::timed_out);
    EXPECT_THAT(to_string(error), HasSubstr("lets nobody in")) << to_string(error);
    EXPECT_THAT(to_string(error), HasSubstr("kill -CONT"));
  }
}

}  // namespace
}  // namespace gantry
