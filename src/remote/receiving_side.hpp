#pragma once  // remote/receiving_side.hpp: from the sending side there into a channel of this host.

#include <gantry/channel.hpp>

#include "remote/offered_places.hpp"
#include "remote/session.hpp"

namespace gantry {

/// Fetches the payload of announced messages into memory of a producer, each straight into its
/// place, and publishes them in their order. Several are fetched at a time, as many as the producer
/// has credits and memory for.
///   I1  announced_ holds consecutive numbers from received_ + 1 on; those being fetched come
///   first.
///   I2  Memory that is being fetched into is not given back before its transfer has ended.
///   I3  A message has a loan, which holds a credit, only if all in front of it have one: else
///   those that get theirs when they are published would wait for credits held behind them.
class ReceivingSide final : public RemoteSide {
 public:
  explicit ReceivingSide(Producer producer) : producer_(std::move(producer)) {}
  [[nodiscard]] RemoteEnd run(Link& link, std::uint64_t received, int stop) override;
  [[nodiscard]] std::uint64_t received() const noexcept override { return received_; }
  [[nodiscard]] Producer& producer() noexcept { return producer_; }

 private:
  struct Announced {
    RemoteHead head;
    std::vector<std::byte> payload;  // if it came with the head
    Loan loan;                       // of a plain one; else a block for each part that has bytes
    std::vector<Block> blocks;
    std::vector<Ticket> transfers;
    bool has_place = false;
    std::uint64_t offered_place = 0;  // it is being put there
    std::uint64_t deadline_ns = 0;
  };

  [[nodiscard]] Result<void> work(Link& link, int stop);
  [[nodiscard]] Result<bool> hear(Link& link);
  [[nodiscard]] Result<void> note(ConstByteSpan words);
  [[nodiscard]] Result<bool> fetch(Link& link);
  /// False: there is no credit or no memory now.
  [[nodiscard]] Result<bool> find_place(Announced& one, Deadline deadline, bool may_lend);
  [[nodiscard]] Result<std::vector<Block>> find_blocks(const RemoteHead& head);
  [[nodiscard]] Result<void> begin_transfers(Link& link, Announced& one);
  [[nodiscard]] std::size_t under_way(const Link& link) const;
  [[nodiscard]] bool is_under_way(const Link& link, const Announced& one) const;
  [[nodiscard]] bool is_coming(const Link& link) const;
  [[nodiscard]] Result<bool> publish(Link& link);
  [[nodiscard]] Result<bool> publish_one(Announced& one, Deadline deadline);
  [[nodiscard]] Result<bool> end_stream();
  /// True: it was told.
  bool acknowledge(bool is_idle);
  [[nodiscard]] Result<void> rest(Link& link, int stop);
  [[nodiscard]] bool is_fetching() const noexcept {
    return !announced_.empty() && announced_.front().has_place;
  }

  Producer producer_;
  std::uint64_t received_ = 0;      // published
  std::uint64_t acknowledged_ = 0;  // told over the present link
  std::uint64_t heard_ = 0;         // announced over the present link
  std::deque<Announced> announced_;
  OfferedPlaces places_;
  Bytes offer_for_ = 0;  // bytes of the last message that could have used an offered place
  HeadAssembler assembler_;
  std::optional<Error> ended_;    // the sending side's last word
  std::optional<Error> refused_;  // why this host's channel takes no more
  bool is_finished_ = false;      // whoever reads the channel has received the end
  RemoteSpeech speech_;
  std::array<std::byte, kMaxControlBytes> buffer_{};
};

}  // namespace gantry
