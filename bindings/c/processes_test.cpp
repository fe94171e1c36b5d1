// c/processes_test.cpp: two processes, one of which is killed; fork; and waits that a signal ends.

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/eventfd.h>

#include <array>
#include <atomic>
#include <thread>

#include "test_ends.hpp"

namespace gantry::c::test {
namespace {

// Children are forked before this process has a runtime, and so threads.
using Processes = Ends;

constexpr std::size_t kMessages = 200;
constexpr std::size_t size_of_message(std::size_t number) {
  return (number * 7919) % 300'000;
}

TEST_F(Processes, EveryByteArrivesInAnotherProcess) {
  Process sending([&](const Process&) {
    const auto out = producer();
    for (std::size_t number = 0; number < kMessages; ++number)
      send(out, bytes_of(number, size_of_message(number)));
    EXPECT_OK(gantry_producer_close(out.get(), kPatienceNs));
  });
  const auto in = consumer();
  for (std::size_t number = 0; number < kMessages; ++number)
    expect_bytes(receive(in).get(), size_of_message(number), number);
  Owned<gantry_message> message;
  EXPECT_EQ(gantry_receive(in.get(), kPatienceNs, Out(message)), GANTRY_CLOSED);
  EXPECT_EQ(sending.wait(), 0);
}

TEST_F(Processes, AMessageAndItsViewOutliveTheirKilledSender) {
  Process sending([&](const Process& self) {
    const auto out = producer();
    send(out, bytes_of(1, 1 << 20));
    send(out, bytes_of(2, 100));
    self.report();
    Process::hold();
  });
  const auto in = consumer();
  sending.await_report();
  const auto message = receive(in);
  EXPECT_EQ(sending.end(SIGKILL), SIGKILL);
  expect_bytes(message.get(), 1 << 20, 1);
  Owned<gantry_view> view;
  void* data = nullptr;
  ASSERT_OK(gantry_message_view(message.get(), 0, Out(view), &data));
  EXPECT_TRUE(are_of(data, 1 << 20, 1));
  static_cast<char*>(data)[1000] ^= 1;
  expect_bytes(receive(in).get(), 100, 2);  // what was published before is still there
  Owned<gantry_message> next;
  EXPECT_REFUSED(gantry_receive(in.get(), kPatienceNs, Out(next)), GANTRY_PEER_GONE, "'c'", "");
  expect_bytes(message.get(), 1 << 20, 1);
}

TEST_F(Processes, AKilledServerEndsTheCall) {
  Process serving([&](const Process& self) {
    Owned<gantry_consumer> server;
    EXPECT_OK(gantry_server_open(runtime(), "serve", nullptr, Out(server)));
    const auto request = receive(server);
    self.report();
    Process::hold();
  });
  Owned<gantry_producer> client;
  ASSERT_OK(gantry_client_connect(runtime(), "serve", nullptr, kPatienceNs, Out(client)));
  Owned<gantry_call> call;
  ASSERT_OK(gantry_call_begin(client.get(), nullptr, 0, kPatienceNs, nullptr, Out(call)));
  serving.await_report();
  EXPECT_EQ(serving.end(SIGKILL), SIGKILL);
  Owned<gantry_message> reply;
  int is_over = 0;
  EXPECT_REFUSED(gantry_call_wait(call.get(), kForEver, Out(reply), &is_over), GANTRY_PEER_GONE,
                 "'serve'", "");
  EXPECT_EQ(is_over, 1);
}

TEST_F(Processes, AForkedChildCannotUseTheHandlesAndMayFreeThem) {
  if (::dlsym(RTLD_DEFAULT, "__asan_init") != nullptr)
    GTEST_SKIP() << "AddressSanitizer's allocator may be locked in a child of a threaded process";
  auto out = producer();
  auto in = consumer();
  send(out, bytes_of(1, 1 << 20));
  auto message = receive(in);
  Owned<gantry_pool> pool;
  ASSERT_OK(gantry_producer_pool(out.get(), Out(pool)));
  Process child([&](const Process&) {
    const auto bytes = bytes_of(2, 100);
    const gantry_part part = part_of(bytes);
    EXPECT_REFUSED(gantry_send(out.get(), &part, 1, 0, nullptr), GANTRY_INVALID_ARGUMENT, "fork",
                   "");
    Owned<gantry_message> none;
    EXPECT_REFUSED(gantry_receive(in.get(), 0, Out(none)), GANTRY_INVALID_ARGUMENT, "fork", "");
    Owned<gantry_block> block;
    void* data = nullptr;
    EXPECT_REFUSED(gantry_pool_allocate(pool.get(), 100, Out(block), &data),
                   GANTRY_INVALID_ARGUMENT, "fork", "");
    Owned<gantry_view> view;  // may be had: it is a copy
    EXPECT_OK(gantry_message_view(message.get(), 0, Out(view), &data));
    EXPECT_TRUE(are_of(data, 1 << 20, 1));
    view.reset();
    message.reset();
    pool.reset();
    in.reset();
    out.reset();
    runtime_.reset();
  });
  EXPECT_EQ(child.wait(), 0);
  send(out, bytes_of(3, 100));  // nothing of ours is gone
  expect_bytes(receive(in).get(), 100, 3);
  expect_bytes(message.get(), 1 << 20, 1);
}

// The place is the parent's to give back.
TEST_F(Processes, AForkedChildReadsWhatItsParentLooksAt) {
  if (::dlsym(RTLD_DEFAULT, "__asan_init") != nullptr)
    GTEST_SKIP() << "AddressSanitizer's allocator may be locked in a child of a threaded process";
  gantry_producer_options options{};
  options.size = sizeof options;
  options.consumers = 2;
  const auto out = producer(&options);
  auto in = consumer();
  send(out, bytes_of(1, 1000));
  Owned<gantry_message> looked;
  ASSERT_OK(gantry_look(in.get(), kPatienceNs, Out(looked)));
  Process child([&](const Process&) {
    Owned<gantry_message> none;
    EXPECT_REFUSED(gantry_look(in.get(), 0, Out(none)), GANTRY_INVALID_ARGUMENT, "fork", "");
    expect_bytes(looked.get(), 1000, 1);
    in.reset();
    looked.reset();
  });
  EXPECT_EQ(child.wait(), 0);
  in.reset();
  const auto other = consumer();
  for (std::size_t number = 2; number < 150; ++number) {  // each other place is written again
    send(out, bytes_of(number, 3000));
    expect_bytes(receive(other).get(), 3000, number);
  }
  expect_bytes(looked.get(), 1000, 1);
}

// ---- interrupts ----------------------------------------------------------------------------

int woken_by_signal = -1;
void on_signal(int) {
  const std::uint64_t one = 1;
  static_cast<void>(!::write(woken_by_signal, &one, sizeof one));
}

/// A handler for SIGUSR1 that writes to the runtime's interrupt descriptor, as a language's wake-up
/// descriptor does; and a thread that sends the signal once a wait has begun, or soon will.
class Interrupts : public Ends {
 protected:
  Interrupts() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    woken_by_signal = event_;
    struct sigaction action{};
    action.sa_handler = on_signal;
    ::sigaction(SIGUSR1, &action, &before_);
    static_cast<void>(runtime(event_));
  }
  ~Interrupts() override {
    ::sigaction(SIGUSR1, &before_, nullptr);
    runtime_.reset();
    ::close(event_);
  }
  /// The wait returns because of the signal, whether that comes before it or within.
  template <class Wait>
  void expect_interrupted(const char* what, Wait wait) {
    const pthread_t waiting = ::pthread_self();
    std::thread signalling([&] { ::pthread_kill(waiting, SIGUSR1); });
    EXPECT_EQ(std::string(gantry_code_name(wait())), "interrupted") << what;
    signalling.join();
    std::uint64_t count = 0;
    EXPECT_EQ(::read(event_, &count, sizeof count), static_cast<ssize_t>(sizeof count)) << what;
  }

  int event_;
  struct sigaction before_{};
};

TEST_F(Interrupts, EndEveryWait) {
  Owned<gantry_producer> none;
  Owned<gantry_consumer> nobody;
  Owned<gantry_message> message;
  expect_interrupted("gantry_consumer_open", [&] {
    return gantry_consumer_open(runtime(), "nobody", nullptr, kPatienceNs, Out(nobody));
  });
  expect_interrupted("gantry_producer_connect", [&] {
    return gantry_producer_connect(runtime(), "nobody", nullptr, kPatienceNs, Out(none));
  });
  expect_interrupted("gantry_client_connect", [&] {
    return gantry_client_connect(runtime(), "nobody", nullptr, kPatienceNs, Out(none));
  });
  gantry_producer_options options{};
  options.size = sizeof options;
  options.slots = 1;
  const auto out = producer(&options);
  expect_interrupted("gantry_producer_wait_for_consumers",
                     [&] { return gantry_producer_wait_for_consumers(out.get(), 1, kPatienceNs); });
  const auto in = consumer();
  expect_interrupted("gantry_receive",
                     [&] { return gantry_receive(in.get(), kForEver, Out(message)); });
  std::size_t received = 0;
  std::array<char, 8> buffer{};
  expect_interrupted("gantry_receive_into", [&] {
    return gantry_receive_into(in.get(), buffer.data(), buffer.size(), kPatienceNs, &received,
                               nullptr);
  });
  const auto bytes = bytes_of(1, 100'000);
  const gantry_part part = part_of(bytes);
  send(out, bytes);  // uses the only credit
  expect_interrupted("gantry_send",
                     [&] { return gantry_send(out.get(), &part, 1, kPatienceNs, nullptr); });
  Owned<gantry_loan> loan;
  void* data = nullptr;
  expect_interrupted("gantry_loan_take", [&] {
    return gantry_loan_take(out.get(), 100'000, kPatienceNs, Out(loan), &data);
  });
  std::uint64_t ticket = 0;
  ASSERT_OK(gantry_send_async(out.get(), &part, 1, kPatienceNs, nullptr, &ticket));
  expect_interrupted("gantry_ticket_wait",
                     [&] { return gantry_ticket_wait(out.get(), ticket, kPatienceNs); });
  expect_interrupted("gantry_producer_close",
                     [&] { return gantry_producer_close(out.get(), kPatienceNs); });
}

TEST_F(Interrupts, EndTheWaitsOfCallsAndInboxes) {
  Owned<gantry_message> message;
  Owned<gantry_consumer> inbox;
  ASSERT_OK(gantry_inbox_open(runtime(), "in", nullptr, Out(inbox)));
  expect_interrupted("gantry_receive of an inbox",
                     [&] { return gantry_receive(inbox.get(), kPatienceNs, Out(message)); });
  Owned<gantry_consumer> server;
  ASSERT_OK(gantry_server_open(runtime(), "serve", nullptr, Out(server)));
  expect_interrupted("gantry_receive of a server",
                     [&] { return gantry_receive(server.get(), kPatienceNs, Out(message)); });
  Owned<gantry_producer> client;
  ASSERT_OK(gantry_client_connect(runtime(), "serve", nullptr, kPatienceNs, Out(client)));
  Owned<gantry_call> call;
  ASSERT_OK(gantry_call_begin(client.get(), nullptr, 0, kPatienceNs, nullptr, Out(call)));
  int is_over = -1;
  expect_interrupted("gantry_call_wait", [&] {
    return gantry_call_wait(call.get(), kPatienceNs, Out(message), &is_over);
  });
  EXPECT_EQ(is_over, 0);
  const auto request = receive(server);  // the call goes on
  ASSERT_OK(gantry_reply(request.get(), nullptr, 0, kPatienceNs, nullptr));
  EXPECT_OK(gantry_call_wait(call.get(), kPatienceNs, Out(message), nullptr));
}

TEST_F(Interrupts, AnEndMayHaveNone) {
  gantry_consumer_options options{};
  options.size = sizeof options;
  options.interrupt_descriptor = -1;
  const auto out = producer();
  const auto in = consumer(&options);
  on_signal(SIGUSR1);
  Owned<gantry_message> message;
  EXPECT_EQ(gantry_receive(in.get(), 1'000'000, Out(message)), GANTRY_TIMED_OUT);
}

}  // namespace
}  // namespace gantry::c::test
