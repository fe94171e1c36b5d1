#pragma once  // remote/session/calls.hpp: a session of calls: requests in one direction, answers in
              // the other.

#include <deque>
#include <gantry/call.hpp>
#include <map>

#include "net/remote/session/receiving_side.hpp"
#include "net/remote/session/sending_side.hpp"

namespace gantry {

/// Gives one side what goes out, and takes what the other one brought in. Used by one thread.
class CallEnd : public MessageSource, public MessageSink {
 public:
  /// Nobody ends a session of calls regularly.
  [[nodiscard]] Result<void> close(Deadline) override { return {}; }
  [[nodiscard]] Pool pool() override { return pool_; }

 protected:
  explicit CallEnd(Pool pool) : pool_(std::move(pool)) {}

 private:
  Pool pool_;
};

/// In the caller's process: takes the requests of its client, and answers them with what the
/// service there said.
///   I1  A call is in calls_ until it is answered, or its client does not wait for it any more; so
///       it is answered once.
///   I2  A request goes out behind the cancellations that made room for it: the bridge takes as
///   many
///       calls as a client may have in flight, and no more.
class CallsTaken final : public CallEnd {
 public:
  /// `pool` is the server's, for replies.
  CallsTaken(Server server, Pool pool) : CallEnd(std::move(pool)), server_(std::move(server)) {}
  /// The server goes first: its client hears that it is gone, and of no request that was dropped.
  ~CallsTaken() override { server_.reset(); }

  [[nodiscard]] Result<Message> take() override;
  [[nodiscard]] Result<int> event_descriptor() override { return server_->event_descriptor(); }

  [[nodiscard]] Result<void> check(const RemoteHead& head, ConstByteSpan payload) override;
  [[nodiscard]] bool wants(const MessageInfo& info) const noexcept override {
    return calls_.contains(info.correlation);
  }
  [[nodiscard]] Result<Loan> loan(const MessageInfo& info, Bytes size, Deadline deadline) override;
  [[nodiscard]] Result<void> send(Loan& loan, const SendOptions& options) override;
  [[nodiscard]] Result<void> send(ConstByteSpan payload, const SendOptions& options) override;
  [[nodiscard]] Result<void> send(Draft draft, const SendOptions& options) override;
  [[nodiscard]] Result<bool> refuse(const MessageInfo& info, const Error& why) override;

 private:
  [[nodiscard]] Message begin(Request request);
  void note_unwanted();
  /// `work` answers the request, unless it is gone.
  template <class Work>
  [[nodiscard]] Result<void> answer(std::uint64_t number, Work work);

  std::map<std::uint64_t, std::shared_ptr<Request>> calls_;  // I1
  std::deque<std::uint64_t> cancelled_;                      // not said yet
  std::optional<Request> next_;                              // waits for cancelled_: I2
  std::uint64_t last_ = 0;
  std::optional<Server> server_;
};

/// At the bridge: calls the service for the caller.
///   I1  A call is in calls_ until its outcome was taken or the caller cancelled it; so it has one
///       answer at most.
///   I2  Numbers of requests rise: one that was handed to the service is not handed to it again.
///   I3  At most Client::kMaxCalls calls and answers wait here, beside those that were announced.
class CallsMade final : public CallEnd {
 public:
  /// `pool` is the client's, for requests.
  CallsMade(Client client, Pool pool) : CallEnd(std::move(pool)), client_(std::move(client)) {}

  [[nodiscard]] Result<Message> take() override;
  [[nodiscard]] Result<int> event_descriptor() override { return client_.event_descriptor(); }

  [[nodiscard]] Result<void> check(const RemoteHead& head, ConstByteSpan payload) override;
  [[nodiscard]] bool wants(const MessageInfo&) const noexcept override { return true; }
  [[nodiscard]] Result<Loan> loan(const MessageInfo&, Bytes size, Deadline deadline) override {
    return client_.loan(size, deadline);
  }
  [[nodiscard]] Result<void> send(Loan& loan, const SendOptions& options) override;
  [[nodiscard]] Result<void> send(ConstByteSpan payload, const SendOptions& options) override;
  [[nodiscard]] Result<void> send(Draft draft, const SendOptions& options) override;
  [[nodiscard]] Result<bool> refuse(const MessageInfo& info, const Error& why) override;

 private:
  struct Call {
    PendingReply pending;
    Deadline deadline = Deadline::never();
  };
  void look();
  void note_lost();
  void settle(std::uint64_t number, Call call);
  [[nodiscard]] Message answer(std::uint64_t number, Message reply);
  [[nodiscard]] bool has_room() const noexcept {
    return calls_.size() + ready_.size() < Client::kMaxCalls;
  }
  /// Hands `begin` the call's options, if there is room and nobody has waited too long.
  template <class Begin>
  [[nodiscard]] Result<void> call(const SendOptions& options, Begin begin);

  Client client_;
  std::map<std::uint64_t, Call> calls_;                         // I1
  std::deque<Message> ready_;                                   // answers
  std::uint64_t last_ = 0;                                      // I2
  std::optional<Error> lost_;                                   // why the service is
  std::shared_ptr<Bytes> copied_ = std::make_shared<Bytes>(0);  // in answers that were copied
};

/// One end of a session of calls: both sides of a channel at once, over one link. Both remember
/// what the other end has, so that another link goes on where one broke; a call is neither made nor
/// answered a second time.
class CallsSide final : public RemoteSide {
 public:
  explicit CallsSide(const std::shared_ptr<CallEnd>& end) : out_(end), in_(end) {}
  [[nodiscard]] Result<void> begin(Link& link, std::uint64_t received) override;
  [[nodiscard]] Result<Turn> turn(Link& link) override;
  [[nodiscard]] std::chrono::milliseconds patience(const Link& link) const override {
    return in_.patience(link);
  }
  [[nodiscard]] int event(const Link& link) override { return out_.event(link); }
  [[nodiscard]] RemoteEnd end(Link& link, const Result<void>& done) override;
  [[nodiscard]] std::uint64_t received() const noexcept override { return in_.received(); }

 private:
  [[nodiscard]] Result<bool> take_record(const Link& link, RemoteKind kind,
                                         WordReader& in) override;
  [[nodiscard]] bool has_last_word() const noexcept override { return out_.answer().has_value(); }
  [[nodiscard]] RemoteEnd end_over(Link& link, const Result<void>& done);
  [[nodiscard]] bool is_over() const noexcept { return out_.answer() || in_.is_done(); }

  SendingSide out_;
  ReceivingSide in_;
};

}  // namespace gantry
