#pragma once  // channel/doorman.hpp: the producer's thread that lets consumers in and sees them go.

#include <poll.h>

#include <array>
#include <memory>
#include <thread>
#include <vector>

#include "base/fork.hpp"
#include "channel/attached.hpp"
#include "channel/rendezvous.hpp"

namespace gantry {

/// What the doorman asks of the channel it serves. Called on the doorman's thread.
class Household {
 public:
  virtual ~Household() = default;
  /// Descriptors a joining consumer gets: producer page, event, metrics.
  [[nodiscard]] virtual std::array<int, 3> welcome_descriptors() const = 0;
  [[nodiscard]] virtual bool has_consumer() const = 0;
  /// Takes the consumer in, telling it all slabs and then `ready`. After an error it is not in.
  [[nodiscard]] virtual Result<void> admit(std::unique_ptr<Attached> consumer) = 0;
  /// The consumer's process died or hung up.
  virtual void consumer_left() = 0;
  /// Answers `gantry ls`: the packet, and the descriptors that go with it.
  [[nodiscard]] virtual std::pair<WirePacket, std::vector<int>> status() const = 0;
};

/// One thread for one channel, asleep but when somebody knocks, leaves or dies. A caller who never
/// completes the handshake holds one of few places for a limited time, and nobody else up.
class Doorman {
 public:
  Doorman(Household& household, int listener) : household_(household), listener_(listener) {}
  ~Doorman() { stop(); }
  Doorman(const Doorman&) = delete;
  Doorman& operator=(const Doorman&) = delete;

  [[nodiscard]] Result<void> start();
  void stop();  ///< Ends the thread; nobody is let in any more.

 private:
  struct Caller {
    Fd socket;
    PeerIdentity identity;
    Deadline until = Deadline::never();
    bool welcomed = false;
  };

  void serve();
  void wait_for_events();
  void accept_callers();
  void hear(std::size_t index);
  [[nodiscard]] bool answer(Caller& caller, Received& received);
  [[nodiscard]] Result<void> let_in(Caller& caller, Received& received);
  void forget_late_callers();
  void watch_consumer();
  [[nodiscard]] Deadline next_deadline() const;

  MakerProcess maker_;
  Household& household_;
  int listener_;
  Fd wake_;  // rung to end the thread
  bool stopping_ = false;
  std::vector<Caller> callers_;
  Deadline closed_until_ = Deadline::now();  // nobody is accepted before
  std::vector<pollfd> events_;
  int consumer_socket_ = -1;  // watched copies of the admitted consumer's; the household owns them
  int consumer_pidfd_ = -1;
  std::thread thread_;
};

}  // namespace gantry
