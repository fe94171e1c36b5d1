#pragma once  // channel/inbox/producer_listener.hpp: an inbox's handshake with its producers.

#include <atomic>
#include <gantry/runtime.hpp>
#include <mutex>

#include "core/channel/consumer/consumer.hpp"
#include "core/channel/naming/peer_listener.hpp"
#include "core/channel/naming/rendezvous.hpp"

namespace gantry {

/// A producer that has joined, on its way from the listener to the receiving thread.
struct Newcomer {
  PeerIdentity identity;
  std::shared_ptr<Consumer::Impl> end;  // null: it never joins, since the control connection broke
  Error why{};                          // of that
};

/// The counterpart of ConsumerListener: it listens, but speaks as a consumer.
class ProducerListener final : public PeerListener {
 public:
  /// A control connection to one process, the only one that ever connects.
  struct ControlConnection {
    Fd receive_fd;      // its peer first sends the socket to speak through
    PeerIdentity whom;  // the kernel knows only who made that end
    Fd life;            // pidfd of that process; see peer_pidfd()
  };
  struct Rules {
    std::string name;
    ConsumerOptions options;  // options of the ends that are made
    unsigned producers = 0;
    std::shared_ptr<ReceiveQuota> quota;  // of all producers together
    const Metrics* counters = nullptr;    // shown to `gantry ls`
    IsProtocol is_protocol = nullptr;     // of a server: what no counter counts
    Purpose purpose = Purpose::deliver;   // that producers come for
  };
  ProducerListener(std::shared_ptr<Acceptor> acceptor, Rules rules, int listener);
  ProducerListener(std::shared_ptr<Acceptor> acceptor, Rules rules, ControlConnection control);
  ~ProducerListener() override { stop(); }

  [[nodiscard]] Result<void> start();

  // ---- any thread

  /// Readable when take() has somebody, or somebody rang.
  [[nodiscard]] int news() const noexcept { return news_.get(); }
  [[nodiscard]] std::vector<Newcomer> take();
  /// True if a caller may believe that it has joined, and take() has not had it. Readers of false
  /// find in take() all that joined before [U].
  [[nodiscard]] bool is_expecting() const noexcept {
    return under_way_.load(std::memory_order_acquire) != 0;
  }
  /// One of those that were taken left; its place is free. The acceptor's thread unmaps and closes
  /// what it had, since that takes longer than a message.
  void forget(std::shared_ptr<Consumer::Impl> end);

 private:
  /// A handshake that has begun. The listener rings when it has ended.
  class UnderWay {
   public:
    explicit UnderWay(ProducerListener& listener) noexcept : listener_(listener) {
      listener_.under_way_.fetch_add(1, std::memory_order_relaxed);  // the answer publishes it
    }
    ~UnderWay();
    UnderWay(const UnderWay&) = delete;
    UnderWay& operator=(const UnderWay&) = delete;

   private:
    ProducerListener& listener_;
  };
  struct Caller final : Peer {
    // of a control connection; others get theirs when they join
    Fd life;
    bool is_awaited = false;              // over a control connection
    std::shared_ptr<Consumer::Impl> end;  // null: it has not said what it wants
    std::optional<UnderWay> under_way;
  };
  /// A producer that joined and has not left.
  struct Inside {
    PeerIdentity identity;
    std::uint64_t joined_ns = 0;
    const Consumer::Impl* which = nullptr;  // compared, never followed
    std::weak_ptr<const Consumer::Impl> end;
  };

  [[nodiscard]] std::unique_ptr<Peer> make_peer() const override;
  [[nodiscard]] bool hear(Peer& peer, Received& received) override;
  void failed(Peer& peer, const Error& why) override;
  void other_roused() override;
  void accepted() noexcept override;
  [[nodiscard]] HandedCallers::Where where() const override {
    return {rules_.name, rules_.options.directory, shared_acceptor(),
            rules_.purpose == Purpose::deliver};
  }

  [[nodiscard]] Result<bool> go_on(Caller& caller, Received& received);
  [[nodiscard]] static bool hear_control(Caller& caller, Received& received);
  [[nodiscard]] Result<bool> begin(Caller& caller, const WirePacket& hello);
  [[nodiscard]] bool has_room();
  [[nodiscard]] Result<void> let_in(Caller& caller);
  void announce(Newcomer newcomer);
  [[nodiscard]] ChannelStatus describe();

  Rules rules_;
  std::optional<ControlConnection> control_;  // until start()
  std::uint64_t opened_ns_ = 0;
  Fd news_;
  std::atomic<std::size_t> under_way_{0};
  std::mutex mutex_;  // guards all below
  std::vector<Newcomer> newcomers_;
  std::vector<Inside> inside_;
  std::vector<std::shared_ptr<Consumer::Impl>> left_;  // to be dropped
};

}  // namespace gantry
