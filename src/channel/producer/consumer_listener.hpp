#pragma once  // channel/producer/consumer_listener.hpp: a producer's handshake with its consumers,
              // and their end.

#include <functional>
#include <map>
#include <mutex>

#include "channel/consumers/consumer_resources.hpp"
#include "channel/naming/peer_listener.hpp"
#include "channel/naming/rendezvous.hpp"

namespace gantry {

/// What a ConsumerListener asks of the channel it serves. Called on the acceptor's thread.
class ConsumerHost {
 public:
  virtual ~ConsumerHost() = default;
  /// The ring of a consumer that is about to join.
  [[nodiscard]] virtual Result<Region> make_ring() const = 0;
  /// That of the producer page, which every joining consumer gets.
  [[nodiscard]] virtual int page_descriptor() const = 0;
  [[nodiscard]] virtual bool has_place() const = 0;
  /// Former consumers of that peer's user have more in hand than is let pass.
  [[nodiscard]] virtual bool holds_too_much(const PeerIdentity& peer) const = 0;
  /// A consumer may ask for that.
  [[nodiscard]] virtual bool allows(SlowConsumer policy) const = 0;
  /// Takes the consumer in, telling it all slabs and then `ready`; the answer is its number. After
  /// an error it is not in.
  [[nodiscard]] virtual Result<unsigned> admit(std::unique_ptr<ConsumerResources> consumer,
                                               Region ring) = 0;
  /// The consumer hung up, or its process died.
  virtual void consumer_left(unsigned consumer) = 0;
  /// The process of one that had hung up has died.
  virtual void departed_died() = 0;
  /// Who was called did not join.
  virtual void call_failed(const Error& why) { static_cast<void>(why); }
  /// Has the wake-up sockets watched that tell of credits for which nobody else waits, and no
  /// others.
  using WakeWatcher = std::function<Result<AcceptWatch>(int descriptor)>;
  virtual void watch_wakes(const WakeWatcher& watch) = 0;
  /// One of them rang.
  virtual void credits_came() = 0;
  /// Answers `gantry ls`: see encode_status().
  [[nodiscard]] virtual std::vector<std::byte> status() const = 0;
};

/// Lets consumers in and sees them go. Without a listener (-1) it serves those whom it calls,
/// nobody else.
class ConsumerListener final : public PeerListener {
 public:
  ConsumerListener(std::shared_ptr<Acceptor> acceptor, ConsumerHost& host, int listener,
                   const Access& access)
      : PeerListener(std::move(acceptor), listener, access), host_(host) {}
  ~ConsumerListener() override { stop(); }

  // ---- any thread

  void stop() noexcept;        ///< Nobody is let in any more, and nobody's end is told.
  void look_again() noexcept;  ///< Which wake-up sockets are to be watched.
  /// Says hello{deliver} to whoever is at the other end and serves it as if it had come.
  void call(Connection connection);

 private:
  struct Caller final : Peer {
    Region ring;                 // not empty: welcomed
    WakeReceiver wake_receiver;  // it has the pull then
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
  std::map<std::uint64_t, unsigned> inside_;  // what the host calls them, by serial
  // Who was called hangs up a moment before it dies, and its name is stale only then: it is looked
  // for some more times, the last a second later.
  unsigned looks_left_ = 0;
  Deadline next_look_ = Deadline::now();
  const std::uint64_t bells_serial_ = next_serial();
};

}  // namespace gantry
