#pragma once  // channel/porter.hpp: an inbox's thread that lets producers in.

#include <poll.h>

#include <gantry/status.hpp>
#include <mutex>
#include <thread>

#include "base/fork.hpp"
#include "channel/consumer.hpp"
#include "channel/rendezvous.hpp"

namespace gantry {

/// A producer that has joined, on its way from the porter to who receives.
struct Newcomer {
  PeerIdentity identity;
  std::shared_ptr<Consumer::Impl> end;  // null: it never will, the line broke
};

/// The doorman's opposite: it listens, but speaks as a consumer. Every handshake goes on packet by
/// packet beside the others, on a thread that never waits for one of them: who says nothing, or
/// nonsense, holds one of kPlaces for a limited time, a short one while others want it.
class Porter {
 public:
  /// A line to one process, which is the only one that ever comes.
  struct Line {
    Fd ears;            // it sends what to speak through before anything else
    PeerIdentity whom;  // the kernel knows only who made that end
    Fd life;            // of that process; see peer_pidfd()
  };
  struct Rules {
    std::string name;
    ChannelOptions options;  // of the ends that are made
    unsigned producers = 0;
    const Metrics* counters = nullptr;  // told to `gantry ls`
  };
  Porter(Rules rules, int listener) : rules_(std::move(rules)), listener_(listener) {}
  Porter(Rules rules, Line line);
  ~Porter() { stop(); }
  Porter(const Porter&) = delete;
  Porter& operator=(const Porter&) = delete;

  [[nodiscard]] Result<void> start();
  void stop();

  // ---- any thread

  /// Readable when take() has somebody, or somebody rang.
  [[nodiscard]] int news() const noexcept { return news_.get(); }
  [[nodiscard]] std::vector<Newcomer> take();
  /// One of those that were taken left: its place is free.
  void forget(const Consumer::Impl& end);

 private:
  static constexpr std::size_t kPlaces = 64;
  struct Caller {
    Connection connection;
    PeerIdentity identity;
    Fd life;
    Deadline until = Deadline::never();       // at the latest
    Deadline while_full = Deadline::never();  // when others want the place
    std::shared_ptr<Consumer::Impl> end;      // null: has not said what it wants
  };
  /// One that joined and has not left.
  struct Inside {
    PeerIdentity identity;
    std::uint64_t joined_ns = 0;
    const Consumer::Impl* which = nullptr;  // never followed
    std::weak_ptr<const Consumer::Impl> end;
  };

  void serve();
  [[nodiscard]] bool is_done() const noexcept { return listener_ < 0 && callers_.empty(); }
  void wait_for_events();
  [[nodiscard]] Deadline next_deadline() const;
  [[nodiscard]] bool is_full() const noexcept { return callers_.size() >= kPlaces; }
  void accept_callers();
  void forget_late_callers();
  [[nodiscard]] bool hear(Caller& caller);
  [[nodiscard]] static bool hear_line(Caller& caller, Received& received);
  [[nodiscard]] bool begin(Caller& caller, const WirePacket& hello);
  [[nodiscard]] bool has_room();
  void let_in(Caller& caller);
  void announce(Newcomer newcomer);
  [[nodiscard]] ChannelStatus describe();

  MakerProcess maker_;
  Rules rules_;
  int listener_;          // -1: there is a line instead
  PeerIdentity awaited_;  // at its end
  bool has_come_ = false;
  std::uint64_t opened_ns_ = 0;
  Fd wake_;  // rung to end the thread
  Fd news_;
  std::vector<Caller> callers_;  // in the order of their coming
  std::vector<pollfd> events_;
  Deadline closed_until_ = Deadline::now();  // nobody is accepted before
  std::mutex mutex_;                         // guards the two below
  std::vector<Newcomer> newcomers_;
  std::vector<Inside> inside_;
  std::thread thread_;
};

}  // namespace gantry
