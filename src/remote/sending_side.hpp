#pragma once  // remote/sending_side.hpp: from a channel of this host to the receiving side there.

#include <gantry/channel.hpp>

#include "remote/session.hpp"

namespace gantry {

/// Announces the messages of a consumer to the other side, which fetches their payload from where
/// it lies in the producer's memory. Keeps each until it is in the other side's channel, so that
/// another link can go on where one broke:
///   I1  unacknowledged_ holds consecutive numbers; the last one is last_number_.
///   I2  What the far end may read is exported over the present link, and belongs to one of them.
class SendingSide final : public RemoteSide {
 public:
  /// Messages that are not in the other side's channel yet.
  static constexpr std::size_t kMostUnacknowledged = 64;

  explicit SendingSide(Consumer consumer) : consumer_(std::move(consumer)) {}
  [[nodiscard]] RemoteEnd run(Link& link, std::uint64_t received, int stop) override;
  [[nodiscard]] std::uint64_t received() const noexcept override { return 0; }

 private:
  struct Unacknowledged {
    std::uint64_t number = 0;
    Message message;
    std::vector<Export> exports;
    std::optional<Ticket> put;  // into an offered place
  };
  /// Places that the receiving side has offered and that no message has taken.
  static constexpr std::size_t kMostPlaces = 64;

  [[nodiscard]] RemoteEnd end_over(Link& link, const Result<void>& done);
  [[nodiscard]] Result<void> begin(Link& link, std::uint64_t received);
  [[nodiscard]] Result<bool> hear(Link& link);
  [[nodiscard]] bool takes_more(const Link& link) const;
  [[nodiscard]] Result<bool> take_messages(Link& link);
  [[nodiscard]] Result<void> announce(Link& link, Unacknowledged& one);
  [[nodiscard]] Result<void> put_ahead(Link& link, Unacknowledged& one, RemoteHead& head);
  [[nodiscard]] Result<void> note_place(WordReader& in);
  [[nodiscard]] Result<void> acknowledge(const Link& link, std::uint64_t number);
  [[nodiscard]] Result<void> tell_end();
  void rest(const Link& link, int stop);

  Consumer consumer_;
  std::deque<Unacknowledged> unacknowledged_;
  std::uint64_t last_number_ = 0;
  std::deque<RemotePlace> places_;  // over the present link
  std::optional<Error> ended_;      // why the consumer has no more
  bool has_told_end_ = false;       // over the present link
  std::optional<Error> answer_;     // the other side's last word
  RemoteSpeech speech_;
  std::array<std::byte, kMaxControlBytes> buffer_{};
};

}  // namespace gantry
