#pragma once  // remote/bridge/sessions.hpp: callers' sessions, in the process that serves them.

#include <condition_variable>
#include <functional>
#include <list>
#include <mutex>

#include "net/remote/admission.hpp"
#include "net/remote/session/session.hpp"

namespace gantry {

/// A session that a later connection may go on with. Sessions guards all but `turns`.
struct ServedSession {
  ServedSession(int stop, Fd ring, bool settles) noexcept
      : turns(stop, std::move(ring), {}, settles) {}

  SessionId id{};
  std::string caller;  // in the lines of on_event
  std::chrono::milliseconds patience{0};
  std::chrono::milliseconds stall_limit{0};
  /// What it waits beyond its patience for its caller to notice.
  std::chrono::milliseconds longer{0};
  std::string served;                    // RemoteAnswer::served, of a bridge's
  std::string peer;                      // of the next link
  RemotePath path = RemotePath::stream;  // of the next link
  SharedTurns turns;

  Fd socket;               // a copy of the present link's
  std::optional<Fd> next;  // a socket that came for it
  std::uint64_t next_received = 0;
  std::uint64_t claim = 0;     // of the latest connection that came for it
  std::uint64_t received = 0;  // what the receiving side here has
  bool waits = false;          // its link is broken
  bool is_lost = false;        // it was given up with messages on their way
  std::condition_variable changed;
};

/// Sessions of callers of other hosts: at a bridge, or in the process whose channel, inbox or
/// service it is. Each has a thread, which opens an end of this host and carries it over one link
/// after the other.
///   I1  A session is in sessions_ while its thread works for it or waits for its next link.
///   I2  What a connection was told of a session's progress holds until the session runs over that
///       connection, or another one has come for it.
class Sessions {
 public:
  struct Setup {
    std::string directory;
    std::shared_ptr<Acceptor> acceptor;
    std::shared_ptr<Engine> engine;
    unsigned most = 0;  // sessions at a time
    std::function<void(const std::string& line)> on_event{};
    Error when_stopped{};     // what callers hear at the end of this object
    bool is_at_home = false;  // the channels are this process's: its threads take turns
  };
  /// Of a caller whose name nobody has: asked when somebody has it. True: the caller is to call
  /// again.
  using MayCallAgain = std::function<bool()>;

  [[nodiscard]] static Result<std::unique_ptr<Sessions>> make(Setup setup);

  /// Errors: `busy` when there are too many.
  [[nodiscard]] Result<std::shared_ptr<ServedSession>> add(const SessionId& id,
                                                           const RemoteRequest& request,
                                                           std::chrono::milliseconds patience,
                                                           std::chrono::milliseconds stall_limit);
  /// Serves a session that add() made and whose caller was welcomed; forgets it then.
  [[nodiscard]] Result<void> serve(const std::shared_ptr<ServedSession>& session, Fd socket,
                                   const RemoteRequest& request, const MayCallAgain& may_call);
  void forget(const std::shared_ptr<ServedSession>& session) noexcept;

  [[nodiscard]] bool knows(const SessionId& id);
  /// Null: `answer` says why not.
  [[nodiscard]] std::shared_ptr<ServedSession> claim(const SessionId& id, RemoteAnswer& answer,
                                                     std::uint64_t& claim);
  /// Gives a claimed session its next connection.
  void go_on(ServedSession& session, std::uint64_t claim, Fd socket, const std::string& peer,
             RemotePath path, std::uint64_t received);

  /// Ends all sessions.
  void stop() noexcept;
  [[nodiscard]] int stop_event() const noexcept { return stop_.get(); }

  // ---- at home

  /// A thread of the user's has published a message.
  void has_sent(Bytes bytes) noexcept;
  /// Waits until none of the present sessions is left. Errors: `timed_out`, `interrupted`;
  /// `peer_gone`: one was given up before it had received all.
  [[nodiscard]] Result<void> await_present(Deadline deadline, int interrupt);

 private:
  static constexpr std::size_t kMostFinished = 1024;
  class Successor;

  Sessions(Setup setup, Fd stop) : setup_(std::move(setup)), stop_(std::move(stop)) {}

  [[nodiscard]] Result<std::unique_ptr<RemoteSide>> open_side(Link& link,
                                                              const RemoteRequest& request,
                                                              const MayCallAgain& may_call);
  [[nodiscard]] Result<std::unique_ptr<RemoteSide>> open_end(const RemoteRequest& request,
                                                             Deadline deadline);
  [[nodiscard]] RemoteEnd carry(ServedSession& session, RemoteSide& side,
                                std::unique_ptr<Link> link);
  [[nodiscard]] bool has_owner(const std::string& name) const;
  [[nodiscard]] bool keeps_places();
  /// Waits for a socket that goes on with the session; nothing comes once its patience is spent.
  [[nodiscard]] std::optional<Fd> await_next(ServedSession& session, std::uint64_t received_here,
                                             std::uint64_t& received_there);
  [[nodiscard]] Result<std::unique_ptr<Link>> make_link(ServedSession& session, Fd socket);
  void say(const std::string& line) const {
    if (setup_.on_event) setup_.on_event(line);
  }

  const Setup setup_;
  const Fd stop_;  // an event: readable from the end on

  std::mutex mutex_;  // guards what follows
  std::list<std::shared_ptr<ServedSession>> sessions_;
  std::deque<SessionId> finished_;  // the latest that came to their regular end
  int successors_ = 0;              // callers that wait for a place
  bool is_closing_ = false;         // await_present() was called
  bool has_lost_ = false;           // a session since then was given up with messages on their way
  std::condition_variable ended_;
};

}  // namespace gantry
