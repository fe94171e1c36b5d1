#pragma once  // channel/doorman.hpp: the producer's thread that lets consumers in and sees them go.

#include <poll.h>

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/fork.hpp"
#include "channel/attached.hpp"
#include "channel/connection.hpp"
#include "channel/rendezvous.hpp"

namespace gantry {

/// What the doorman asks of the channel it serves. Called on the doorman's thread.
class Household {
 public:
  virtual ~Household() = default;
  /// The ring of a consumer that is about to join.
  [[nodiscard]] virtual Result<Region> make_ring() const = 0;
  /// Descriptors a joining consumer gets beside its ring and the pull: producer page, metrics.
  [[nodiscard]] virtual std::array<int, 2> welcome_descriptors() const = 0;
  [[nodiscard]] virtual bool has_place() const = 0;
  /// Former consumers of that process have more in hand than is let pass.
  [[nodiscard]] virtual bool holds_too_much(pid_t pid) const = 0;
  /// Takes the consumer in, telling it all slabs and then `ready`; the answer is its number. After
  /// an error it is not in.
  [[nodiscard]] virtual Result<unsigned> admit(std::unique_ptr<Attached> consumer, Region ring) = 0;
  /// The consumer hung up, or its process died.
  virtual void consumer_left(unsigned consumer, bool died) = 0;
  /// The process of one that had hung up has died.
  virtual void departed_died() = 0;
  /// Who was called did not join.
  virtual void call_failed(const Error& why) { static_cast<void>(why); }
  /// What to watch for credits that nobody else waits for; -1: nothing. See credits_came().
  [[nodiscard]] virtual int bells() const = 0;
  /// It is readable.
  virtual void credits_came() = 0;
  /// Answers `gantry ls`: see encode_status().
  [[nodiscard]] virtual std::vector<std::byte> status() const = 0;
};

/// One thread for one channel, asleep but when somebody knocks, leaves or dies. A caller who never
/// completes the handshake holds one of few places for a limited time, and nobody else up. Without
/// a listener (-1) it serves those whom it calls, nobody else.
class Doorman {
 public:
  Doorman(Household& household, int listener, Access access)
      : household_(household), listener_(listener), access_(std::move(access)) {}
  ~Doorman() { stop(); }
  Doorman(const Doorman&) = delete;
  Doorman& operator=(const Doorman&) = delete;

  [[nodiscard]] Result<void> start();
  void stop();                 ///< Ends the thread; nobody is let in any more.
  void look_again() noexcept;  ///< At bells(). Any thread.
  /// Says hello{deliver} to whoever is at the other end and serves it as if it had come. Any
  /// thread.
  void call(Connection connection);

 private:
  struct Caller {
    Connection connection;
    PeerIdentity identity;
    Deadline until = Deadline::never();
    Region ring;             // not empty: welcomed
    Bell bell;               // it has the pull then
    bool is_called = false;  // by us; call_failed() is owed
  };
  struct Watched {
    unsigned consumer = 0;
    int ears = -1;  // the household's; -1: it has left
    Fd pidfd;       // ours: it may outlive the household's
  };

  void serve();
  void wait_for_events();
  void greet_called();
  [[nodiscard]] Result<void> greet(Connection connection);
  void accept_callers();
  void hear(std::size_t index);
  [[nodiscard]] bool answer(Caller& caller, Received& received);
  [[nodiscard]] Result<void> welcome(Caller& caller);
  [[nodiscard]] Result<void> let_in(Caller& caller, Received& received);
  void forget_late_callers();
  void watch_consumers();
  [[nodiscard]] Deadline next_deadline() const;

  MakerProcess maker_;
  Household& household_;
  int listener_;
  Access access_;
  Fd wake_;  // rung to end the thread, to have it look again, and when somebody is to be called
  std::atomic<bool> stopping_{false};
  std::mutex called_mutex_;
  std::vector<Connection> called_;  // under called_mutex_: not yet greeted
  std::vector<Caller> callers_;
  Deadline closed_until_ = Deadline::now();  // nobody is accepted before
  std::vector<pollfd> events_;
  std::vector<Watched> watched_;
  std::thread thread_;
};

}  // namespace gantry
