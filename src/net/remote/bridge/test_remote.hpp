#pragma once  // remote/bridge/test_remote.hpp: a bridge in this process, and a network that can be
              // cut.

#include <poll.h>
#include <sys/socket.h>

#include <gantry/bridge.hpp>
#include <list>
#include <mutex>
#include <thread>

#include "core/base/event.hpp"
#include "core/channel/test_support.hpp"
#include "net/remote/bridge/remote_ends.hpp"
#include "net/remote/tcp.hpp"
#include "net/remote/token.hpp"

namespace gantry::test {

inline constexpr const char* kToken = "a token of 24 characters";
inline constexpr Bytes kMiB = Bytes{1} << 20;

/// Passes bytes on between callers and one address, until it is cut.
class CutNetwork {
 public:
  explicit CutNetwork(const std::string& to)
      : to_(parse_host(to).value()),
        listener_(listen_tcp(parse_host("127.0.0.1:0").value()).value()),
        wake_(make_event().value()),
        thread_([this] { run(); }) {}
  ~CutNetwork() {
    is_over_ = true;
    ring(wake_.get());
    thread_.join();
  }
  CutNetwork(const CutNetwork&) = delete;
  CutNetwork& operator=(const CutNetwork&) = delete;

  [[nodiscard]] std::string address() const { return own_address(listener_.get()); }
  /// Ends all connections behind the next `bytes` that come from the far end.
  void cut_after(std::int64_t bytes) {
    left_ = bytes;
    ring(wake_.get());
  }
  /// The same, again and again.
  void cut_every(std::int64_t bytes) {
    every_ = bytes;
    cut_after(bytes);
  }
  /// Ends the far half of all connections: their callers hear nothing of it.
  void cut_far_half() {
    cuts_far_half_ = true;
    ring(wake_.get());
  }
  /// Ends the near half of all connections: only their callers hear of it.
  void cut_near_half() {
    cuts_near_half_ = true;
    ring(wake_.get());
  }
  /// Passes nothing on any more, and ends nothing: as if the far host had vanished.
  void freeze() {
    is_over_ = true;
    ring(wake_.get());
  }
  [[nodiscard]] int cuts() const { return cuts_; }
  /// One bit of the byte behind the next `bytes` that come from the far end arrives changed.
  void change_after(std::int64_t bytes) { until_changed_ = bytes; }
  /// What has come from the far end so far.
  [[nodiscard]] std::vector<std::byte> seen() const {
    const std::lock_guard lock(seen_mutex_);
    return seen_;
  }
  void see() { sees_ = true; }
  [[nodiscard]] int changes() const { return changes_; }
  /// New connections are closed at once.
  void refuse(bool refuses) { refuses_ = refuses; }
  /// Bytes that came from the far end.
  [[nodiscard]] std::uint64_t passed() const { return passed_; }

 private:
  struct Pair {
    Fd near;
    Fd far;
  };

  void run() {
    while (!is_over_) {
      std::vector<pollfd> entries{{listener_.get(), POLLIN, 0}, {wake_.get(), POLLIN, 0}};
      for (const Pair& pair : pairs_) {
        entries.push_back({pair.near.get(), POLLIN, 0});
        entries.push_back({pair.far.get(), POLLIN, 0});
      }
      ::poll(entries.data(), entries.size(), -1);
      drain(wake_.get());
      take_new();
      for (auto pair = pairs_.begin(); pair != pairs_.end();) {
        const bool lives = pass(pair->near.get(), pair->far.get(), false) &&
                           pass(pair->far.get(), pair->near.get(), true);
        pair = lives ? std::next(pair) : pairs_.erase(pair);
      }
      if (left_ == 0) cut();
      if (cuts_far_half_.exchange(false)) cut_half(&Pair::far, &Pair::near);
      if (cuts_near_half_.exchange(false)) cut_half(&Pair::near, &Pair::far);
    }
  }

  void take_new() {
    Fd near(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!near || refuses_) return;
    set_up_tcp(near.get());
    auto far = connect_tcp(to_, -1, soon());
    if (far) pairs_.push_back({std::move(near), *std::move(far)});
  }

  bool pass(int from, int to, bool counts) {
    std::array<std::byte, 16384> buffer{};
    const std::int64_t left = left_;
    const std::size_t most = counts && left >= 0
                                 ? std::min(buffer.size(), static_cast<std::size_t>(left))
                                 : buffer.size();
    const auto got = ::recv(from, buffer.data(), most, MSG_DONTWAIT);
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    if (got == 0) return most == 0;
    if (counts && left >= 0) left_ = left - got;
    if (counts) look_at(std::span(buffer).first(static_cast<std::size_t>(got)));
    return send_exactly(to, std::span(buffer).first(static_cast<std::size_t>(got)), soon())
        .has_value();
  }

  void look_at(ByteSpan bytes) {
    passed_ += bytes.size();
    if (sees_) {
      const std::lock_guard lock(seen_mutex_);
      seen_.insert(seen_.end(), bytes.begin(), bytes.end());
    }
    const std::int64_t at = until_changed_;
    const auto size = static_cast<std::int64_t>(bytes.size());
    if (at >= 0 && at < size) {
      bytes[static_cast<std::size_t>(at)] ^= std::byte{0x10};
      ++changes_;
    }
    if (at >= 0) until_changed_ = std::max<std::int64_t>(at - size, -1);
  }

  void cut() {
    left_ = every_.load();
    if (pairs_.empty()) return;
    for (const Pair& pair : pairs_)  // of which a fork may have copies
      for (const Fd* const end : {&pair.near, &pair.far}) ::shutdown(end->get(), SHUT_RDWR);
    pairs_.clear();
    ++cuts_;
  }

  void cut_half(Fd Pair::* half, Fd Pair::* other) {
    for (Pair& pair : pairs_) {
      ::shutdown((pair.*half).get(), SHUT_RDWR);
      silent_.push_back(std::move(pair.*other));
    }
    pairs_.clear();
    ++cuts_;
  }

  const HostPort to_;
  const Fd listener_;
  const Fd wake_;
  std::list<Pair> pairs_;
  std::vector<Fd> silent_;  // halves without the other one
  std::atomic<bool> is_over_ = false;
  std::atomic<bool> refuses_ = false;
  std::atomic<std::int64_t> left_ = -1;
  std::atomic<std::int64_t> every_ = -1;
  std::atomic<bool> cuts_far_half_ = false;
  std::atomic<bool> cuts_near_half_ = false;
  std::atomic<int> cuts_ = 0;
  std::atomic<std::uint64_t> passed_ = 0;
  std::atomic<bool> sees_ = false;
  mutable std::mutex seen_mutex_;
  std::vector<std::byte> seen_;
  std::atomic<std::int64_t> until_changed_ = -1;
  std::atomic<int> changes_ = 0;
  std::thread thread_;  // last: it uses all of the above
};

/// A stream of so many messages, message i of `size(i)` bytes: each arrives once, whole, in order,
/// and then the end. `before(i)` is called before message i is received.
template <class Size, class Before>
void expect_stream(Producer& out, Consumer& in, std::uint64_t messages, Size size, Before before) {
  std::jthread sender([&] {
    for (std::uint64_t i = 0; i < messages; ++i)
      ASSERT_TRUE(out.send(pattern(size(i), i), {.deadline = soon()}));
    const auto closed = out.close(soon());
    EXPECT_TRUE(closed) << to_string(closed.error());
  });
  for (std::uint64_t i = 0; i < messages; ++i) {
    before(i);
    const auto message = in.receive(soon());
    ASSERT_TRUE(message) << i << ": " << to_string(message.error());
    ASSERT_TRUE(same(message->bytes(), pattern(size(i), i))) << i;
  }
  EXPECT_EQ(in.receive(soon()).error().code, Code::closed);
}
inline Bytes size_of_some(std::uint64_t i) {
  return i % 3 == 0 ? 50 : 20'011 * (i % 7);
}

/// Two channel directories, as if on two hosts: "there" with a bridge, and "here".
class TwoHosts : public ::testing::Test {
 protected:
  void SetUp() override {
    if (auto able = check_token(kToken); !able) GTEST_SKIP() << to_string(able.error());
    start_bridge("127.0.0.1:0");
  }
  void TearDown() override {
    stop_bridge();
    if (HasFailure()) ADD_FAILURE() << "the bridge said:\n" << said_;
  }

  void start_bridge(const std::string& listen) {
    interrupt_ = make_event().value();
    BridgeOptions options;
    options.listen = listen;
    options.token = kToken;
    options.directory = there_.path();
    options.interrupt_descriptor = interrupt_.get();
    options.patience = patience_;
    options.stall_limit = stall_limit_;
    options.on_event = [this](const std::string& line) {
      const std::lock_guard lock(mutex_);
      said_ += line + '\n';
    };
    bridge_.emplace(Bridge::open(options, std::make_shared<PlainEngine>()).value());
    serving_ = std::thread([this] { EXPECT_TRUE(bridge_->serve()); });
  }
  void stop_bridge() {
    if (!serving_.joinable()) return;
    ring(interrupt_.get());
    serving_.join();
    bridge_.reset();
  }

  [[nodiscard]] bool has_said(std::string_view what) {
    const std::lock_guard lock(mutex_);
    return said_.find(what) != std::string::npos;
  }

  [[nodiscard]] RemoteName name(const std::string& channel, const std::string& host = {}) const {
    return parse_remote_name(channel + "@" + (host.empty() ? bridge_->address() : host))
        .value()
        .value();
  }
  [[nodiscard]] ProducerOptions there() const { return options_in(there_); }
  [[nodiscard]] ProducerOptions here() const {
    ProducerOptions options = options_in(here_);
    options.remote.token = kToken;
    options.remote.patience = patience_;
    options.remote.stall_limit = stall_limit_;
    return options;
  }
  [[nodiscard]] Result<Consumer> consume(const RemoteName& from, Deadline deadline = soon()) const {
    return open_remote_consumer(from.text(), consumer_options(here()),
                                std::make_shared<PlainEngine>(), deadline);
  }

  const ScratchDirectory there_;
  const ScratchDirectory here_;
  std::chrono::milliseconds patience_{20'000};
  std::chrono::milliseconds stall_limit_{60'000};
  std::mutex mutex_;
  std::string said_;  // under the lock
  Fd interrupt_;
  std::optional<Bridge> bridge_;
  std::thread serving_;
};

}  // namespace gantry::test
