#pragma once  // remote/bridge.hpp: the gateway behind Bridge.

#include <atomic>
#include <condition_variable>
#include <gantry/channel/status.hpp>
#include <gantry/link/bridge.hpp>
#include <list>
#include <mutex>
#include <thread>

#include "remote/admission.hpp"
#include "remote/bridge_socket.hpp"
#include "remote/shared_turns.hpp"

namespace gantry {

/// Listens, admits and serves. A thread a connection, which admits it first. Of a stranger nothing
/// is kept but a socket and a thread, for a few seconds; of too many strangers the oldest goes.
///   I1  A session is in sessions_ while its thread works for it or waits for its next link.
///   I2  strangers_ counts the connections that are not admitted yet; at most kMostStrangers.
///   I3  What a connection was told of a session's progress holds until the session runs over that
///       connection, or another one has come for it.
class GANTRY_LOCAL Bridge::Impl {
 public:
  static constexpr std::size_t kMostStrangers = 32;

  [[nodiscard]] static Result<std::unique_ptr<Impl>> make(const BridgeOptions& options,
                                                          std::shared_ptr<Engine> engine);
  ~Impl();
  [[nodiscard]] std::string address() const { return listener_.address(); }
  [[nodiscard]] Result<void> serve();

 private:
  static constexpr std::size_t kMostFinished = 1024;
  struct Connection {
    Fd socket;
    std::thread thread;
    std::atomic<bool> is_over = false;
    bool is_stranger = true;  // under the lock
  };
  /// A session that a later connection may go on with.
  struct Session {
    SessionId id{};
    Fd socket;                             // a copy of the present link's
    std::string peer;                      // of the next link
    std::string caller;                    // as the lines of on_event call it
    std::optional<Fd> next;                // a socket that came for it
    RemotePath path = RemotePath::stream;  // of the next link
    std::uint64_t next_received = 0;
    std::uint64_t claim = 0;     // of the latest connection that came for it
    std::uint64_t received = 0;  // what the receiving side here has
    bool waits = false;          // its link is broken
    /// What it waits beyond the bridge's patience for its caller to notice.
    std::chrono::milliseconds longer{0};
    std::condition_variable changed;
  };

  class Successor;

  explicit Impl(const BridgeOptions& options, std::shared_ptr<Engine> engine,
                BridgeListener listener, Fd stop);
  void take_connection(Fd socket);
  void drop_oldest_stranger();
  void reap();
  void serve_connection(Connection& connection) noexcept;
  [[nodiscard]] Result<void> admit_and_serve(Connection& connection);
  [[nodiscard]] Result<void> show(int socket, Admission& admission) const;
  /// The connection's socket, under whatever it is encrypted with. Errors: those of
  /// TlsSession::as_bridge().
  [[nodiscard]] Result<void> encrypt(Connection& connection, Deadline deadline);
  [[nodiscard]] Result<void> serve_session(Fd socket, const std::string& peer,
                                           const std::string& caller, Admission& admission,
                                           const RemoteRequest& request);
  [[nodiscard]] Result<void> go_on(Fd socket, const std::string& peer, Admission& admission,
                                   const RemoteRequest& request);
  [[nodiscard]] Result<std::unique_ptr<RemoteSide>> open_side(Link& link,
                                                              const RemoteRequest& request);
  [[nodiscard]] Result<std::unique_ptr<RemoteSide>> open_end(const RemoteRequest& request,
                                                             Deadline deadline);
  [[nodiscard]] RemoteEnd carry(Session& session, RemoteSide& side, std::unique_ptr<Link> link,
                                std::uint64_t received);
  [[nodiscard]] bool keeps_places();
  /// The last word of a session may be lost with its link; its caller then asks.
  void note_finished(const SessionId& id) {
    finished_.push_back(id);
    if (finished_.size() > kMostFinished) finished_.pop_front();
  }
  /// Null: `answer` says why not.
  [[nodiscard]] std::shared_ptr<Session> claim_waiting(const SessionId& id, RemoteAnswer& answer,
                                                       std::uint64_t& claim);
  /// Waits for a socket that goes on with the session; nothing comes once its patience is spent.
  [[nodiscard]] std::optional<Fd> await_next(Session& session, std::uint64_t received_here,
                                             std::uint64_t& received_there);
  [[nodiscard]] Result<std::unique_ptr<Link>> make_link(Session& session, Fd socket);
  void say(const std::string& line) const {
    if (options_.on_event) options_.on_event(line);
  }

  const BridgeOptions options_;
  const std::shared_ptr<Engine> engine_;
  const std::shared_ptr<TlsCarriers> carriers_ = std::make_shared<TlsCarriers>();
  std::shared_ptr<Acceptor> acceptor_;
  BridgeListener listener_;
  Fd stop_;  // an event: readable from the end on

  std::mutex mutex_;  // guards what follows
  std::list<Connection> connections_;
  std::list<std::shared_ptr<Session>> sessions_;
  std::deque<SessionId> finished_;  // the latest that came to their regular end
  std::size_t strangers_ = 0;
  int successors_ = 0;  // callers that wait for a place
};

}  // namespace gantry
