#pragma once  // remote/session/sending_side.hpp: from a channel of this host to the receiving side
              // there.

#include <gantry/channel.hpp>
#include <gantry/link.hpp>
#include <list>

#include "net/remote/session/session.hpp"

namespace gantry {

/// What goes past a link's socket lies in a region that was exported whole. So each slab in which a
/// message lies is exported once over the present link, for as long as its channel has it mapped.
///   I1  A slab stays mapped for as long as it is exported: another mapping may get its address.
///   I2  A slab that nobody else has any more holds no message, and its export ends at the next
///       sweep().
class ExportedSlabs {
 public:
  struct Place {
    RemoteRegion region;
    Bytes offset = 0;
  };
  /// Where these bytes of a message lie in a slab; nothing: they lie in none. Errors: the link's
  /// end, `busy`.
  [[nodiscard]] Result<std::optional<Place>> find(Link& link, const Message& message,
                                                  ConstByteSpan bytes);
  [[nodiscard]] std::size_t size() const noexcept { return slabs_.size(); }
  void sweep() noexcept;
  /// The link has ended.
  void clear() noexcept { slabs_.clear(); }

 private:
  struct Slab {
    std::shared_ptr<const Region> region;
    Export exported;  // ends first
  };
  std::list<Slab> slabs_;  // none is ever moved: its export ends before its region
};

/// What a sending side announces.
class MessageSource {
 public:
  virtual ~MessageSource() = default;

  /// Returns the next message, and waits for nothing. Errors: `timed_out`: no more in this turn;
  /// any other says why there will be none any more.
  [[nodiscard]] virtual Result<Message> take() = 0;
  /// Readable when take() may have something.
  [[nodiscard]] virtual Result<int> event_descriptor() = 0;
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

/// Announces messages to the other side, which fetches their payload from where it lies in their
/// sender's memory. Keeps each until it is in the other side's channel, so that another link can go
/// on where one broke:
///   I1  unacknowledged_ holds consecutive numbers; the last one is last_number_.
///   I2  What the far end may read is exported over the present link, and belongs to one of them:
///       over a stream its bytes, else the slab in which it lies.
class SendingSide final : public RemoteSide {
 public:
  /// Messages that are not in the other side's channel yet.
  static constexpr std::size_t kMostUnacknowledged = 64;

  explicit SendingSide(std::shared_ptr<MessageSource> source) : source_(std::move(source)) {}
  explicit SendingSide(Consumer consumer)
      : SendingSide(std::make_shared<ConsumerSource>(std::move(consumer))) {}
  [[nodiscard]] Result<void> begin(Link& link, std::uint64_t received) override;
  [[nodiscard]] Result<Turn> turn(Link& link) override;
  /// Readable when there is more to take; -1: nothing more may be taken now.
  [[nodiscard]] int event(const Link& link) override;
  /// Few slots wait for an acknowledgement, and no payload is to be sent.
  [[nodiscard]] bool may_rest() const noexcept override;
  [[nodiscard]] RemoteEnd end(Link& link, const Result<void>& done) override;
  /// What was published is not lost with its process.
  [[nodiscard]] std::chrono::milliseconds time_to_settle() const noexcept override {
    return std::chrono::seconds(unacknowledged_.empty() ? 0 : 5);
  }
  [[nodiscard]] std::uint64_t received() const noexcept override { return 0; }

  // ---- its work in steps, where the link carries the other direction, too: CallsSide
  [[nodiscard]] Result<bool> take_record(const Link& link, RemoteKind kind,
                                         WordReader& in) override;
  /// Takes and says what it can now. True: that was something.
  [[nodiscard]] Result<bool> step(Link& link);
  [[nodiscard]] bool has_last_word() const noexcept override { return answer_.has_value(); }
  /// The other side's last word.
  [[nodiscard]] const std::optional<Error>& answer() const noexcept { return answer_; }
  /// The link has ended, or was closed.
  void end_exports() noexcept;

 private:
  struct Unacknowledged {
    std::uint64_t number = 0;
    Message message;
    std::vector<Export> exports;
    std::optional<Ticket> put;  // into an offered place
    bool is_small = false;      // it travels with its announcement
  };
  /// Places that the receiving side has offered and that no message has taken.
  static constexpr std::size_t kMostPlaces = 64;

  [[nodiscard]] RemoteEnd end_over(Link& link, const Result<void>& done);
  [[nodiscard]] bool takes_more(const Link& link) const;
  [[nodiscard]] Result<bool> take_messages(Link& link);
  [[nodiscard]] Result<void> announce(Link& link, Unacknowledged& one);
  [[nodiscard]] Result<void> export_part(Link& link, Unacknowledged& one, ConstByteSpan bytes,
                                         RemoteHead::Part& part);
  [[nodiscard]] Result<void> put_ahead(Link& link, Unacknowledged& one, RemoteHead& head);
  [[nodiscard]] Result<void> note_place(WordReader& in);
  [[nodiscard]] Result<void> acknowledge(const Link& link, std::uint64_t number);
  [[nodiscard]] Result<void> tell_end();

  const std::shared_ptr<MessageSource> source_;
  std::deque<Unacknowledged> unacknowledged_;
  ExportedSlabs slabs_;
  std::uint64_t last_number_ = 0;
  std::deque<RemotePlace> places_;  // over the present link
  std::optional<Error> ended_;      // why the consumer has no more
  bool has_told_end_ = false;       // over the present link
  bool has_payload_left_ = false;   // for the socket, behind the last turn
  std::optional<Error> answer_;     // the other side's last word
  RemoteSpeech speech_;
};

}  // namespace gantry
