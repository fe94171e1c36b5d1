#include <gmock/gmock.h>

#include <gantry/runtime.hpp>
#include <optional>
#include <thread>

#include "core/channel/test_child.hpp"
#include "core/channel/test_support.hpp"
#include "core/memory/fake_registrar_test.hpp"

// Registrations of received memory when one of both ends is killed.
namespace gantry {
namespace {

using test::Child;
using test::consumer_options;
using test::make_producer;
using test::options_in;
using test::pattern;
using test::same;
using test::soon;

class RegisteredAcross : public testing::Test {
 protected:
  test::ScratchDirectory directory_;
  ProducerOptions options_ = options_in(directory_);
  std::shared_ptr<FakeRegistrar> registrar_ = FakeRegistrar::create();
};

TEST_F(RegisteredAcross, ADeadProducersMessagesKeepTheirKeys) {
  Child dying([this](const Child& self) {
    auto out = *make_producer("frames", options_);
    for (std::uint64_t i = 0; i < 3; ++i)
      if (!out.send(pattern(700'000, i), soon())) ::_exit(1);
    self.report();
    Child::hold();
  });
  ConsumerOptions reading = consumer_options(options_);
  reading.registrars = {registrar_};
  std::optional<Consumer> in(*Consumer::open("frames", reading, soon()));
  dying.await_report();
  std::vector<Message> held;
  held.push_back(*in->receive(soon()));
  dying.end(SIGKILL);
  held.push_back(*in->receive(soon()));
  held.push_back(*in->receive(soon()));
  EXPECT_EQ(in->receive(soon()).error().code, Code::peer_gone);
  in.reset();
  EXPECT_EQ(registrar_->live(), 3u);
  for (std::uint64_t i = 0; i < 3; ++i) {
    const auto key = held[i].key_for(*registrar_);
    ASSERT_TRUE(key && *key) << i;
    EXPECT_TRUE(same(*registrar_->look(**key, 700'000), pattern(700'000, i))) << i;
  }
  held.clear();
  EXPECT_EQ(registrar_->live(), 0u);
  EXPECT_EQ(registrar_->wrong(), 0u);
}

// What it registered went with it; nothing of the slab is held but by those who are left.
TEST_F(RegisteredAcross, ADeadConsumersLocksGoWithIt) {
  const auto payload = pattern(700'000, 1);
  Child dying([&, this](const Child& self) {
    ConsumerOptions reading = consumer_options(options_);
    const auto locks = *make_page_lock_registrar();
    reading.registrars = {locks};
    auto in = *Consumer::open("frames", reading, soon());
    const auto message = *in.receive(soon());
    const auto key = message.key_for(*locks);
    if (!same(message.bytes(), payload)) ::_exit(1);
    if (!key && key.error().code != Code::out_of_memory) ::_exit(2);  // RLIMIT_MEMLOCK
    self.report();
    Child::hold();
  });
  auto out = *make_producer("frames", options_);
  ASSERT_TRUE(out.send(payload, soon()));
  dying.await_report();
  dying.end(SIGKILL);
  while (!out.explain().status.consumers.empty()) std::this_thread::yield();
  while (out.pool().report().live_bytes != 0) static_cast<void>(out.explain());
  ASSERT_NE(out.pool().trim(), 0u);
  auto next = *Consumer::open("frames", consumer_options(options_), soon());
  ASSERT_TRUE(out.send(payload, soon()));
  const auto message = next.receive(soon());
  ASSERT_TRUE(message && same(message->bytes(), payload));
  EXPECT_EQ(out.pool().report().lingering_bytes, 0u);
}

}  // namespace
}  // namespace gantry
