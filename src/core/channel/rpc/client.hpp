#pragma once  // channel/rpc/client.hpp: what Client and its PendingReplies share.

#include <gantry/call.hpp>
#include <map>

#include "core/base/assert.hpp"
#include "core/base/clock.hpp"
#include "core/channel/inbox/inbox.hpp"
#include "core/channel/producer/producer.hpp"
#include "core/channel/rpc/rpc_kind.hpp"
#include "core/channel/wire/step.hpp"

namespace gantry {

// Each call ends in one way:
//   I1  A correlation is in `calls_` from before its request is sent until somebody took its
//       outcome, or nobody wants it.
//   I2  Once `lost_` is set nothing more comes, and every call without an outcome has that one.
//   I3  With an event descriptor, any caller takes all replies that are there. It rings `settled_`
//       for the calls that it took them for, and `settled_` stays rung until those have asked,
//       whoever else says he was woken.

/// A connection to one server and one back. Used by the caller's thread.
class ClientLink {
 public:
  /// `purpose`: `call`; or `work`, without a way back: until introduce() has succeeded it only
  /// posts.
  static Result<std::shared_ptr<ClientLink>> make(Purpose purpose, std::string_view name,
                                                  const ClientOptions& options,
                                                  std::shared_ptr<Engine> engine,
                                                  Deadline deadline);
  [[nodiscard]] Result<void> introduce(Deadline deadline);
  /// The same with the name's present server.
  [[nodiscard]] Result<std::shared_ptr<ClientLink>> again(Deadline deadline) const;
  /// The server is on another host.
  void attach(std::shared_ptr<detail::FarSide> far_side);

  /// Fails in a fork's copy.
  [[nodiscard]] Result<void> check_process() const;
  /// `send` sends the request with the options it is given. Returns its correlation.
  template <class Send>
  [[nodiscard]] Result<std::uint64_t> begin(const CallOptions& options, Send send);
  [[nodiscard]] Result<Loan> loan(Bytes size, Deadline deadline);
  [[nodiscard]] Producer::Impl& requests() noexcept { return *requests_; }
  /// What a request that was not sent fails with.
  [[nodiscard]] Error not_sent(Error error);

  [[nodiscard]] Result<Message> wait(std::uint64_t correlation, Deadline deadline);
  [[nodiscard]] bool is_over(std::uint64_t correlation) const noexcept;
  void cancel(std::uint64_t correlation) noexcept;
  [[nodiscard]] Result<int> event_descriptor();
  void note_woken() noexcept;
  [[nodiscard]] Result<void> check();  ///< See Client.
  void hang_up() noexcept;             ///< Called when the client is dropped.

 private:
  struct Call {
    Deadline deadline = Deadline::never();
    std::optional<Result<Message>> outcome;
    bool sleeps = false;  // it was asked for in vain: its waiter sleeps on event_descriptor()
  };

  [[nodiscard]] Result<void> set_up(Deadline deadline);
  /// "server 'NAME'" or "queue 'NAME'".
  [[nodiscard]] std::string called() const {
    return fmt::format("{} '{}'", owner_of(purpose_), label_);
  }
  [[nodiscard]] Result<void> listen_for_replies();
  [[nodiscard]] Result<void> wait_once(Deadline deadline);
  /// Takes replies that are there, within bounds. True: there may be more.
  [[nodiscard]] bool take_replies();
  [[nodiscard]] bool take_all();
  void settle(Message message);
  void look_for_server();
  /// `why`: its message goes on after the server's name.
  void lose(const Error& why);
  void lose_server(const Error& why);
  [[nodiscard]] bool owes_news() const noexcept;
  void set_timer() noexcept;

  ForkGuard fork_guard_;
  std::string name_;
  Purpose purpose_ = Purpose::call;  // or work
  std::string label_;                // in errors: the name, and the host if it is another one
  std::shared_ptr<detail::FarSide> far_side_;  // null: the server is on this host
  ClientOptions options_;
  std::shared_ptr<Engine> engine_;
  Fd server_moves_;  // rung when the server comes or goes
  Fd alarms_;        // an epoll of that and of the user's interrupt: they end a wait for replies
  std::shared_ptr<Producer::Impl> requests_;
  std::shared_ptr<Inbox::Impl> replies_;  // null: the way back is not open
  bool is_introduced_ = false;
  std::map<std::uint64_t, Call> calls_;  // I1
  std::uint64_t last_ = 0;
  std::optional<Error> lost_;  // I2
  Fd watched_;                 // an epoll of all below and above; see event_descriptor()
  Fd settled_;                 // I3
  Fd timer_;                   // the earliest deadline
};

template <class Send>
Result<std::uint64_t> ClientLink::begin(const CallOptions& options, Send send) {
  GANTRY_TRY(check_process());
  GANTRY_ASSERT(is_introduced_);
  if (lost_) return tl::unexpected(*lost_);
  if (calls_.size() >= Client::kMaxCalls)
    return fail(Code::busy, fmt::format("{}: {} calls are in flight", called(), calls_.size()),
                "wait for one of them");
  SendOptions sending;
  sending.deadline =
      options.room.left() < options.deadline.left() ? options.room : options.deadline;
  sending.type = options.type;
  sending.user = static_cast<std::uint64_t>(RpcKind::request);
  const auto [call, is_new] = calls_.emplace(++last_, Call{options.deadline, {}, false});
  GANTRY_ASSERT(is_new);    // I1
  GANTRY_STEP(call_noted);  // first: what is sent is answered
  sending.correlation = last_;
  sending.as = wish_of(options_);
  if (!options.deadline.is_never())
    sending.deadline_ns =
        monotonic_ns() + static_cast<std::uint64_t>(options.deadline.left().count());
  if (Result<void> sent = guarded([&] { return send(sending); }); !sent) {
    calls_.erase(call);
    return tl::unexpected(not_sent(std::move(sent).error()));
  }
  GANTRY_STEP(call_sent);
  return last_;
}

}  // namespace gantry
