#pragma once  // remote/receiving_side.hpp: from the sending side there into a channel of this host.

#include "remote/message_flow.hpp"
#include "remote/offered_places.hpp"
#include "remote/session.hpp"

namespace gantry {

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
    return was_small_ && announced_.empty() && speech_.is_empty() && !ended_ && !refused_;
  }
  [[nodiscard]] RemoteEnd end(Link& link, const Result<void>& done) override;
  [[nodiscard]] std::uint64_t received() const noexcept override { return received_; }

  // ---- its work in steps, where the link carries the other direction, too: CallsSide
  /// False: no sending side says that.
  [[nodiscard]] Result<bool> take_record(RemoteKind kind, WordReader& in);
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

  [[nodiscard]] Result<bool> hear(Link& link);
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
  HeadAssembler assembler_;
  std::optional<Error> ended_;    // the sending side's last word
  std::optional<Error> refused_;  // why this host's channel takes no more
  bool is_finished_ = false;      // whoever reads the channel has received the end
  bool is_done_ = false;
  RemoteSpeech speech_;
  std::array<std::byte, kMaxControlBytes> buffer_{};
};

}  // namespace gantry
