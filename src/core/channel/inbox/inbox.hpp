#pragma once  // channel/inbox/inbox.hpp: the receiving end behind Inbox.

#include <gantry/call.hpp>

#include "core/base/wake_limit.hpp"
#include "core/channel/inbox/producer_listener.hpp"

namespace gantry {

// Senders with messages are read in turn. A sender is awake, and its ring is read every time, or
// asleep, and then it rings when it has something:
//   I1  A sender falls asleep only when nobody has anything, and is then read once more. [D]
//   I2  receive() sleeps only when all are asleep. It says `timed_out` when they are; or when some
//       have something that never becomes a message, and then it rings for itself.
//   I3  A sender that rings for nothing too often is out of the epoll while it is muted.
//   mutes_end_,
//       which is in there, is readable once that is over for one of them.
//   I4  All that are asleep sleep for hears_: a quiet message of a sender that is asleep may lie in
//       its ring only while hears_ is `urgent`.
// [D]: sync/wait_flag.hpp.

/// Threads: the caller's, one at a time, and the acceptor's.
class GANTRY_LOCAL Inbox::Impl {
 public:
  /// `is_protocol`: a server's, and the inbox is shown as a server; messages for which it is true
  /// are not counted. `purpose`: producers that come for another one are turned away.
  static Result<std::shared_ptr<Impl>> make(std::string_view name, const InboxOptions& options,
                                            IsProtocol is_protocol = nullptr,
                                            Purpose purpose = Purpose::deliver);
  /// Without a name: for the process that calls over that control connection. `name` is used in
  /// errors.
  static Result<std::shared_ptr<Impl>> make_for(ProducerListener::ControlConnection control,
                                                std::string_view name, const InboxOptions& options);
  ~Impl() { shut_down(); }
  Impl() = default;
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  [[nodiscard]] Result<void> check_process() const;  ///< Fails in a fork's copy.
  [[nodiscard]] Result<Delivery> receive(Deadline deadline);
  [[nodiscard]] int event_descriptor() const noexcept { return watched_.get(); }
  /// What senders ring for from here on. True: quiet messages lie there that did not ring, so
  /// receive() must be called before anybody sleeps.
  [[nodiscard]] bool hear(Hears hears);
  [[nodiscard]] std::vector<Sender> senders() const;
  /// True if a producer may be connected that receive() has not noticed; see
  /// ProducerListener::is_expecting(). The descriptor tells when that has changed.
  [[nodiscard]] bool is_expecting() const noexcept { return listener_->is_expecting(); }
  /// Hangs up on one sender, which hears `why` if it is a want of this process; its departure is
  /// not reported.
  void dismiss(std::uint64_t id, Code why = Code::closed);
  /// The identity of one sender, while it is there.
  [[nodiscard]] PeerIdentity identity_of(std::uint64_t id);
  /// The socket that one sender sent, if any; once. Errors: it could not be taken in.
  [[nodiscard]] Result<ReceivedFd> take_control_end(std::uint64_t id);
  [[nodiscard]] MetricsReport metrics() const { return metrics_.report(); }
  /// The producers hear `why` if it is `closed`.
  void shut_down(Code why = Code::peer_gone) noexcept;

 private:
  [[nodiscard]] Result<void> set_up(std::string_view name, const InboxOptions& options);
  [[nodiscard]] ProducerListener::Rules rules() const;
  [[nodiscard]] Result<void> start_listener();
  struct Source {
    Sender sender;
    PeerIdentity identity;
    std::shared_ptr<Consumer::Impl> end;
    int watched = -1;  // the end's event descriptor
    bool asleep = false;
    bool muted = false;
    std::uint64_t messages = 0;
    std::uint64_t done_at_ring = 0;
    WakeLimit wake_limit{};
  };

  [[nodiscard]] std::optional<Delivery> next_in_turn();
  [[nodiscard]] bool glance();
  [[nodiscard]] bool wake_who_has_something();
  void note(const Delivery& delivery) noexcept;
  [[nodiscard]] tl::unexpected<Error> give_up() const;
  [[nodiscard]] tl::unexpected<Error> nothing_came() const;
  void put_all_to_sleep();
  void note_ring(Source& source);
  void listen(Source& source, bool wanted) noexcept;
  void listen_again();
  void await_mutes_end() noexcept;
  [[nodiscard]] Result<void> sleep(Deadline deadline);
  [[nodiscard]] bool take_newcomers();
  [[nodiscard]] Result<int> watch(const Newcomer& newcomer, std::uint64_t id) const;
  void wake(Source& source);
  void forget(std::size_t index, Code why);
  void depart(std::size_t index, const Error& why);
  [[nodiscard]] std::vector<Source>::iterator find(std::uint64_t id);

  ForkGuard fork_guard_;
  std::string name_;
  ConsumerOptions options_;
  IsProtocol is_protocol_ = nullptr;
  Purpose purpose_ = Purpose::deliver;
  unsigned producers_ = 0;
  std::shared_ptr<ReceiveQuota> quota_;
  std::function<void(const Departure&)> on_departure_;
  Metrics metrics_;
  trace::EndTrace trace_;  // its waits; messages are their ends'
  Fd watched_;    // an epoll of the acceptor's news, mutes_end_, and every sender, by its id
  Fd mutes_end_;  // a timer
  std::vector<Source> sources_;  // by id
  std::size_t turn_ = 0;         // index of the next source
  std::uint64_t last_id_ = 0;
  std::uint64_t calls_ = 0;
  Hears hears_ = Hears::all;
  Claim claim_;
  std::optional<ProducerListener> listener_;  // last: it uses the claim
};

}  // namespace gantry
