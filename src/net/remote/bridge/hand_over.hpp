#pragma once  // remote/bridge/hand_over.hpp: how a bridge hands a caller's connection to the
              // process whose channel it is.

#include "net/remote/admission.hpp"

namespace gantry {

// Over the socket of the name, behind a hello for Purpose::hand:
// bridge -> process  an offer
// process -> bridge  an answer to the caller; a process that is stopped or full says nothing
// bridge -> process  the connection, once its caller was welcomed; from here on it is the process's
// docs/formats/remote.md

/// What the process has to know of the caller.
struct HandOffer {
  enum class Kind : std::uint8_t {
    offer,
    question,  ///< Nothing follows: would an offer be taken?
  };
  Kind kind = Kind::offer;
  RemoteRequest request;  // of an admitted caller; its session is not 0 if it goes on
  SessionId session{};    // of a new one
  std::string peer;       // in errors
  std::chrono::milliseconds patience{0};
  std::chrono::milliseconds stall_limit{0};

  static constexpr std::size_t kMostBytes = RemoteRequest::kMostBytes + 256;
  [[nodiscard]] std::vector<std::byte> encode() const;
  /// Errors: `peer_misbehaved`.
  [[nodiscard]] static Result<HandOffer> decode(ConstByteSpan bytes);
};

/// The bridge's part.
class HandOver {
 public:
  /// Errors: why the process does not serve it; `timed_out`: nobody has the name; `busy`: it may
  /// serve it later; `permission_denied`: it is another user's.
  [[nodiscard]] static Result<HandOver> offer(const std::string& directory, const HandOffer& offer);
  [[nodiscard]] const RemoteAnswer& answer() const noexcept { return answer_; }
  [[nodiscard]] pid_t process() const noexcept { return process_; }
  /// `socket` must not be used here any more; empty: its caller has left. Errors: the process is
  /// gone: so is the connection.
  [[nodiscard]] Result<void> give(Fd socket) const;

 private:
  HandOver(Fd line, RemoteAnswer answer, pid_t process)
      : line_(std::move(line)), answer_(std::move(answer)), process_(process) {}
  Fd line_;
  RemoteAnswer answer_;
  pid_t process_;
};

/// The process's part. Errors of all: `timed_out`, `interrupted` by `stop`, `peer_gone`,
/// `peer_misbehaved`.
[[nodiscard]] Result<HandOffer> hear_offer(int line, int stop, Deadline deadline);
[[nodiscard]] Result<void> answer_offer(int line, const RemoteAnswer& answer);
/// The bridge gave up, since nobody answered in time.
[[nodiscard]] bool has_given_up(int line) noexcept;
/// It may be anything: a link looks at it. `peer_misbehaved` also when the caller has left.
[[nodiscard]] Result<Fd> take_connection(int line, int stop);
}  // namespace gantry
