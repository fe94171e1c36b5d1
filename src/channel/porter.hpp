#pragma once  // channel/porter.hpp: an inbox's thread that lets producers in.

#include <poll.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <thread>

#include "base/fork.hpp"
#include "channel/consumer.hpp"
#include "channel/rendezvous.hpp"

namespace gantry {

/// A producer that has joined, on its way from the porter to who receives.
struct Newcomer {
  PeerIdentity identity;
  std::shared_ptr<Consumer::Impl> end;
};

/// The doorman's opposite: it listens, but speaks as a consumer. Every handshake goes on packet by
/// packet beside the others, on a thread that never waits for one of them: who says nothing, or
/// nonsense, holds one of kPlaces for a limited time, a short one while others want it.
class Porter {
 public:
  struct Rules {
    std::string name;
    ChannelOptions options;  // of the ends that are made
    unsigned producers = 0;
    /// Empty: everybody whom the directory lets in.
    std::function<bool(const PeerIdentity&)> admits;
    int metrics = -1;  // told to `gantry ls`
    /// Not empty: called, on the porter's thread, when one has been let in; then nobody is any
    /// more.
    std::function<void()> when_in;
  };
  Porter(Rules rules, int listener) : rules_(std::move(rules)), listener_(listener) {}
  ~Porter() { stop(); }
  Porter(const Porter&) = delete;
  Porter& operator=(const Porter&) = delete;

  [[nodiscard]] Result<void> start();
  void stop();

  // ---- any thread

  /// Readable when take() has somebody.
  [[nodiscard]] int news() const noexcept { return news_.get(); }
  [[nodiscard]] std::vector<Newcomer> take();
  /// One of those that were taken left: its place is free.
  void one_left() noexcept { inside_.fetch_sub(1, std::memory_order_relaxed); }  // a count alone

 private:
  static constexpr std::size_t kPlaces = 64;
  struct Caller {
    Fd socket;
    PeerIdentity identity;
    Deadline until = Deadline::never();       // at the latest
    Deadline while_full = Deadline::never();  // when others want the place
    std::shared_ptr<Consumer::Impl> end;      // null: has not said what it wants
  };

  void serve();
  [[nodiscard]] bool is_done() const noexcept { return rules_.when_in && inside_ever_ != 0; }
  void wait_for_events();
  [[nodiscard]] Deadline next_deadline() const;
  [[nodiscard]] bool is_full() const noexcept { return callers_.size() >= kPlaces; }
  void accept_callers();
  void forget_late_callers();
  [[nodiscard]] bool hear(Caller& caller);
  [[nodiscard]] bool begin(Caller& caller, const WirePacket& hello);
  [[nodiscard]] bool has_room() const noexcept;
  void let_in(Caller& caller);
  void say_status(int socket) const;

  MakerProcess maker_;
  Rules rules_;
  int listener_;
  std::uint64_t opened_ns_ = 0;
  Fd wake_;  // rung to end the thread
  Fd news_;
  std::vector<Caller> callers_;  // in the order of their coming
  std::vector<pollfd> events_;
  Deadline closed_until_ = Deadline::now();  // nobody is accepted before
  unsigned inside_ever_ = 0;
  std::atomic<unsigned> inside_{0};  // producers that joined and have not left
  std::mutex mutex_;
  std::vector<Newcomer> newcomers_;  // under mutex_
  std::thread thread_;
};

}  // namespace gantry
