#pragma once  // remote/bridge/relay.hpp: the thread between an end of this process and a bridge.

#include <functional>
#include <gantry/channel.hpp>
#include <mutex>
#include <string>
#include <thread>

#include "core/base/os/fd.hpp"
#include "core/base/os/fork.hpp"
#include "core/base/result.hpp"
#include "net/remote/admission.hpp"
#include "net/remote/remote_name.hpp"
#include "net/remote/session/session.hpp"
#include "net/remote/tls.hpp"

namespace gantry {

/// A folder below the channel directory, mode 0700, which goes with this. A lock that ends with the
/// process tells those of killed processes, which the next one sweeps.
class LinkDirectory {
 public:
  [[nodiscard]] static Result<LinkDirectory> make(const std::string& parent);
  LinkDirectory() noexcept = default;
  LinkDirectory(LinkDirectory&& other) noexcept
      : path_(std::exchange(other.path_, {})), lock_(std::move(other.lock_)) {}
  LinkDirectory& operator=(LinkDirectory&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(lock_, other.lock_);
    return *this;
  }
  ~LinkDirectory();

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  /// A fork's copy: the folder stays.
  void forget() noexcept { path_.clear(); }

 private:
  LinkDirectory(std::string path, Fd lock) : path_(std::move(path)), lock_(std::move(lock)) {}
  std::string path_;
  Fd lock_;
};

/// A connection on which the bridge has opened its end.
struct BridgeCall {
  std::unique_ptr<Link> link;
  RemoteAnswer answer;
};

/// Works for an end of this process whose channel is on another host. The end is an ordinary one,
/// of a channel of this process alone; the relay has its other end, which a side of a session
/// carries to the bridge. Where a link breaks it calls again, and goes on.
class Relay final : public detail::FarSide {
 public:
  /// Makes the other end of the channel in a directory.
  using MakeSide = std::function<Result<std::unique_ptr<RemoteSide>>(const std::string& directory)>;
  struct Setup {
    RemoteName name;
    RemoteOptions options;
    std::shared_ptr<Engine> engine;  // for the shared path
    RemoteRequest request;
    int interrupt = -1;
    std::chrono::nanoseconds spin{};  // of the user's end
    std::string parent;               // the channel directory
    MakeSide make_side;
    /// It is made before the user's end (a relay's producer), else after it (a relay's consumer).
    bool is_side_first = true;
    /// Told what is awaited, once a call, when nobody there has the name for kNoticeAfter. May be
    /// empty.
    std::function<void(const std::string& line)> notice{};
  };

  /// Calls the bridge and makes the folder.
  [[nodiscard]] static Result<std::shared_ptr<Relay>> make(Setup setup, Deadline deadline);
  Relay(Setup setup, Fd stop, Fd ended, Fd turns);
  /// What a producer has sent goes on its way first, for its patience at most: retire() lets
  /// another thread wait for that.
  ~Relay() override;

  [[nodiscard]] const std::string& directory() const noexcept { return directory_.path(); }
  /// Makes the side and starts the thread.
  [[nodiscard]] Result<void> start();

  [[nodiscard]] const std::string& name() const noexcept override { return text_; }
  [[nodiscard]] std::string path() const override;
  [[nodiscard]] Error reason(Error error) const override;
  [[nodiscard]] Result<void> reconnect(Deadline deadline) override;
  [[nodiscard]] Result<void> finish(Deadline deadline) override;
  [[nodiscard]] bool receive(Deadline deadline, const std::function<bool()>& is_there) override {
    return fork_guard_.is_this() && turns_.receive(deadline, setup_.interrupt, is_there);
  }
  void has_sent(Bytes bytes) noexcept override {
    if (fork_guard_.is_this()) turns_.has_sent(bytes <= kMostDriven);
  }

 private:
  static void retire(Relay* relay) noexcept;
  [[nodiscard]] bool has_to_finish() const noexcept;
  [[nodiscard]] Result<void> finish(Deadline deadline, int interrupt);
  [[nodiscard]] Result<void> connect(Deadline deadline);
  /// Calls the bridge, and notes the path; unless the session goes on, waits until the bridge has
  /// opened its end. Errors: those of connect_tcp(), call_bridge() and of opening the end there.
  [[nodiscard]] Result<BridgeCall> make_call(RemoteRequest request, int interrupt,
                                             Deadline deadline);
  void run(std::unique_ptr<RemoteSide> side, BridgeCall call) noexcept;
  [[nodiscard]] RemoteEnd carry(RemoteSide& side, BridgeCall call);
  void end_thread() noexcept;

  const Setup setup_;
  const std::string text_;  // of its name
  const ForkGuard fork_guard_;
  const std::shared_ptr<DetachedThreads> carriers_ = std::make_shared<DetachedThreads>();
  LinkDirectory directory_;
  std::optional<BridgeCall> call_;  // until the thread takes it
  const Fd stop_;                   // an event
  const Fd ended_;                  // an event: over_ is there
  SharedTurns turns_;
  std::thread thread_;

  mutable std::mutex mutex_;   // guards what follows
  std::optional<Error> over_;  // why the session is
  RemotePath taken_{};         // of the latest connection
  std::string served_;         // of the latest connection: where
};

}  // namespace gantry
