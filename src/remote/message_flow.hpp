#pragma once  // remote/message_flow.hpp: where a session's messages come from, and where they go.

#include <gantry/channel.hpp>

#include "remote/remote_record.hpp"

namespace gantry {

/// What a sending side announces.
class MessageSource {
 public:
  MessageSource() = default;
  MessageSource(const MessageSource&) = delete;
  MessageSource& operator=(const MessageSource&) = delete;
  virtual ~MessageSource() = default;

  /// Returns the next message, and waits for nothing. Errors: `timed_out`: no more in this turn;
  /// any other says why there will be none any more.
  [[nodiscard]] virtual Result<Message> take() = 0;
  /// Readable when take() may have something.
  [[nodiscard]] virtual Result<int> event_descriptor() = 0;
};

/// Where a receiving side puts what it fetched. No call waits beyond its deadline.
class MessageSink {
 public:
  MessageSink() = default;
  MessageSink(const MessageSink&) = delete;
  MessageSink& operator=(const MessageSink&) = delete;
  virtual ~MessageSink() = default;

  /// Looks at what was announced; `payload` came with it, if the head says so. Errors:
  /// `peer_misbehaved`.
  [[nodiscard]] virtual Result<void> check(const RemoteHead& head, ConstByteSpan payload) = 0;
  /// False: it is not fetched any more, and goes nowhere.
  [[nodiscard]] virtual bool wants(const MessageInfo& info) const noexcept = 0;
  [[nodiscard]] virtual Result<Loan> loan(const MessageInfo& info, Bytes size,
                                          Deadline deadline) = 0;
  /// Memory for what does not go into a loan.
  [[nodiscard]] virtual Pool pool() = 0;
  /// Takes back what readers have released, for `bytes` of memory. False: it has not got so much.
  [[nodiscard]] virtual bool reclaim(Bytes) { return false; }
  /// A loan that is left behind by an error was not used.
  [[nodiscard]] virtual Result<void> send(Loan& loan, const SendOptions& options) = 0;
  [[nodiscard]] virtual Result<void> send(ConstByteSpan payload, const SendOptions& options) = 0;
  [[nodiscard]] virtual Result<void> send(Draft draft, const SendOptions& options) = 0;
  /// Whether send_early() does anything.
  [[nodiscard]] virtual bool takes_early() const noexcept { return false; }
  [[nodiscard]] virtual Result<EarlyMessage> send_early(Draft, const SendOptions&) {
    return tl::unexpected(Error{Code::unsupported, "nobody reads it as it lands", {}});
  }
  /// Says that the message cannot be taken in to whom that concerns. False: there is no room for
  /// that now. Errors: they end the session.
  [[nodiscard]] virtual Result<bool> refuse(const MessageInfo& info, const Error& why) = 0;
  [[nodiscard]] virtual Result<void> close(Deadline deadline) = 0;
};

/// What comes out of a channel of this host. A look at an empty channel asks the system twice, so
/// none follows a batch that was not full.
class ConsumerSource final : public MessageSource {
 public:
  explicit ConsumerSource(Consumer consumer) : consumer_(std::move(consumer)) {}
  [[nodiscard]] Result<Message> take() override {
    if (next_ < taken_) return std::move(batch_[next_++]);
    if (std::exchange(is_empty_, false)) return tl::unexpected(Error{Code::timed_out, {}, {}});
    next_ = taken_ = 0;
    auto taken = consumer_.receive_batch(batch_, Deadline::now());
    if (!taken) return tl::unexpected(std::move(taken).error());
    taken_ = *taken;
    is_empty_ = taken_ < batch_.size();
    return std::move(batch_[next_++]);
  }
  [[nodiscard]] Result<int> event_descriptor() override { return consumer_.event_descriptor(); }

 private:
  Consumer consumer_;
  std::array<Message, 4> batch_;
  std::size_t taken_ = 0;
  std::size_t next_ = 0;
  bool is_empty_ = false;  // as far as the last batch saw
};

/// What goes into a channel of this host. A message that cannot be taken in ends the session.
class ProducerSink final : public MessageSink {
 public:
  explicit ProducerSink(Producer producer) : producer_(std::move(producer)) {}
  [[nodiscard]] Result<void> check(const RemoteHead&, ConstByteSpan) override { return {}; }
  [[nodiscard]] bool wants(const MessageInfo&) const noexcept override { return true; }
  [[nodiscard]] Result<Loan> loan(const MessageInfo&, Bytes size, Deadline deadline) override {
    return producer_.loan(size, deadline);
  }
  [[nodiscard]] Pool pool() override { return producer_.pool(); }
  // A loan looks for it, a block of the pool does not.
  [[nodiscard]] bool reclaim(Bytes bytes) override {
    return producer_.loan(bytes, Deadline::now()).has_value();
  }
  [[nodiscard]] Result<void> send(Loan& loan, const SendOptions& options) override {
    return producer_.publish(std::move(loan), options);
  }
  [[nodiscard]] Result<void> send(ConstByteSpan payload, const SendOptions& options) override {
    return producer_.send(payload, options);
  }
  [[nodiscard]] Result<void> send(Draft draft, const SendOptions& options) override {
    return producer_.send(std::move(draft), options);
  }
  [[nodiscard]] bool takes_early() const noexcept override { return true; }
  [[nodiscard]] Result<EarlyMessage> send_early(Draft draft, const SendOptions& options) override {
    return producer_.send_early(std::move(draft), options);
  }
  [[nodiscard]] Result<bool> refuse(const MessageInfo&, const Error& why) override {
    return tl::unexpected(why);
  }
  [[nodiscard]] Result<void> close(Deadline deadline) override { return producer_.close(deadline); }

 private:
  Producer producer_;
};

}  // namespace gantry
