// An inbox, and a sender that came to it.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <gantry/call.hpp>
#include <limits>
#include <thread>
#include <tuple>

#include "attack/honest.hpp"
#include "attack/worlds.hpp"

namespace gantry::attack {
namespace {

using test::pattern;
using test::same;
using test::soon;

class InboxWorld final : public World {
 public:
  explicit InboxWorld(const ProducerOptions& options) : options_(options) {
    inbox_.emplace(*Inbox::open("frames", {.channel = test::consumer_options(options)}));
    sender_.emplace(*Producer::connect("frames", options, engine(), soon()));
  }

  std::string exchange(unsigned count) override {
    std::string wrong;
    std::thread sending([&] {
      SendOptions options{.deadline = soon(), .type = kHonest};
      for (unsigned i = 0; i < count && wrong.empty(); ++i, ++sent_)
        if (const auto sent = sender_->send(pattern(size_of(sent_), sent_), options); !sent)
          wrong = sent.error().message;
    });
    std::string read = receive(count);
    sending.join();
    return wrong.empty() ? read : wrong;
  }
  Result<void> join(Deadline deadline) override {
    auto sender = Producer::connect("frames", options_, engine(), deadline);
    if (!sender) return tl::unexpected(sender.error());
    return {};
  }
  std::uint64_t pump(std::chrono::nanoseconds time) override {
    std::atomic<std::uint64_t> sent{std::numeric_limits<std::uint64_t>::max()};
    std::thread sending([&] {
      const SendOptions options{.deadline = soon(), .type = kHonest};
      std::uint64_t number = 0;
      sent = repeat_for(time, [&] { return !!sender_->send(payload_of(number++), options); });
    });
    for (std::uint64_t read = 0; read < sent.load(std::memory_order_acquire);) {
      const auto delivery = inbox_->receive(Deadline::after(kLook));
      if (delivery && delivery->message.info().type == kHonest) ++read;
    }
    sending.join();
    return sent;
  }
  std::vector<TimedCall> timed_calls() override {
    std::vector<TimedCall> all;
    all.push_back({"Inbox::receive", [&](Deadline by) { std::ignore = inbox_->receive(by); }});
    all.push_back({"Producer::connect", [&](Deadline by) { std::ignore = join(by); }});
    // Nobody receives.
    const auto full = [&] {
      while (sender_->send(pattern(100, 1), {.deadline = Deadline::now(), .type = kHonest}))
        continue;
    };
    for (const auto& [name, size] : kSendings)
      all.push_back(
          {name,
           [&, bytes = size](Deadline by) { std::ignore = sender_->send(pattern(bytes, 1), by); },
           full});
    all.push_back(
        {"Producer::loan", [&](Deadline by) { std::ignore = sender_->loan(100, by); }, full});
    all.push_back(
        {"Producer::close", [&](Deadline by) { std::ignore = sender_->close(by); }, full, true});
    return all;
  }
  bool has_peer(int pid) override {
    static_cast<void>(inbox_->receive(Deadline::after(std::chrono::milliseconds(1))));
    const auto senders = inbox_->senders();
    return std::any_of(senders.begin(), senders.end(),
                       [pid](const Sender& one) { return one.pid == pid; });
  }
  void end() override { inbox_.reset(); }

 private:
  std::string receive(unsigned count) {
    const Deadline end = soon();
    for (unsigned i = 0; i < count;) {
      const auto delivery = inbox_->receive(end);
      if (!delivery) return delivery.error().message;
      if (delivery->message.info().type != kHonest) continue;  // an attacker's
      if (!same(delivery->message.bytes(), pattern(size_of(read_), read_)))
        return fmt::format("message {} has other bytes", read_);
      ++i, ++read_;
    }
    return {};
  }
  ProducerOptions options_;
  std::optional<Inbox> inbox_;
  std::optional<Producer> sender_;
  std::uint64_t sent_ = 0, read_ = 0;
};

}  // namespace

std::unique_ptr<World> make_inbox_world(const ProducerOptions& options) {
  return std::make_unique<InboxWorld>(options);
}

}  // namespace gantry::attack
