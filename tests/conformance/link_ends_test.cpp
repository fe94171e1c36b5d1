#include <sys/wait.h>
#include <csignal>

#include <atomic>
#include <thread>

#include "core/base/test_fork.hpp"
#include "core/base/test_sanitizer.hpp"
#include "link_suite.hpp"

// How exports and links end: by a call, by death, by silence.
namespace gantry {
namespace {

const Bytes kLarge = has_thread_sanitizer() ? 16 * kMiB : 64 * kMiB;

using LinkEnds = LinkConformance;

TEST_P(LinkEnds, NothingLandsOnceAnExportHasEnded) {
  std::vector<std::byte> here(100, std::byte{1}), there(100);
  auto exported = *b_->export_memory(there, RemoteAccess::read_write);
  const RemoteRegion remote = exported.remote();
  ASSERT_TRUE(put(Transfer::of(here, remote)));
  exported.withdraw();
  settle();
  const auto refused = put(Transfer::of(here, remote, 0, 5));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::not_found) << refused.error().message;
  EXPECT_NE(refused.error().message.find(a_->peer()), std::string::npos);
  EXPECT_EQ(get(Transfer::of(here, remote)).error().code, Code::not_found);
  EXPECT_EQ(b_->receive_signal(Deadline::now()).error().code, Code::timed_out);
  const auto again = *b_->export_memory(there, RemoteAccess::read_write);
  EXPECT_NE(again.remote().key, remote.key);
  EXPECT_TRUE(put(Transfer::of(here, again.remote())));
  EXPECT_EQ(a_->report().failed, 2u);
}

// Looks at memory that an engine is writing: torn or old values are expected by whoever asks.
__attribute__((no_sanitize("thread"))) std::byte peek(const std::byte* at) {
  return *static_cast<const volatile std::byte*>(at);
}

// The export ends while a put is half-way in; its memory then stays as it is.
TEST_P(LinkEnds, AnExportMayEndInTheMiddleOfAPut) {
  for (const bool is_region : {true, false}) {
    Region here = region(kLarge), there = region(kLarge);
    fill(bytes_of(here), 1);
    const auto mine = is_region ? *a_->export_region(here, RemoteAccess::read) : Export();
    auto exported = *b_->export_memory(bytes_of(there), RemoteAccess::read_write);
    const auto landed = b_->report().landed_bytes;
    const auto ticket = a_->put(Transfer::of(bytes_of(here), exported.remote(), 0, 6));
    ASSERT_TRUE(ticket);
    const auto is_begun = [&] { return peek(there.data()) == here.data()[0]; };
    ASSERT_TRUE(pump_until(is_begun));
    ASSERT_EQ(a_->outcome(*ticket), Outcome::pending);
    const bool is_whole = b_->report().landed_bytes == landed + kLarge;
    exported.withdraw();
    const std::vector<std::byte> then(there.data(), there.data() + kLarge);
    const auto ended = finish(*a_, *ticket);
    EXPECT_TRUE(are_equal(then, bytes_of(there)));
    if (is_whole) continue;  // an engine that is quicker than the first look
    ASSERT_FALSE(ended);
    EXPECT_EQ(ended.error().code, Code::not_found);
    EXPECT_EQ(b_->receive_signal(Deadline::now()).error().code, Code::timed_out);
    const auto next = *b_->export_memory(bytes_of(there), RemoteAccess::read_write);
    EXPECT_TRUE(put(Transfer::of(bytes_of(here), next.remote())));
    EXPECT_TRUE(are_equal(bytes_of(here), bytes_of(there)));
  }
}

// The memory is unmapped once the export has ended, although it is still being sent.
TEST_P(LinkEnds, AnExportMayEndInTheMiddleOfAGet) {
  std::vector<std::byte> here(kLarge);
  auto there = std::make_unique<Region>(region(kLarge));
  fill(bytes_of(*there), 1);
  auto exported = *b_->export_memory(bytes_of(*there), RemoteAccess::read);
  const auto ticket = a_->get(Transfer::of(here, exported.remote(), 0, 6));
  const auto second = a_->get(Transfer::of(here, exported.remote(), 0, 7));
  ASSERT_TRUE(ticket && second);
  ASSERT_TRUE(pump_until([&] { return b_->report().served_bytes > 0; }));
  exported.withdraw();
  there.reset();
  EXPECT_EQ(finish(*a_, *ticket).error().code, Code::not_found);
  EXPECT_EQ(finish(*a_, *second).error().code, Code::not_found);
  EXPECT_TRUE(a_->state() && b_->state());
  EXPECT_EQ(b_->receive_signal(Deadline::now()).error().code, Code::timed_out);
}

TEST_P(LinkEnds, AKeyOfAnotherLinkEndsThisOne) {
  SocketPair sockets = GetParam().connect();
  const auto other = *GetParam().make(sockets[0].release(), {});
  std::vector<std::byte> here(100), there(100, std::byte{3});
  const auto exported = *other->export_memory(there, RemoteAccess::read_write);
  const auto ticket = a_->put(Transfer::of(here, exported.remote()));
  ASSERT_TRUE(ticket);
  const auto ended = finish(*a_, *ticket);
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().code, Code::peer_gone) << ended.error().message;
  ASSERT_TRUE(pump_until([&] { return !b_->state(); }));
  EXPECT_EQ(b_->state().error().code, Code::peer_misbehaved);
  EXPECT_EQ(there, std::vector<std::byte>(100, std::byte{3}));
}

TEST_P(LinkEnds, AClosedLinkIsToldFromALostOne) {
  std::vector<std::byte> there(100);
  const auto exported = *b_->export_memory(there, RemoteAccess::read_write);
  const std::byte last{9};
  ASSERT_TRUE(a_->send_control({&last, 1}));
  const auto ticket = a_->put(Transfer::of(there, exported.remote()));
  ASSERT_TRUE(ticket);
  a_->close();
  EXPECT_EQ(a_->wait(*ticket).error().code, Code::closed);
  EXPECT_EQ(a_->outcome(*ticket), Outcome::failed);
  EXPECT_EQ(code_of(a_->put(Transfer::of(there, exported.remote()))), Code::closed);
  std::array<std::byte, 8> into{};
  ASSERT_EQ(b_->receive_control(into, patience()), 1u);  // what was said before is heard
  EXPECT_EQ(into[0], last);
  const auto ended = b_->receive_control(into, patience());
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().code, Code::closed) << ended.error().message;
  EXPECT_NE(ended.error().message.find(b_->peer()), std::string::npos);
}

// Its peer polls no more: nothing of what it said or put is taken.
TEST_P(LinkEnds, DroppingOneWhosePeerIsDeafWaitsForNothing) {
  std::vector<std::byte> here(kLarge), there(kLarge);
  const auto exported = *b_->export_memory(there, RemoteAccess::read_write);
  ASSERT_TRUE(a_->put(Transfer::of(here, exported.remote())));
  const std::vector<std::byte> words(1000);
  while (a_->send_control(words, Deadline::now())) a_->poll();
  const auto begin = std::chrono::steady_clock::now();
  a_.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(500));
}

TEST_P(LinkEnds, NothingLandsInAGetOnceTheLinkIsClosed) {
  std::vector<std::byte> here(kLarge), there(kLarge, std::byte{5});
  const auto exported = *b_->export_memory(there, RemoteAccess::read);
  const auto ticket = a_->get(Transfer::of(here, exported.remote()));
  ASSERT_TRUE(ticket);
  ASSERT_TRUE(pump_until([&] { return here[0] == std::byte{5}; }));
  a_->close();
  const auto then = here;
  while (b_->state()) b_->poll();
  EXPECT_TRUE(are_equal(here, then));
  EXPECT_EQ(a_->outcome(*ticket), Outcome::failed);
}

TEST_P(LinkEnds, APeerThatHangsUpWithoutAWordIsGone) {
  for (const bool is_half : {true, false}) {
    SocketPair sockets = GetParam().connect();
    const auto link = *GetParam().make(sockets[0].release(), {.peer = "host-b"});
    is_half ? static_cast<void>(::shutdown(sockets[1].get(), SHUT_WR)) : sockets[1].reset();
    const auto ended = link->receive_signal(patience());
    ASSERT_FALSE(ended);
    EXPECT_EQ(ended.error().code, Code::peer_gone);
    EXPECT_TRUE(ended.error().message.starts_with("link to host-b: ")) << ended.error().message;
    EXPECT_FALSE(ended.error().hint.empty());
    std::vector<std::byte> memory(1);
    EXPECT_FALSE(link->export_memory(memory, RemoteAccess::read));
  }
}

// The far end serves in a process of its own, which is killed while bytes flow to or from it.
TEST_P(LinkEnds, AKilledPeerEndsEveryTransfer) {
  for (const bool is_put : {true, false}) {
    SocketPair sockets = GetParam().connect();
    a_.reset();  // with the threads of their engines, which a child would not have
    b_.reset();
    const pid_t child = ::fork();
    if (child == 0) {
      sockets[0].reset();
      const auto link = GetParam().make(sockets[1].release(), {});
      Region there = region(kLarge);
      const auto exported = (*link)->export_memory(bytes_of(there), RemoteAccess::read_write);
      if (!(*link)->send_control(exported->remote().encode())) ::_exit(1);
      static_cast<void>((*link)->receive_signal());
      ::_exit(2);
    }
    sockets[1].reset();
    const auto link = *GetParam().make(sockets[0].release(), {.peer = "host-b"});
    RemoteRegion::Encoded key{};
    ASSERT_TRUE(link->receive_control(key, patience()));
    std::vector<std::byte> here(kLarge, std::byte{1});
    std::vector<Ticket> tickets;
    const auto transfer = Transfer::of(here, *RemoteRegion::decode(key));
    for (int i = 0; i < 100; ++i) {
      const auto ticket = is_put ? link->put(transfer) : link->get(transfer);
      ASSERT_TRUE(ticket);
      tickets.push_back(*ticket);
    }
    EXPECT_TRUE(link->wait(tickets.front(), patience()));  // by now it is in the middle of others
    ::kill(child, SIGKILL);
    const auto ended = link->wait(tickets.back(), patience());
    ASSERT_FALSE(ended);
    EXPECT_EQ(ended.error().code, Code::peer_gone) << ended.error().message;
    EXPECT_TRUE(ended.error().message.starts_with("link to host-b: "));
    for (const Ticket ticket : tickets) EXPECT_NE(link->outcome(ticket), Outcome::pending);
    ::waitpid(child, nullptr, 0);
  }
}

TEST_P(LinkEnds, SilenceBeyondTheStallLimitIsDeathAndNoneBefore) {
  constexpr std::chrono::milliseconds kLimit{150};
  SocketPair sockets = GetParam().connect();
  const auto link =
      *GetParam().make(sockets[0].release(), {.peer = "host-b", .stall_limit = kLimit});
  const auto begun = std::chrono::steady_clock::now();
  const auto ended = link->receive_signal(patience());
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().code, Code::peer_gone);
  EXPECT_NE(ended.error().message.find("nothing was heard"), std::string::npos);
  EXPECT_GE(std::chrono::steady_clock::now() - begun, kLimit);
}

// Both ends only wait: nothing is lost although nothing is said for many times the limit.
TEST_P(LinkEnds, EndsThatPollKeepEachOtherAlive) {
  connect({.stall_limit = std::chrono::milliseconds(300)});
  std::atomic<bool> is_over{false};
  std::thread far([&] {
    while (!is_over)
      static_cast<void>(b_->receive_signal(Deadline::after(std::chrono::milliseconds(20))));
  });
  EXPECT_EQ(a_->receive_signal(Deadline::after(std::chrono::milliseconds(1500))).error().code,
            Code::timed_out);
  EXPECT_TRUE(a_->state());
  is_over = true;
  far.join();
  EXPECT_TRUE(b_->state());
}

/// Passes bytes on between two connections, unless it is stopped.
class Proxy {
 public:
  Proxy(Fd one, Fd other) : ends_{std::move(one), std::move(other)} {
    threads_[0] = std::thread([this] { carry(ends_[0].get(), ends_[1].get()); });
    threads_[1] = std::thread([this] { carry(ends_[1].get(), ends_[0].get()); });
  }
  ~Proxy() {
    stop(false);
    for (const Fd& end : ends_) ::shutdown(end.get(), SHUT_RDWR);
    for (std::thread& thread : threads_) thread.join();
  }
  void stop(bool stopped) {
    is_stopped_ = stopped;
    is_stopped_.notify_all();
  }

 private:
  void carry(int from, int to) {
    std::array<std::byte, 60'000> bytes{};
    for (;;) {
      const ssize_t got = ::recv(from, bytes.data(), bytes.size(), 0);
      is_stopped_.wait(true);
      if (got <= 0 || ::send(to, bytes.data(), static_cast<std::size_t>(got), MSG_NOSIGNAL) != got)
        break;
    }
    ::shutdown(to, SHUT_WR);
  }
  SocketPair ends_;
  std::atomic<bool> is_stopped_{false};
  std::array<std::thread, 2> threads_;
};

TEST_P(LinkEnds, ALinkThatFlapsLosesNothing) {
  SocketPair mine = GetParam().connect(), its = GetParam().connect();
  Proxy proxy(std::move(mine[1]), std::move(its[1]));
  a_ = *GetParam().make(mine[0].release(), {});
  b_ = *GetParam().make(its[0].release(), {});
  auto here = some_bytes(8 * kMiB, 1);
  std::vector<std::byte> there(here.size());
  const auto exported = *b_->export_memory(there, RemoteAccess::read_write);
  std::atomic<bool> is_over{false};
  std::thread far([&] {
    while (!is_over)
      static_cast<void>(b_->receive_signal(Deadline::after(std::chrono::milliseconds(20))));
  });
  for (int flap = 0; flap < 5; ++flap) {
    here[0] = static_cast<std::byte>(flap);
    const auto ticket = a_->put(Transfer::of(here, exported.remote()));
    ASSERT_TRUE(ticket);
    proxy.stop(true);
    EXPECT_EQ(a_->wait(*ticket, Deadline::after(std::chrono::milliseconds(50))).error().code,
              Code::timed_out);
    proxy.stop(false);
    ASSERT_TRUE(a_->wait(*ticket, patience()));
    ASSERT_TRUE(are_equal(there, here));
  }
  is_over = true;
  far.join();
}

TEST_P(LinkEnds, AForksCopyDoesTheParentsLinkNoHarm) {
  std::vector<std::byte> here(100, std::byte{1}), there(100);
  auto exported = std::make_unique<Export>(*b_->export_memory(there, RemoteAccess::read_write));
  const RemoteRegion remote = exported->remote();
  EXPECT_EQ(in_child([&] {
              a_->poll();
              if (a_->put(Transfer::of(here, remote))) return 1;
              exported.reset();
              a_->close();
              b_->close();
              return 0;
            }),
            0);
  EXPECT_TRUE(put(Transfer::of(here, remote)));
  EXPECT_TRUE(are_equal(here, there));
}

TEST_P(LinkEnds, AnExportMayOutliveItsLink) {
  std::vector<std::byte> there(100);
  auto exported = *b_->export_memory(there, RemoteAccess::read_write);
  b_.reset();
  exported.withdraw();
  EXPECT_FALSE(exported);
}

TEST(LinkSockets, WhatIsNoConnectionIsRefused) {
  for (const auto& [domain, type] :
       {std::pair{AF_INET, SOCK_STREAM}, std::pair{AF_INET, SOCK_DGRAM},
        std::pair{AF_UNIX, SOCK_STREAM}}) {
    EXPECT_EQ(make_stream_link(::socket(domain, type, 0)).error().code, Code::invalid_argument);
    EXPECT_EQ(make_shared_inline(::socket(domain, type, 0), {}).error().code,
              Code::invalid_argument);
  }
  EXPECT_EQ(make_stream_link(-1).error().code, Code::invalid_argument);
  SocketPair tcp = tcp_pair();
  EXPECT_EQ(make_shared_inline(tcp[0].release(), {}).error().code, Code::invalid_argument);
  SocketPair local = unix_pair();
  EXPECT_EQ(make_shared_link(local[0].release(), nullptr).error().code, Code::invalid_argument);
}

INSTANTIATE_TEST_SUITE_P(Links, LinkEnds, testing::ValuesIn(kLinks), name_of);

}  // namespace
}  // namespace gantry
