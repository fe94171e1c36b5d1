#pragma once  // channel/producer/connector.hpp: how a producer meets its consumers.

#include <map>
#include <mutex>

#include "core/channel/naming/peer_listener.hpp"
#include "core/channel/naming/rendezvous.hpp"
#include "core/channel/producer/credit_gate.hpp"
#include "core/channel/producer/producer_status.hpp"
#include "core/channel/wire/step.hpp"

namespace gantry {

class Connector;

/// Lets consumers in and notices when they go. Without a listener (-1) it serves only those that it
/// calls.
class ConsumerListener final : public PeerListener {
 public:
  ConsumerListener(Connector& host, ProducerCore& core, CreditGate& gate,
                   const ProducerStatus& status, int listener)
      : PeerListener(core.options.acceptor, listener, core.options.access),
        host_(host),
        core_(core),
        gate_(gate),
        status_(status) {}
  ~ConsumerListener() override { stop(); }

  // ---- any thread

  void stop() noexcept;  ///< Lets nobody in any more, and reports no more ends.
  /// Decides anew which wake-up sockets are watched.
  void look_again() noexcept { acceptor().rouse(*this); }
  /// Says hello to the peer and serves it as if it had connected to us.
  void call(Connection connection);

 private:
  struct Caller final : Peer {
    Region ring;                 // not empty: it was welcomed
    WakeReceiver wake_receiver;  // it has the wake-up sender then
  };
  static constexpr unsigned kLooks = 10;

  [[nodiscard]] std::unique_ptr<Peer> make_peer() const override {
    return std::make_unique<Caller>();
  }
  [[nodiscard]] bool hear(Peer& peer, Received& received) override;
  void failed(Peer& peer, const Error& why) override;
  void other_ready(std::uint64_t serial, bool is_second) override;
  void other_roused() override;
  [[nodiscard]] Deadline next_look() const override {
    return looks_left_ > 0 ? next_look_ : Deadline::never();
  }
  void accepted() noexcept override { GANTRY_STEP(caller_accepted); }
  [[nodiscard]] HandedCallers::Where where() const override {
    return {core_.name, core_.options.directory, core_.options.acceptor};
  }

  void greet_called();
  [[nodiscard]] Result<void> greet(Connection connection);
  [[nodiscard]] bool answer(Caller& caller, const WirePacket& hello);
  [[nodiscard]] Code reason_to_refuse(const Caller& caller, const WirePacket& hello) const;
  [[nodiscard]] Result<void> welcome(Caller& caller);
  [[nodiscard]] Result<void> let_in(Caller& caller, Received& received);
  void look_after_the_dead();
  void leave(std::map<std::uint64_t, unsigned>::iterator consumer);
  void watch_wakes();

  Connector& host_;
  ProducerCore& core_;
  CreditGate& gate_;
  const ProducerStatus& status_;
  std::mutex called_mutex_;
  std::vector<Connection> called_;            // under called_mutex_: not yet greeted
  bool is_stopped_ = false;                   // under called_mutex_
  std::map<std::uint64_t, unsigned> inside_;  // the host's number of each, by serial
  // A peer that we called hangs up a moment before it dies, and its name is stale only then. So the
  // name is looked at some more times, the last a second later.
  unsigned looks_left_ = 0;
  Deadline next_look_ = Deadline::now();
  const std::uint64_t wakes_serial_ = next_serial();
  bool watches_wakes_ = false;  // as of the last watch_wakes()
};

/// Lets consumers into the set, and sees them go. They come to the producer's name; or it calls an
/// inbox, and again when that is gone; or it calls somebody over a control connection that it was
/// given. Used by the caller's thread and, under the lock, the acceptor's.
class Connector {
 public:
  /// With `answers` the name is only used in errors.
  enum class Reach : std::uint8_t { listens, calls, answers };

  Connector(ProducerCore& core, CreditGate& gate, const ProducerStatus& status) noexcept
      : core_(core), gate_(gate), status_(status) {}

  /// Takes the name if it listens, and serves those that come or are called.
  [[nodiscard]] Result<void> start(Reach reach);
  /// Lets nobody in any more, and in the process that started it gives the name up.
  void stop() noexcept;
  /// Decides anew which wake-up sockets the acceptor's thread watches.
  void look_again() { listener_->look_again(); }
  /// Waits until `count` consumers have joined, or the inbox has let us in.
  [[nodiscard]] Result<void> wait_for_consumers(Deadline deadline, unsigned count);

  // ---- the called side

  /// Looks for the inbox until `deadline` and calls it, unless it is connected or being called.
  [[nodiscard]] Result<void> call(Deadline deadline);
  /// Calls it, and again if it goes away, until it has let us in.
  [[nodiscard]] Result<void> wait_for_inbox(Deadline deadline);
  /// Calls over `control`, to the process `whom`. Does not wait. Errors: `peer_misbehaved` when
  /// `control` is somebody else's, or no control connection. After an error it may still be open.
  [[nodiscard]] Result<void> call_over(ReceivedFd& control, const PeerIdentity& whom);
  /// Sends the inbox a socket, over which it can call back.
  [[nodiscard]] Result<void> send_control(int control);
  /// The listener at the name, as of the last call.
  [[nodiscard]] PeerIdentity called() const noexcept { return called_; }
  /// A pidfd of that process, if the kernel has one; see peer_pidfd().
  [[nodiscard]] Fd take_called_life() noexcept { return std::move(called_life_); }
  /// True if there was a consumer, and there is none now.
  [[nodiscard]] bool is_alone() const;
  [[nodiscard]] HandedCallers* handed() const noexcept {
    return listener_ ? listener_->handed() : nullptr;
  }
  /// See HandedCallers::finish().
  [[nodiscard]] Result<void> finish_handed(Deadline deadline);
  /// See ConsumerSet::hear_trouble().
  [[nodiscard]] std::optional<Error> trouble() const;

  // ---- for the listener, on the acceptor's thread

  /// See ConsumerSet::admit().
  [[nodiscard]] Result<unsigned> admit(std::unique_ptr<ConsumerResources> consumer, Region ring);
  void consumer_left(unsigned consumer);
  void departed_died();
  /// The peer that was called did not join.
  void call_failed(const Error& why);

 private:
  void begin_call(Connection connection);
  void consumers_changed() noexcept;

  ProducerCore& core_;
  CreditGate& gate_;
  const ProducerStatus& status_;
  Reach reach_ = Reach::listens;
  bool calling_ = false;             // under the lock: the inbox has not answered yet
  std::optional<Error> call_error_;  // under the lock: of the last call
  PeerIdentity called_;
  Fd called_life_;
  Claim claim_;
  std::optional<ConsumerListener> listener_;  // last: the acceptor uses all of the above
};

}  // namespace gantry
