#pragma once  // channel/inbox/producer_listener.hpp: an inbox's handshake with its producers.

#include <gantry/channel/status.hpp>
#include <mutex>

#include "channel/consumer/consumer.hpp"
#include "channel/naming/peer_listener.hpp"
#include "channel/naming/rendezvous.hpp"

namespace gantry {

/// A producer that has joined, on its way from the listener to who receives.
struct Newcomer {
  PeerIdentity identity;
  std::shared_ptr<Consumer::Impl> end;  // null: it never will, the control connection broke
};

/// The ConsumerListener's opposite: it listens, but speaks as a consumer.
class ProducerListener final : public PeerListener {
 public:
  /// A control connection to one process, which is the only one that ever comes.
  struct ControlConnection {
    Fd receive_fd;      // it sends what to speak through before anything else
    PeerIdentity whom;  // the kernel knows only who made that end
    Fd life;            // of that process; see peer_pidfd()
  };
  struct Rules {
    std::string name;
    ConsumerOptions options;  // of the ends that are made
    unsigned producers = 0;
    std::shared_ptr<ReceiveQuota> quota;  // of all that come
    const Metrics* counters = nullptr;    // told to `gantry ls`
  };
  ProducerListener(std::shared_ptr<Acceptor> acceptor, Rules rules, int listener);
  ProducerListener(std::shared_ptr<Acceptor> acceptor, Rules rules, ControlConnection control);
  ~ProducerListener() override { stop(); }

  [[nodiscard]] Result<void> start();

  // ---- any thread

  /// Readable when take() has somebody, or somebody rang.
  [[nodiscard]] int news() const noexcept { return news_.get(); }
  [[nodiscard]] std::vector<Newcomer> take();
  /// One of those that were taken left: its place is free. To unmap and close what it had takes
  /// longer than a message: that is done on the acceptor's thread.
  void forget(std::shared_ptr<Consumer::Impl> end);

 private:
  struct Caller final : Peer {
    Fd life;                              // of a control connection; else found when it joins
    bool is_awaited = false;              // over a control connection
    std::shared_ptr<Consumer::Impl> end;  // null: has not said what it wants
  };
  /// One that joined and has not left.
  struct Inside {
    PeerIdentity identity;
    std::uint64_t joined_ns = 0;
    const Consumer::Impl* which = nullptr;  // never followed
    std::weak_ptr<const Consumer::Impl> end;
  };

  [[nodiscard]] std::unique_ptr<Peer> make_peer() const override;
  [[nodiscard]] bool hear(Peer& peer, Received& received) override;
  void failed(Peer& peer, const Error& why) override;
  void other_roused() override;
  void accepted() noexcept override;

  [[nodiscard]] bool go_on(Caller& caller, Received& received);
  [[nodiscard]] static bool hear_control(Caller& caller, Received& received);
  [[nodiscard]] bool begin(Caller& caller, const WirePacket& hello);
  [[nodiscard]] bool has_room();
  [[nodiscard]] Result<void> let_in(Caller& caller);
  void announce(Newcomer newcomer);
  [[nodiscard]] ChannelStatus describe();

  Rules rules_;
  std::optional<ControlConnection> control_;  // until start()
  std::uint64_t opened_ns_ = 0;
  Fd news_;
  std::mutex mutex_;  // guards all below
  std::vector<Newcomer> newcomers_;
  std::vector<Inside> inside_;
  std::vector<std::shared_ptr<Consumer::Impl>> left_;  // to be dropped
};

}  // namespace gantry
