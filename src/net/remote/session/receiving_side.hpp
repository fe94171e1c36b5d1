#pragma once  // remote/session/receiving_side.hpp: from the sending side there into a channel of
              // this host.

#include <gantry/channel.hpp>
#include <gantry/link.hpp>
#include <gantry/memory.hpp>
#include <map>

#include "net/remote/session/session.hpp"

namespace gantry {

/// Places that the sending side may put payload into without being asked: a message that takes one
/// is here half a round trip earlier. They are as large as the last message that could have used
/// one, and hold memory, but no credit.
///   I1  Nothing is read or handed on from a place before its export has ended.
class OfferedPlaces {
 public:
  static constexpr std::ptrdiff_t kMost = 2;  // more leave the caches: docs/results/link.md
  static constexpr Bytes kMostBytes = Bytes{16} << 20;  // of one

  /// Says what places there are for messages of `bytes` (not 0), as far as `pool` has memory to
  /// spare.
  /// Smaller ones are withdrawn.
  [[nodiscard]] Result<void> offer(Link& link, Pool pool, Bytes bytes, RemoteSpeech& speech);
  /// Withdraws those that no message has taken. True: there were some.
  bool withdraw_free() noexcept;
  /// The sending side says that a message of `bytes` goes there. False: it does not, since the
  /// place is taken, too small, or was withdrawn meanwhile.
  [[nodiscard]] bool begin(std::uint64_t place, Bytes bytes) noexcept;
  /// Takes in what has landed. Errors: `peer_misbehaved`, the link's end.
  [[nodiscard]] Result<bool> hear(Link& link);
  [[nodiscard]] bool has_landed(std::uint64_t place) const noexcept;
  /// Needs has_landed().
  [[nodiscard]] Block take(std::uint64_t place);
  /// The link has ended, or was closed.
  void clear() noexcept { places_.clear(); }

 private:
  struct Place {
    Block block;
    Export exported;  // goes before the block
    bool is_begun = false;
    bool has_landed = false;
  };

  std::map<std::uint64_t, Place> places_;
  std::uint64_t last_ = 0;
};

/// Where a receiving side puts what it fetched. No call waits beyond its deadline.
class MessageSink {
 public:
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

/// There is no credit or no memory now.
[[nodiscard]] inline bool is_full(const Error& error) noexcept {
  return error.code == Code::timed_out || error.code == Code::busy ||
         error.code == Code::out_of_memory;
}

/// Fetches the payload of announced messages into memory of a sink, each straight into its place,
/// and sends them there in their order. Several are fetched at a time, as many as the sink has
/// credits and memory for.
///   I1  announced_ holds consecutive numbers from received_ + 1 on; those being fetched come
///   first.
///   I2  Memory that is being fetched into is not given back before its transfer has ended.
///   I3  A message has a loan, which holds a credit, only if all in front of it have one: else
///   those that get theirs when they are published would wait for credits held behind them.
///   I4  Only the first message is sent on before it has landed. If its link breaks, it goes on
///   where it stopped: begun_ is what readers see of message received_ + 1.
class ReceivingSide final : public RemoteSide {
 public:
  explicit ReceivingSide(std::shared_ptr<MessageSink> sink) : sink_(std::move(sink)) {}
  explicit ReceivingSide(Producer producer)
      : ReceivingSide(std::make_shared<ProducerSink>(std::move(producer))) {}
  [[nodiscard]] Result<void> begin(Link& link, std::uint64_t received) override;
  [[nodiscard]] Result<Turn> turn(Link& link) override;
  [[nodiscard]] Result<bool> linger(Link& link) override;
  [[nodiscard]] std::chrono::milliseconds patience(const Link& link) const override;
  [[nodiscard]] bool waits_for_link(const Link& link) const override;
  /// Not before a large message, which is fetched while the reader works on the last one.
  [[nodiscard]] bool may_rest() const noexcept override {
    return was_quick_ && announced_.empty() && speech_.is_empty() && !ended_ && !refused_;
  }
  [[nodiscard]] RemoteEnd end(Link& link, const Result<void>& done) override;
  /// The other side's end may be behind its last message, which is to be acknowledged.
  [[nodiscard]] std::chrono::milliseconds time_to_settle() const noexcept override {
    return std::chrono::milliseconds(announced_.empty() ? 500 : 0);
  }
  [[nodiscard]] std::uint64_t received() const noexcept override { return received_; }

  // ---- its work in steps, where the link carries the other direction, too: CallsSide
  [[nodiscard]] Result<bool> take_record(const Link& link, RemoteKind kind,
                                         WordReader& in) override;
  /// Takes in what has been put into offered places. True: there was something.
  [[nodiscard]] Result<bool> take_landed(Link& link) { return places_.hear(link); }
  /// Fetches, sends on and says what it can now. `is_idle`: there is nothing else to do; then it
  /// acknowledges at once. True: there was something.
  [[nodiscard]] Result<bool> step(Link& link, bool is_idle);
  /// The session has come to its end, and the other side was told.
  [[nodiscard]] bool is_done() const noexcept { return is_done_; }
  /// Why, if is_done().
  [[nodiscard]] const Error& why() const noexcept { return refused_ ? *refused_ : *ended_; }
  /// The sending side's last word.
  [[nodiscard]] const std::optional<Error>& ended() const noexcept { return ended_; }
  /// The link was closed, or all is done.
  void end_transfers(const Link& link) noexcept;

 private:
  struct Piece {
    Ticket transfer;
    Bytes end = 0;  // of the payload that has come with it and those before it
  };
  struct Announced {
    RemoteHead head;
    std::vector<std::byte> payload;  // if it came with the head
    Loan loan;                       // of a plain one; else a block for each part that has bytes
    std::vector<Block> blocks;
    std::vector<Piece> pieces;
    bool has_place = false;
    bool is_early = false;                   // it is to be sent on before it has landed
    std::optional<EarlyMessage> outgoing{};  // it was: I4
    bool is_dropped = false;                 // nobody wants it any more
    std::optional<Error> trouble;            // why it cannot be taken in; told in its turn
    std::uint64_t offered_place = 0;         // it is being put there
    std::uint64_t deadline_ns = 0;
  };

  [[nodiscard]] Result<void> note(ConstByteSpan words);
  [[nodiscard]] Result<bool> fetch(Link& link);
  /// False: there is no credit or no memory now.
  [[nodiscard]] Result<bool> find_place(Announced& one, Deadline deadline, bool may_lend);
  [[nodiscard]] bool is_for_early(const Announced& one) const noexcept;
  [[nodiscard]] Result<void> find_blocks(Announced& one);
  [[nodiscard]] Result<void> go_on(Announced& one);
  [[nodiscard]] Result<void> begin_transfers(Link& link, Announced& one);
  [[nodiscard]] std::size_t under_way(const Link& link) const;
  [[nodiscard]] bool is_under_way(const Link& link, const Announced& one) const;
  [[nodiscard]] bool is_coming(const Link& link) const;
  [[nodiscard]] Result<bool> publish(Link& link);
  /// How much has landed, from the front.
  [[nodiscard]] static Bytes landed(const Link& link, const Announced& one) noexcept;
  [[nodiscard]] static Result<void> check_transfers(Link& link, const Announced& one);
  [[nodiscard]] Result<void> send_early(Announced& one, Bytes landed);
  [[nodiscard]] Result<bool> publish_one(Announced& one, Deadline deadline);
  [[nodiscard]] static SendOptions options_of(const Announced& one, Deadline deadline);
  [[nodiscard]] static Draft draft_of(const Announced& one);
  [[nodiscard]] Result<void> send(Announced& one, Deadline deadline);
  /// False: it cannot be told now.
  [[nodiscard]] bool refuse(const Announced& one);
  [[nodiscard]] Result<bool> end_stream();
  /// True: it was told.
  bool acknowledge(bool is_idle);
  [[nodiscard]] bool is_fetching() const noexcept {
    return !announced_.empty() && announced_.front().has_place;
  }

  const std::shared_ptr<MessageSink> sink_;
  std::uint64_t received_ = 0;      // published
  std::uint64_t acknowledged_ = 0;  // told over the present link
  std::uint64_t heard_ = 0;         // announced over the present link
  std::deque<Announced> announced_;
  std::optional<Announced> begun_;  // I4
  OfferedPlaces places_;
  Bytes offer_for_ = 0;    // bytes of the last message that could have used an offered place
  bool was_small_ = true;  // the last message: its payload came with the head
  bool was_quick_ = true;  // it did, or was put into an offered place and not large
  HeadAssembler assembler_;
  std::optional<Error> ended_;    // the sending side's last word
  std::optional<Error> refused_;  // why this host's channel takes no more
  bool is_finished_ = false;      // whoever reads the channel has received the end
  bool is_done_ = false;
  RemoteSpeech speech_;
};

}  // namespace gantry
