#include <gmock/gmock.h>
#include <sys/resource.h>

#include <gantry/call.hpp>

#include "core/base/os/socket.hpp"
#include "core/base/result.hpp"
#include "core/channel/naming/rendezvous.hpp"
#include "core/channel/test_child.hpp"
#include "core/channel/test_support.hpp"

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
  static constexpr int kWorked = 0, kSaid = 10, kUnsaid = 11;

  /// From here on this process may open `more` descriptors.
  static void limit_to(rlim_t more) {
    const rlim_t most = static_cast<rlim_t>(test::open_descriptors()) + more + 8;
    const rlimit limit{most, most};
    if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) ::_exit(99);
    std::vector<int> filled;  // the limit is of numbers, and some may be free in between
    for (int fd = ::dup(0); fd >= 0; fd = ::dup(0)) filled.push_back(fd);
    for (; more > 0; --more, filled.pop_back()) ::close(filled.back());
  }
  /// In a child: true if that is a want of descriptors, and told as such.
  static bool is_said(const Error& error) {
    const std::string text = to_string(error);
    if (error.code == Code::system && text.find("ulimit -n") != std::string::npos) return true;
    std::fprintf(stderr, "%s\n", text.c_str());
    return false;
  }

  /// A producer that waits in its own process, with descriptors for `more` than it has.
  [[nodiscard]] std::unique_ptr<Child> producer_with(rlim_t more) {
    return std::make_unique<Child>([this, more](const Child& self) {
      const auto out = make_producer("frames", options_);
      limit_to(more);
      if (out) self.report();
      Child::hold();
    });
  }

  test::ScratchDirectory directory_;
  ProducerOptions options_ = options_in(directory_);
};

// With none it turns callers away by the one that it keeps for that; with one it can take the
// connection; each one more brings it a step further.
TEST_F(Crowded, WhoHasNoDescriptorsLeftSaysSo) {
  bool let_in = false;
  for (rlim_t more = 0; more < 20 && !let_in; ++more) {
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

// Who takes a name asks first whether it is taken: who cannot ask does not know.
TEST_F(Crowded, WhoHasNoDescriptorsLeftForANameSaysSo) {
  bool taken = false;
  for (rlim_t more = 0; more < 20 && !taken; ++more) {
    Child child([this, more](const Child&) {
      limit_to(more);
      const auto out = make_producer("frames", options_);
      if (out) ::_exit(kWorked);
      ::_exit(is_said(out.error()) ? kSaid : kUnsaid);
    });
    const int status = WEXITSTATUS(child.wait());
    EXPECT_NE(status, kUnsaid) << "with " << more;
    taken = status == kWorked;
  }
  EXPECT_TRUE(taken);
}

// ---- calls -----------------------------------------------------------------------------------

// A live server is never called gone: its clients would connect again for ever. The payloads need
// memory of each side, which the other has to take in.
class CrowdedCalls : public Crowded {
 protected:
  static void serve(Server& server) {
    while (auto request = server.next(soon())) {
      const auto replied = request->reply(request->message().bytes(), {.deadline = soon()});
      if (!replied && replied.error().code != Code::peer_gone)
        static_cast<void>(request->refuse(replied.error()));
    }
  }
  /// How a call of a new client goes.
  [[nodiscard]] Result<Message> call() const {
    GANTRY_ASSIGN(auto client, Client::connect("sum", test::client_options(options_),
                                               std::make_shared<test::PlainEngine>(), soon()));
    return client.call(test::pattern(100'000, 1), {.deadline = soon()});
  }
};

TEST_F(CrowdedCalls, AServerWithoutDescriptorsSaysSo) {
  bool served = false;
  for (rlim_t more = 0; more < 60 && !served; ++more) {
    const Child child([this, more](const Child& self) {
      auto server = Server::open("sum", test::server_options(options_),
                                 std::make_shared<test::PlainEngine>());
      limit_to(more);
      if (server) self.report();
      serve(*server);
    });
    child.await_report();
    const auto reply = call();
    served = reply.has_value();
    if (served) continue;
    EXPECT_EQ(reply.error().code, Code::system) << more << ": " << to_string(reply.error());
    EXPECT_THAT(to_string(reply.error()), HasSubstr("ulimit -n")) << more;
    EXPECT_EQ(::kill(child.pid(), 0), 0) << "it lives";
  }
  EXPECT_TRUE(served);
}

TEST_F(CrowdedCalls, AClientWithoutDescriptorsSaysSo) {
  const Child other([this](const Child& self) {
    auto server =
        Server::open("sum", test::server_options(options_), std::make_shared<test::PlainEngine>());
    if (server) self.report();
    serve(*server);
  });
  other.await_report();
  bool answered = false;
  for (rlim_t more = 0; more < 60 && !answered; ++more) {
    Child child([this, more](const Child&) {
      limit_to(more);
      const auto reply = call();
      if (reply) ::_exit(kWorked);
      ::_exit(is_said(reply.error()) ? kSaid : kUnsaid);
    });
    const int status = WEXITSTATUS(child.wait());
    EXPECT_NE(status, kUnsaid) << "with " << more;
    answered = status == kWorked;
  }
  EXPECT_TRUE(answered);
}

// ---- others ----------------------------------------------------------------------------------

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
