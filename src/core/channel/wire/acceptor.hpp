#pragma once  // channel/wire/acceptor.hpp: the thread that serves the sockets of all ends of a
              // runtime.

#include <sys/epoll.h>

#include <condition_variable>
#include <gantry/channel.hpp>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <unordered_map>
#include <vector>

#include "core/base/os/fork.hpp"
#include "core/base/os/shared_fd.hpp"
#include "core/base/result.hpp"

namespace gantry {

/// What an Acceptor calls for one channel or inbox, on the acceptor's thread. That thread serves
/// others, too: no call may wait for another process, nor close what a stranger sent.
class AcceptHandler {
 public:
  virtual ~AcceptHandler() = default;
  /// The descriptor watched under `token` is readable or has ended. Perhaps neither is true.
  virtual void ready(std::uint64_t token) = 0;
  /// Somebody called rouse(), or the time of wake_at() has come.
  virtual void roused() = 0;
};

/// One descriptor that an Acceptor watches, until this object goes. End the watch before closing
/// the descriptor: a fork's copy would keep it in the epoll for ever. Any thread; in a fork's copy
/// it does nothing.
class AcceptWatch {
 public:
  AcceptWatch() noexcept = default;
  AcceptWatch(AcceptWatch&& other) noexcept
      : acceptor_(std::move(other.acceptor_)), descriptor_(other.descriptor_), id_(other.id_) {}
  AcceptWatch& operator=(AcceptWatch&& other) noexcept {
    std::swap(acceptor_, other.acceptor_);
    std::swap(descriptor_, other.descriptor_);
    std::swap(id_, other.id_);
    return *this;
  }
  ~AcceptWatch() { end(); }

  void end() noexcept;
  [[nodiscard]] explicit operator bool() const noexcept { return acceptor_ != nullptr; }

 private:
  friend class Acceptor;
  AcceptWatch(std::shared_ptr<Acceptor> acceptor, int descriptor, std::uint64_t id) noexcept
      : acceptor_(std::move(acceptor)), descriptor_(descriptor), id_(id) {}
  std::shared_ptr<Acceptor> acceptor_;
  int descriptor_ = -1;
  std::uint64_t id_ = 0;
};

/// A thread with an epoll, started by the first add(). Any thread may call every member.
///   I1  A handler is called only between add() and the return of remove().
///   I2  No handler is called under mutex_, so that handlers may take locks under which others call
///       the acceptor.
///   I3  A handler that is called does not hold up remove() of another one.
///   I4  The thread sleeps while nothing happens, whatever fails: an epoll_wait(2) that fails for
///       another reason than a signal is tried again after a pause, and so is a handler that finds
///       no heap.
class Acceptor : public std::enable_shared_from_this<Acceptor> {
 public:
  [[nodiscard]] static Result<std::shared_ptr<Acceptor>> make();
  /// Returns the acceptor of the options; a new one if they have none, or one of a process before
  /// fork().
  [[nodiscard]] static Result<std::shared_ptr<Acceptor>> of(const EndOptions& options);
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  /// Errors: `system` when the thread cannot be started.
  [[nodiscard]] Result<void> add(AcceptHandler& handler);
  /// Returns when the handler is not being called and never will be. Do not call it under a lock
  /// that the handler takes.
  void remove(AcceptHandler& handler) noexcept;

  /// Watches a descriptor. The same one may be watched many times, as all channels to a process
  /// watch one pidfd.
  enum class Tell { always, once };  ///< As long as it is readable; once.
  [[nodiscard]] Result<AcceptWatch> watch(AcceptHandler& handler, int descriptor,
                                          std::uint64_t token, Tell tell = Tell::always);
  /// Has `roused` called. May be called under a lock that the handler takes.
  void rouse(AcceptHandler& handler) noexcept;
  /// The same at that time, once; replaces the time that was set before.
  void wake_at(AcceptHandler& handler, Deadline when) noexcept;

  /// Shares a pidfd among many users: returns one that somebody already holds for the same process,
  /// if the kernel can tell (Linux 6.9), else `pidfd` itself.
  [[nodiscard]] SharedFd share(Fd pidfd);

  /// Runs `use` with one descriptor to open, also when this process has none left, unless another
  /// thread is quicker. On the acceptor's thread; `use` closes what it opens.
  template <class Use>
  void with_spare(Use use) {
    spare_.reset();
    use();
    keep_spare();
  }

  /// Lends an event to a sleeper until it drops all copies; then it is lent to another. It may have
  /// been rung already.
  [[nodiscard]] Result<SharedFd> lend_event();

 private:
  friend class AcceptWatch;
  using Time = std::chrono::steady_clock::time_point;
  struct Listener {
    std::uint64_t id = 0;
    AcceptHandler* handler = nullptr;
    std::uint64_t token = 0;
  };
  struct Watched {
    std::uint64_t key = 0;  // of the epoll; never used again
    Tell tell = Tell::always;
    std::vector<Listener> listeners;
  };
  struct Served {
    Time at = Time::max();
    bool is_roused = false;
  };
  /// What mutex_ guards. A fork may have copied it half-changed, so the child does not touch it.
  struct State {
    std::uint64_t last_id = 0;
    std::unordered_map<int, Watched> watched;            // by descriptor
    std::unordered_map<std::uint64_t, int> descriptors;  // by key
    std::unordered_map<AcceptHandler*, Served> served;
    std::set<std::pair<Time, AcceptHandler*>> times;  // one for each that is served, so that
                                                      // changing it takes no memory
    std::vector<AcceptHandler*> roused;               // has room for all that are served
    std::map<std::uint64_t, std::weak_ptr<const Fd>> pidfds;  // by process_of()
    std::vector<SharedFd> events;                             // as many as were ever lent at once
    AcceptHandler* current = nullptr;
    bool stopping = false;
    std::mutex mutex;
    std::condition_variable returned;  // a handler that somebody waits for
    std::thread thread;
  };

  Acceptor() : state_(std::make_unique<State>()) {}
  void serve();
  [[nodiscard]] int wait(std::span<epoll_event> events);
  [[nodiscard]] int timeout_ms();
  void deliver(std::uint64_t key);
  void look_again(std::uint64_t key) noexcept;
  void deliver_roused();
  [[nodiscard]] std::vector<AcceptHandler*> take_due();
  [[nodiscard]] bool begin(AcceptHandler& handler, int descriptor, std::uint64_t id);
  void finish();
  void end_watch(int descriptor, std::uint64_t id) noexcept;
  void forget_listeners(const AcceptHandler& handler) noexcept;
  void drop_if_unheard(std::unordered_map<int, Watched>::iterator at) noexcept;
  [[nodiscard]] Result<void> arm(int descriptor, const Watched& watched, int operation) const;
  void set_time(AcceptHandler& handler, Served& served, Time at) noexcept;
  void keep_spare() noexcept;

  ForkGuard fork_guard_;
  std::unique_ptr<State> state_;
  Fd epoll_;
  Fd wake_;   // rung to end the thread, and when it has to look at roused or times
  Fd spare_;  // see with_spare(); of the thread, once that runs
};

}  // namespace gantry
