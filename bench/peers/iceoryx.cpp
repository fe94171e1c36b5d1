// iceoryx 2.0.3, its RouDi started by the harness with pools that fit. `copy`: a chunk is loaned,
// filled and published; `loan`: it was filled before. Read in place by every subscriber. All poll.

#include <cstring>
#include <iceoryx_hoofs/log/logmanager.hpp>
#include <iceoryx_posh/popo/untyped_publisher.hpp>
#include <iceoryx_posh/popo/untyped_subscriber.hpp>
#include <iceoryx_posh/runtime/posh_runtime.hpp>
#include <iceoryx_versions.hpp>

#include "peer.hpp"

namespace gantry::bench {
namespace {

constexpr std::uint32_t kAlignment = 64;

/// Names with what tells subjects of one RouDi apart.
iox::capro::IdString_t name_of(const std::string& text) {
  return {iox::cxx::TruncateToCapacity, text.c_str(), text.size()};
}

iox::capro::ServiceDescription requests_of(const Assignment& told) {
  return {name_of("gantry-bench"), name_of(told.variant), name_of("requests")};
}

iox::capro::ServiceDescription replies_of(const Assignment& told, int reader) {
  return {name_of("gantry-bench"), name_of(told.variant),
          name_of("replies" + std::to_string(reader))};
}

void begin(const Assignment& told) {
  iox::log::LogManager::GetLogManager().SetDefaultLogLevel(iox::log::LogLevel::kOff);
  const std::string name = roudi_client(told.what, told.variant, told.post.reader);
  iox::runtime::PoshRuntime::initRuntime(
      iox::RuntimeName_t(iox::cxx::TruncateToCapacity, name.c_str(), name.size()));
}

class Publisher {
 public:
  explicit Publisher(const iox::capro::ServiceDescription& service)
      : publisher_(service, options()) {}

  /// A chunk to be filled.
  Result<void*> loan(Bytes size) {
    void* place = nullptr;
    iox::popo::AllocationError failed{};
    publisher_.loan(static_cast<std::uint32_t>(size), kAlignment)
        .and_then([&](void* chunk) { place = chunk; })
        .or_else([&](iox::popo::AllocationError error) { failed = error; });
    if (place != nullptr) return place;
    return Unexpected(peer_error("loan", iox::popo::asStringLiteral(failed)));
  }
  void publish(void* chunk) { publisher_.publish(chunk); }

 private:
  static iox::popo::PublisherOptions options() {
    iox::popo::PublisherOptions options;
    options.subscriberTooSlowPolicy = iox::popo::ConsumerTooSlowPolicy::WAIT_FOR_CONSUMER;
    return options;
  }
  iox::popo::UntypedPublisher publisher_;
};

class Subscriber {
 public:
  explicit Subscriber(const iox::capro::ServiceDescription& service)
      : subscriber_(service, options()) {}

  void await_publisher() {
    while (subscriber_.getSubscriptionState() != iox::SubscribeState::SUBSCRIBED) {
    }
  }

  /// The sum of the first `size` bytes of the next chunk.
  std::uint64_t receive(Bytes size, const Poll& poll) {
    std::uint64_t sum = 0;
    for (bool come = false; !come; poll.again()) {
      subscriber_.take().and_then([&](const void* chunk) {
        sum = checksum({static_cast<const std::byte*>(chunk), size});
        subscriber_.release(chunk);
        come = true;
      });
    }
    return sum;
  }

 private:
  static iox::popo::SubscriberOptions options() {
    iox::popo::SubscriberOptions options;
    options.queueCapacity = 8;
    options.queueFullPolicy = iox::popo::QueueFullPolicy::BLOCK_PRODUCER;
    return options;
  }
  iox::popo::UntypedSubscriber subscriber_;
};

class IceoryxRequester final : public Requester {
 public:
  explicit IceoryxRequester(const Assignment& told)
      : what_(told.what),
        is_filled_before_(told.variant == "loan"),
        helper_(told.helper),
        requests_(requests_of(told)) {
    for (unsigned reader = 0; reader < what_.readers; ++reader)
      replies_.push_back(std::make_unique<Subscriber>(replies_of(told, static_cast<int>(reader))));
  }

  void await_readers() {
    for (const auto& replies : replies_) replies->await_publisher();
  }

  Result<void> prepare(const Payload& payload) override {
    return is_filled_before_ ? fill(payload) : Result<void>{};
  }
  Result<void> send(const Payload& payload) override {
    if (!is_filled_before_)
      if (auto filled = fill(payload); !filled) return filled;
    requests_.publish(chunk_);
    return {};
  }
  Result<std::uint64_t> receive() override {
    Subscriber& from = *replies_[reader_];
    reader_ = (reader_ + 1) % replies_.size();
    return from.receive(sizeof(std::uint64_t), Poll(what_));
  }
  [[nodiscard]] std::vector<int> helpers() const override { return {helper_}; }

 private:
  Result<void> fill(const Payload& payload) {
    const auto chunk = requests_.loan(what_.bytes);
    if (!chunk) return Unexpected(chunk.error());
    chunk_ = *chunk;
    auto* to = static_cast<std::byte*>(chunk_);
    for (const ConstByteSpan part : parts_of(what_, payload.bytes())) {
      std::memcpy(to, part.data(), part.size());
      to += part.size();
    }
    return {};
  }

  Case what_;
  bool is_filled_before_;
  int helper_;
  Publisher requests_;
  std::vector<std::unique_ptr<Subscriber>> replies_;
  void* chunk_ = nullptr;
  std::size_t reader_ = 0;  // whose answer is next
};

class IceoryxResponder final : public Responder {
 public:
  explicit IceoryxResponder(const Assignment& told)
      : what_(told.what),
        requests_(requests_of(told)),
        replies_(replies_of(told, told.post.reader)) {}

  void await_requester() { requests_.await_publisher(); }

  Result<std::uint64_t> receive() override { return requests_.receive(what_.bytes, Poll(what_)); }
  Result<void> reply(std::uint64_t sum) override {
    const auto chunk = replies_.loan(sizeof sum);
    if (!chunk) return Unexpected(chunk.error());
    std::memcpy(*chunk, &sum, sizeof sum);
    replies_.publish(*chunk);
    return {};
  }

 private:
  Case what_;
  Subscriber requests_;
  Publisher replies_;
};

/// Every end has found its partners before any is used.
Result<std::unique_ptr<Requester>> open_requester(const Assignment& told) {
  begin(told);
  auto end = std::make_unique<IceoryxRequester>(told);
  for (const int socket : told.sockets)
    if (auto said = signal_over(socket); !said) return Unexpected(said.error());
  for (const int socket : told.sockets)
    if (auto heard = await_over(socket); !heard) return Unexpected(heard.error());
  end->await_readers();
  return end;
}

Result<std::unique_ptr<Responder>> open_responder(const Assignment& told) {
  begin(told);
  auto end = std::make_unique<IceoryxResponder>(told);
  if (auto heard = await_over(told.sockets.front()); !heard) return Unexpected(heard.error());
  end->await_requester();
  if (auto said = signal_over(told.sockets.front()); !said) return Unexpected(said.error());
  return end;
}

Result<std::string> version() {
  return version_text("iceoryx " ICEORYX_LATEST_RELEASE_VERSION, nullptr);
}

}  // namespace
}  // namespace gantry::bench

int main(int argc, char** argv) {
  using namespace gantry::bench;
  return run_peer(argc, argv, {open_requester, open_responder, version});
}
