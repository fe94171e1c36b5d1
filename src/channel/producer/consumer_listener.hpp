#pragma once  // channel/producer/consumer_listener.hpp: a producer's handshake with its consumers,
              // and their end.

#include <functional>
#include <map>
#include <mutex>

#include "channel/consumers/consumer_resources.hpp"
#include "channel/naming/peer_listener.hpp"
#include "channel/naming/rendezvous.hpp"

namespace gantry {

/// What a ConsumerListener needs of the channel it serves. Called on the acceptor's thread.
class ConsumerHost {
 public:
  virtual ~ConsumerHost() = default;
  /// Makes the ring of a consumer that is about to join.
  [[nodiscard]] virtual Result<Region> make_ring() const = 0;
  /// The producer page, which every joining consumer gets.
  [[nodiscard]] virtual int page_descriptor() const = 0;
  [[nodiscard]] virtual bool has_place() const = 0;
  /// True if former consumers of that peer's user hold more than is allowed.
  [[nodiscard]] virtual bool holds_too_much(const PeerIdentity& peer) const = 0;
  /// True if a consumer may ask for that policy.
  [[nodiscard]] virtual bool allows(SlowConsumer policy) const = 0;
  /// Takes the consumer in, tells it of all slabs, then `ready`. Returns its number. After an error
  /// it is not in.
  [[nodiscard]] virtual Result<unsigned> admit(std::unique_ptr<ConsumerResources> consumer,
                                               Region ring) = 0;
  /// The consumer hung up, or its process died.
  virtual void consumer_left(unsigned consumer) = 0;
  /// The process of a consumer that had hung up has died.
  virtual void departed_died() = 0;
  /// The peer that was called did not join.
  virtual void call_failed(const Error& why) { static_cast<void>(why); }
  /// Has those wake-up sockets watched that tell of credits for which nobody else waits, and no
  /// others.
  using WakeWatcher = std::function<Result<AcceptWatch>(int descriptor)>;
  virtual void watch_wakes(const WakeWatcher& watch) = 0;
  /// One of those sockets rang.
  virtual void credits_came() = 0;
  /// Answers `gantry ls`: see encode_status().
  [[nodiscard]] virtual std::vector<std::byte> status() const = 0;
};

/// Lets consumers in and notices when they go. Without a listener (-1) it serves only those that it
/// calls.
class ConsumerListener final : public PeerListener {
 public:
  ConsumerListener(std::shared_ptr<Acceptor> acceptor, ConsumerHost& host, int listener,
                   const Access& access)
      : PeerListener(std::move(acceptor), listener, access), host_(host) {}
  ~ConsumerListener() override { stop(); }

  // ---- any thread

  void stop() noexcept;        ///< Lets nobody in any more, and reports no more ends.
  void look_again() noexcept;  ///< Decides anew which wake-up sockets are watched.
  /// Says hello{deliver} to the peer and serves it as if it had connected to us.
  void call(Connection connection);

 private:
  struct Caller final : Peer {
    Region ring;                 // not empty: it was welcomed
    WakeReceiver wake_receiver;  // it has the wake-up sender then
  };
  static constexpr unsigned kLooks = 10;

  [[nodiscard]] std::unique_ptr<Peer> make_peer() const override;
  [[nodiscard]] bool hear(Peer& peer, Received& received) override;
  void failed(Peer& peer, const Error& why) override;
  void other_ready(std::uint64_t serial, bool is_second) override;
  void other_roused() override;
  [[nodiscard]] Deadline next_look() const override {
    return looks_left_ > 0 ? next_look_ : Deadline::never();
  }
  void accepted() noexcept override;

  void greet_called();
  [[nodiscard]] Result<void> greet(Connection connection);
  [[nodiscard]] bool answer(Caller& caller, const WirePacket& hello);
  [[nodiscard]] Code reason_to_refuse(const Caller& caller, const WirePacket& hello) const;
  [[nodiscard]] Result<void> welcome(Caller& caller);
  [[nodiscard]] Result<void> let_in(Caller& caller, Received& received);
  void look_after_the_dead();
  void leave(std::map<std::uint64_t, unsigned>::iterator consumer);
  void watch_wakes();

  ConsumerHost& host_;
  std::mutex called_mutex_;
  std::vector<Connection> called_;            // under called_mutex_: not yet greeted
  bool is_stopped_ = false;                   // under called_mutex_
  std::map<std::uint64_t, unsigned> inside_;  // the host's number of each, by serial
  // A peer that we called hangs up a moment before it dies, and its name is stale only then. So the
  // name is looked at some more times, the last a second later.
  unsigned looks_left_ = 0;
  Deadline next_look_ = Deadline::now();
  const std::uint64_t wakes_serial_ = next_serial();
};

}  // namespace gantry
