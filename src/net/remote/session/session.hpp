#pragma once  // remote/session/session.hpp: what both sides of a channel between hosts have in
              // common.

#include <atomic>
#include <deque>
#include <functional>
#include <gantry/link.hpp>
#include <gantry/types.hpp>
#include <memory>
#include <mutex>

#include "core/base/os/fd.hpp"
#include "core/channel/wire/waiter.hpp"
#include "net/remote/session/remote_record.hpp"
#include "net/remote/tcp.hpp"

namespace gantry {

/// How a side's work over one link came to its end.
struct RemoteEnd {
  enum class Kind : std::uint8_t {
    over,     ///< Both sides know; `why` says closed, or what went wrong.
    broken,   ///< The link is; another one may go on.
    stopped,  ///< This end's owner wants no more.
  };
  Kind kind = Kind::over;
  Error why;
};

/// The largest message that a user's thread sends and receives itself: larger ones move on a thread
/// of their own while the user's works on.
inline constexpr Bytes kMostDriven = Bytes{128} << 10;

/// Turns of a side's work between looks at whether it shall stop.
inline constexpr unsigned kRemoteTurns = 64;

/// A side of a session: works over one link until that ends, and may go on over another. One thread
/// at a time, any thread: SharedTurns.
class RemoteSide {
 public:
  enum class Turn : std::uint8_t {
    moved,  ///< Calling again at once may be worth it.
    idle,
    over,  ///< The session is; end() says how.
  };

  virtual ~RemoteSide() = default;

  /// What the other side hears when this end's owner wants no more.
  void say_when_stopped(Error why) { stopped_ = std::move(why); }
  /// This end's owner wants no more. What is on its way arrives first, within time_to_settle().
  void settle(Link& link);
  /// How long what is on its way may take; 0: nothing is.
  [[nodiscard]] virtual std::chrono::milliseconds time_to_settle() const noexcept { return {}; }

  /// From here on it works over this link. `received`: of the sending side, what the other side has
  /// by now.
  [[nodiscard]] virtual Result<void> begin(Link& link, std::uint64_t received) = 0;
  /// Does what can be done now, and waits for nothing. An error is the end of the work.
  [[nodiscard]] virtual Result<Turn> turn(Link& link) = 0;
  /// After an idle turn: waits a little for what no descriptor tells. False: there is no such
  /// thing.
  [[nodiscard]] virtual Result<bool> linger(Link&) { return false; }
  /// Else it may sleep that long on the link's descriptor and this one (-1: none).
  [[nodiscard]] virtual std::chrono::milliseconds patience(const Link&) const {
    return kRemoteRest;
  }
  [[nodiscard]] virtual int event(const Link&) { return -1; }
  /// All that comes next comes over the link.
  [[nodiscard]] virtual bool waits_for_link(const Link&) const { return true; }
  /// Nothing suffers if nobody takes a turn for a millisecond.
  [[nodiscard]] virtual bool may_rest() const noexcept { return false; }
  /// `done`: no error means that a turn was over, or else that this end's owner wants no more.
  [[nodiscard]] virtual RemoteEnd end(Link& link, const Result<void>& done) = 0;
  /// The number of the last message that is in this side's channel; 0 at the sending side.
  [[nodiscard]] virtual std::uint64_t received() const noexcept = 0;

 protected:
  /// Takes in the records that are there, up to a last word. True: there were some. `stranger`:
  /// what is said of a record that take_record() does not know. Errors: `peer_misbehaved`, the
  /// link's end.
  [[nodiscard]] Result<bool> hear(Link& link, std::string_view stranger);
  /// `in`: behind the kind. False: the other side does not say that.
  [[nodiscard]] virtual Result<bool> take_record(const Link&, RemoteKind, WordReader&) {
    return false;
  }
  /// The other side was heard to the end.
  [[nodiscard]] virtual bool has_last_word() const noexcept { return false; }
  /// `otherwise`: unless say_when_stopped() was called.
  [[nodiscard]] Error stopped_or(std::string_view otherwise) const {
    return stopped_ ? *stopped_ : Error{Code::peer_gone, std::string(otherwise), {}};
  }

 private:
  std::optional<Error> stopped_;
  std::array<std::byte, kMaxControlBytes> buffer_{};
};

/// Records that wait for room in a link's queue of control messages.
class RemoteSpeech {
 public:
  void say(std::vector<std::byte> record) { waiting_.push_back(std::move(record)); }
  void clear() noexcept { waiting_.clear(); }
  [[nodiscard]] bool is_empty() const noexcept { return waiting_.empty(); }
  /// Hands the link what it takes now. True: it took something. Errors: the link's end.
  [[nodiscard]] Result<bool> flush(Link& link);

 private:
  std::deque<std::vector<std::byte>> waiting_;
};

/// The next record of the other side, if one is there; it lies in `buffer`. Errors: the link's end.
[[nodiscard]] Result<std::optional<ConstByteSpan>> next_record(Link& link, ByteSpan buffer);

/// The other side's last word. It ends the channel here, whatever made it end there: nobody shall
/// try again because of it.
[[nodiscard]] Error read_last_word(WordReader& in);

/// A link's end as a session's: who spoke nonsense or said good-bye does not come back.
[[nodiscard]] RemoteEnd end_of_link(Error why);
/// Says a last word, and waits for half a second at most until it has gone.
void say_last(Link& link, ConstByteSpan record) noexcept;
/// Tells the other side, as far as that goes, and ends the link.
RemoteEnd end_session(Link& link, RemoteKind kind, Error why);

/// Takes a side's turns until its work over a link has ended. A thread of its own does so in run().
/// While a user's thread waits for a message, or has just sent one, it takes them itself, so that
/// no other thread needs to be woken: run() rests then.
///   I1  Only who holds mutex_ uses side_ and *link_. Both are null outside of run().
///   I2  run() takes no turn while is_driven_.
///   I3  Nobody else takes one after end_ is set; run() was rung then.
///   I4  run() sleeps on all that the side waits for, or for kRest at most; longer only while
///       is_driven_, and then whoever ends that rings.
///   I5  Who drives has looked for a message under the lock, behind the last turn of run().
class SharedTurns {
 public:
  /// `stop`: ends run() when it is readable. `ring`: an event of this object's alone; without one
  /// no user's thread takes turns. `spin`: the longest time that receive() polls.
  /// `settles`: a side that is stopped does so.
  explicit SharedTurns(int stop, Fd ring = {}, std::chrono::nanoseconds spin = {},
                       bool settles = false) noexcept
      : stop_(stop), ring_(std::move(ring)), settles_(settles), spin_(spin) {}

  /// The thread of the side.
  [[nodiscard]] RemoteEnd run(RemoteSide& side, std::shared_ptr<Link> link, std::uint64_t received);

  /// A thread that waits for what the side receives; one at a time. `is_there` says whether it has
  /// come already: run() may have received it just before. True: something was received. False: it
  /// is to be waited for as any other channel's message.
  [[nodiscard]] bool receive(Deadline deadline, int interrupt,
                             const std::function<bool()>& is_there) noexcept;
  /// A thread that has given the side something to send. `is_small`: it costs little to send.
  void has_sent(bool is_small) noexcept;

 private:
  using Lock = std::unique_lock<std::mutex>;
  using Turn = RemoteSide::Turn;

  [[nodiscard]] Result<void> work(Lock& lock);
  /// True: it is to stop.
  [[nodiscard]] bool sleep(Lock& lock);
  void rest(Lock& lock);
  [[nodiscard]] bool drive(Lock& lock, Deadline deadline, int interrupt);
  /// A turn in a user's thread. Nothing: that was the last one.
  [[nodiscard]] std::optional<Turn> take_turn() noexcept;
  void check_invariants() const noexcept;

  const int stop_;
  const Fd ring_;
  const bool settles_;
  SpinTime spin_;                     // of the thread that receives
  std::atomic<bool> is_sent_{false};  // [S]: there may be something to send
  std::atomic<bool> rests_{false};    // [S]: run() does not sleep on what the side waits for

  std::mutex mutex_;  // guards what follows
  RemoteSide* side_ = nullptr;
  std::shared_ptr<Link> link_;
  std::optional<Result<void>> end_;  // of the work, found by a user's thread
  bool is_driven_ = false;           // a thread is in receive()
  bool is_at_link_ = false;          // run() sleeps on the link
  bool is_to_ring_ = false;          // run() sleeps until it is rung
  std::uint64_t drives_ = 0;         // turns that were taken for run(), or began to be
  std::uint64_t seen_drives_ = 0;    // by run()
};

}  // namespace gantry
