#pragma once  // remote/session.hpp: what both sides of a channel between hosts have in common.

#include <deque>
#include <gantry/link.hpp>
#include <gantry/types.hpp>

#include "base/fd.hpp"
#include "remote/remote_record.hpp"

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

/// A link wants to be called several times within its stall limit.
inline constexpr std::chrono::milliseconds kRemoteRest{200};
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

  RemoteSide() = default;
  RemoteSide(const RemoteSide&) = delete;
  RemoteSide& operator=(const RemoteSide&) = delete;
  virtual ~RemoteSide() = default;

  /// What the other side hears when this end's owner wants no more.
  void say_when_stopped(Error why) { stopped_ = std::move(why); }

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
  /// `otherwise`: unless say_when_stopped() was called.
  [[nodiscard]] Error stopped_or(std::string_view otherwise) const {
    return stopped_ ? *stopped_ : Error{Code::peer_gone, std::string(otherwise), {}};
  }

 private:
  std::optional<Error> stopped_;
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

/// Sleeps until one of the descriptors (-1: none) is readable, or for at most `most`. Returns which
/// are, a bit for each in their order.
unsigned sleep_on(std::initializer_list<int> descriptors, std::chrono::milliseconds most) noexcept;
[[nodiscard]] bool is_readable(int descriptor) noexcept;

/// A link's end as a session's: who spoke nonsense or said good-bye does not come back.
[[nodiscard]] RemoteEnd end_of_link(Error why);
/// Says a last word, and waits for half a second at most until it has gone.
void say_last(Link& link, ConstByteSpan record) noexcept;
/// Tells the other side, as far as that goes, and ends the link.
RemoteEnd end_session(Link& link, RemoteKind kind, Error why);

}  // namespace gantry
