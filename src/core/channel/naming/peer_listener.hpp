#pragma once  // channel/naming/peer_listener.hpp: callers at a name that have not joined yet.

#include <atomic>
#include <memory>
#include <vector>

#include "core/channel/wire/acceptor.hpp"
#include "core/channel/wire/connection.hpp"
#include "core/channel/wire/handed_callers.hpp"
#include "core/channel/wire/protocol.hpp"

namespace gantry {

/// Accepts callers and reads what they say, packet by packet. A caller that says nothing, or
/// nonsense, costs nobody else anything:
///   I1  A caller that is not admitted (Access) is turned away before anything of it is read.
///   I2  Every caller has a time limit. When all places are taken, the oldest caller that said
///       nothing goes, of the user with most places; so each user has a share of them.
///   I3  Descriptors of a caller are let in only while expects_descriptors() says so.
/// Called on the acceptor's thread, except start() and stop(), which its owner calls.
class PeerListener : public AcceptHandler {
 public:
  ~PeerListener() override = default;
  PeerListener(const PeerListener&) = delete;
  PeerListener& operator=(const PeerListener&) = delete;

  [[nodiscard]] Result<void> start();
  /// Stops accepting. Nothing here is called after it has returned.
  void stop() noexcept;

  /// Callers of other hosts at this name; null: none came yet. Any thread, until stop().
  [[nodiscard]] HandedCallers* handed() const noexcept {
    return handed_now_.load(std::memory_order_acquire);  // [H]
  }

  void ready(std::uint64_t token) final;
  void roused() final;

 protected:
  /// A peer that has called, or that we called.
  struct Peer {
    virtual ~Peer() = default;
    std::uint64_t serial = 0;
    Connection connection;
    PeerIdentity identity;
    Deadline until = Deadline::never();       // its last moment
    Deadline while_full = Deadline::never();  // its last moment when others want the place
    bool has_spoken = false;
    bool is_called = false;  // we called it
  };

  /// `listener`: not owned; -1: nobody connects by himself.
  PeerListener(std::shared_ptr<Acceptor> acceptor, int listener, const Access& access)
      : acceptor_(std::move(acceptor)), listener_(listener), access_(access) {}

  [[nodiscard]] virtual std::unique_ptr<Peer> make_peer() const = 0;
  /// Handles a packet. False: the peer loses its place.
  [[nodiscard]] virtual bool hear(Peer& peer, Received& received) = 0;
  /// The peer said nothing that can be understood, hung up, or took too long.
  virtual void failed(Peer& peer, const Error& why) = 0;
  /// A descriptor of watch() that is not a caller's.
  virtual void other_ready(std::uint64_t serial, bool is_second) {
    static_cast<void>(serial);
    static_cast<void>(is_second);
  }
  virtual void other_roused() {}
  /// The time to be roused at the latest.
  [[nodiscard]] virtual Deadline next_look() const { return Deadline::never(); }
  virtual void accepted() noexcept = 0;  // for the fault harness
  [[nodiscard]] virtual HandedCallers::Where where() const = 0;

  /// Adds a peer and watches it. From hear() on it may or may not send descriptors.
  [[nodiscard]] Result<void> add(std::unique_ptr<Peer> peer, Connection connection,
                                 const PeerIdentity& identity, std::chrono::nanoseconds time);
  /// Watches under a serial of its own, or a peer's.
  [[nodiscard]] Result<AcceptWatch> watch(int descriptor, std::uint64_t serial, bool is_second,
                                          Acceptor::Tell tell);
  [[nodiscard]] std::uint64_t next_serial() noexcept { return ++last_serial_; }
  [[nodiscard]] const std::vector<std::unique_ptr<Peer>>& peers() const noexcept { return peers_; }
  [[nodiscard]] Acceptor& acceptor() const noexcept { return *acceptor_; }
  [[nodiscard]] const std::shared_ptr<Acceptor>& shared_acceptor() const noexcept {
    return acceptor_;
  }
  [[nodiscard]] bool has_listener() const noexcept { return listener_ >= 0; }
  [[nodiscard]] const Access& access() const noexcept { return access_; }

 private:
  static constexpr std::size_t kPlaces = 64;

  void accept_callers();
  [[nodiscard]] bool turn_one_away();
  [[nodiscard]] Result<void> take_in(Fd socket);
  [[nodiscard]] bool make_room_for(uid_t user);
  [[nodiscard]] uid_t heaviest_user_with(uid_t newcomer) const;
  void listen_on();
  /// Accepts nobody before that time, or before there are `fewer` callers.
  void pause(Deadline until, std::size_t fewer = 0) noexcept;
  void hear_from(std::uint64_t serial);
  void hand_on(Peer& peer, const WirePacket& hello);
  void drop_late();
  void set_time();

  std::shared_ptr<Acceptor> acceptor_;
  int listener_;
  Access access_;
  AcceptWatch listening_;  // ended while paused
  Deadline paused_until_ = Deadline::now();
  std::size_t paused_until_fewer_ = 0;
  unsigned tries_without_ = 0;                // accept(2) since there was no descriptor for it
  std::vector<std::unique_ptr<Peer>> peers_;  // in the order of arrival
  std::uint64_t last_serial_ = 0;
  std::shared_ptr<HandedCallers> handed_;  // made by the first bridge that comes
  std::atomic<HandedCallers*> handed_now_{nullptr};
};

}  // namespace gantry
