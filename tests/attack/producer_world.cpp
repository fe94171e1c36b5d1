// A producer, and a consumer that joined it.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
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

class ProducerWorld final : public World {
 public:
  explicit ProducerWorld(const ProducerOptions& options)
      : options_(options),
        producer_(*test::make_producer("frames", options)),
        consumer_(*Consumer::open("frames", test::consumer_options(options), soon())) {}

  std::string exchange(unsigned count) override {
    std::string wrong;
    std::thread reading([&] { wrong = read(count); });
    for (unsigned i = 0; i < count; ++i) {
      const auto sent = producer_->send(pattern(size_of(sent_), sent_), soon());
      ++sent_;
      if (!sent) {
        producer_.reset();
        reading.join();
        return sent.error().message;
      }
    }
    reading.join();
    return wrong;
  }
  Result<void> join(Deadline deadline) override {
    const auto joined = Consumer::open("frames", test::consumer_options(options_), deadline);
    if (!joined) return tl::unexpected(joined.error());
    return {};
  }
  std::uint64_t pump(std::chrono::nanoseconds time) override {
    std::atomic<std::uint64_t> sent{std::numeric_limits<std::uint64_t>::max()};
    std::thread reading([&] {
      for (std::uint64_t read = 0; read < sent.load(std::memory_order_acquire);)
        if (consumer_->receive(Deadline::after(kLook))) ++read;
    });
    std::uint64_t number = 0;
    sent = repeat_for(time, [&] { return !!producer_->send(payload_of(number++), soon()); });
    reading.join();
    return sent;
  }
  std::vector<TimedCall> timed_calls() override {
    std::vector<TimedCall> all;
    add_calls_of_consumer(all);
    add_calls_of_producer(all);
    return all;
  }
  bool has_peer(int pid) override {
    const auto status = producer_->explain(8).status;
    return std::any_of(status.consumers.begin(), status.consumers.end(),
                       [pid](const auto& one) { return one.pid == pid && !one.is_cut; });
  }
  void end() override { producer_.reset(); }

 private:
  // Nobody sends.
  void add_calls_of_consumer(std::vector<TimedCall>& all) {
    all.push_back(
        {"Consumer::receive", [&](Deadline by) { std::ignore = consumer_->receive(by); }});
    all.push_back({"Consumer::receive_early",
                   [&](Deadline by) { std::ignore = consumer_->receive_early(by); }});
    all.push_back({"Consumer::receive_into", [&](Deadline by) {
                     std::vector<std::byte> bytes(8);
                     std::ignore = consumer_->receive_into(bytes, by);
                   }});
    all.push_back({"Consumer::receive_any", [&](Deadline by) {
                     std::ignore = Consumer::receive_any(std::span(&*consumer_, 1), by);
                   }});
    all.push_back({"Consumer::open", [&](Deadline by) { std::ignore = join(by); }});
  }
  // Nobody gives a credit back.
  void add_calls_of_producer(std::vector<TimedCall>& all) {
    const auto full = [&] {
      while (producer_->send(pattern(100, 1), Deadline::now())) continue;
    };
    for (const auto& [name, size] : kSendings)
      all.push_back(
          {name,
           [&, bytes = size](Deadline by) { std::ignore = producer_->send(pattern(bytes, 1), by); },
           full});
    all.push_back(
        {"Producer::loan", [&](Deadline by) { std::ignore = producer_->loan(100, by); }, full});
    all.push_back({"Producer::send_async and wait",
                   [&](Deadline by) {
                     const auto bytes = pattern(100, 1);
                     const auto ticket = producer_->send_async(bytes, {.deadline = by});
                     if (ticket) std::ignore = producer_->wait(*ticket, by);
                     std::ignore = producer_->send(bytes, by);  // `bytes` is ours again
                   },
                   full});
    all.push_back({"Producer::wait_for_consumer", [&](Deadline by) {
                     std::ignore = producer_->wait_for_consumer(by, options_.consumers);
                   }});
    all.push_back(
        {"Producer::close", [&](Deadline by) { std::ignore = producer_->close(by); }, full, true});
  }
  std::string read(unsigned count) {
    for (unsigned i = 0; i < count; ++i, ++read_) {
      const auto message = consumer_->receive(soon());
      if (!message) return message.error().message;
      if (!same(message->bytes(), pattern(size_of(read_), read_)))
        return fmt::format("message {} has other bytes", read_);
    }
    return {};
  }
  ProducerOptions options_;
  std::optional<Producer> producer_;
  std::optional<Consumer> consumer_;
  std::uint64_t sent_ = 0, read_ = 0;
};

}  // namespace

std::unique_ptr<World> make_producer_world(const ProducerOptions& options) {
  return std::make_unique<ProducerWorld>(options);
}

}  // namespace gantry::attack
