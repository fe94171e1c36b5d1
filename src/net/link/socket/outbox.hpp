#pragma once  // link/socket/outbox.hpp: what a socket link has not sent yet, and how it is sent.

#include <deque>
#include <vector>

#include "core/base/os/fd.hpp"
#include "net/link/record.hpp"
#include "net/link/socket/ledger.hpp"

namespace gantry {

/// Sends frames: small records that have gathered, then at most one with a piece of payload, from
/// where it lies. Puts and answers to gets take turns. Never waits. Used under its session's lock.
///   I1  frame_ says what the frame under way carries: `transfer` the front of unsent_, `answer`
///       that of answers_, which then stays at the front.
class LinkOutbox {
 public:
  LinkOutbox(int socket, LinkLedger& ledger) : socket_(socket), ledger_(ledger) {}

  /// Adds a record to the next frame, with payload of its own and a descriptor.
  void add(const LinkRecord& record, ConstByteSpan payload = {}, Fd descriptor = {});
  void add_done(Ticket ticket, LinkStatus status);
  /// `pulled`: all that goes out of a put that the far end pulls.
  void add_transfer(Ticket ticket, const Transfer& transfer, bool is_put,
                    std::optional<LinkRecord> pulled = {});
  /// What the far end gets. Errors: `peer_misbehaved` when it asks for too much at a time.
  [[nodiscard]] Result<void> add_answer(const LinkRecord& get, const RowCursor& rows,
                                        LinkLedger::Time now);
  /// Ends what concerns an export: nothing of it is read afterwards. Its key goes out no more.
  void withdraw(std::uint64_t key, bool is_shared);

  struct Flushed {
    bool has_moved = false;
    bool waits = false;  // for room in the socket
  };
  /// Sends as much as goes without waiting, up to kLinkBudget. Errors: `invalid_argument` when
  /// payload is not there; `peer_misbehaved`; `system`.
  [[nodiscard]] Result<Flushed> flush();
  /// The last record, as far as it goes without waiting; all transfers are left out.
  void say_bye(LinkStatus status) noexcept;
  void clear() noexcept;

  /// The last frame was sent whole.
  [[nodiscard]] bool is_idle() const noexcept {
    return head_sent_ == head_.size() && payload_left_ + blank_ == 0;
  }
  /// Small records that no frame has taken.
  [[nodiscard]] std::size_t small() const noexcept { return small_.size(); }
  [[nodiscard]] bool has_words_left() const noexcept {
    return !small_.empty() || head_sent_ < head_.size();
  }
  [[nodiscard]] bool has_payload_left() const noexcept {
    return !unsent_.empty() || !answers_.empty() || payload_left_ + blank_ > 0;
  }
  /// The peer receives no more; the inbox learns why.
  [[nodiscard]] bool is_over() const noexcept { return is_over_; }
  /// When the last bytes went.
  [[nodiscard]] LinkLedger::Time said() const noexcept { return said_; }

 private:
  struct Small {
    std::vector<std::byte> bytes;
    Fd descriptor;
  };
  /// A transfer that goes out: a put of ours, or what a get of ours asks for.
  struct Unsent {
    Ticket ticket{};
    Transfer transfer;
    RowCursor rows;
    Bytes done = 0;
    bool is_put = true;
    std::optional<LinkRecord> pulled = {};
  };
  /// What the far end has asked for.
  struct Answer {
    Ticket ticket{};
    std::uint64_t key = 0;
    RowCursor rows;
    std::optional<std::uint64_t> signal;
    Bytes bytes = 0;
    LinkLedger::Time begun = {};
  };
  enum class Frame : std::uint8_t { none, small, transfer, answer };
  enum class Sent : std::uint8_t { all, part, blocked, broken };

  [[nodiscard]] bool begin_frame();
  void note_sent(Ticket ticket);
  [[nodiscard]] static LinkRecord piece_of(const Unsent& unsent);
  [[nodiscard]] bool load_small();
  [[nodiscard]] Result<Sent> send(Bytes& budget);
  void advance(Bytes bytes) noexcept;
  [[nodiscard]] Result<void> end_frame();
  [[nodiscard]] Result<void> end_answer();

  const int socket_;
  LinkLedger& ledger_;
  std::deque<Small> small_;
  std::deque<Unsent> unsent_;
  std::deque<Answer> answers_;
  bool was_answer_ = false;      // so that both get their turn
  bool answer_is_gone_ = false;  // its export ended while it was being sent
  bool is_over_ = false;
  LinkLedger::Time said_ = std::chrono::steady_clock::now();

  // ---- the frame that is being sent
  Frame frame_ = Frame::none;
  Bytes frame_payload_ = 0;      // of the front of unsent_ or answers_
  std::vector<std::byte> head_;  // the frame without its payload
  std::size_t head_sent_ = 0;
  Fd descriptor_;  // goes with the frame's first byte
  RowCursor payload_;
  Bytes payload_left_ = 0;  // of payload_, that belong to the frame
  Bytes blank_ = 0;         // zeros in place of payload that is no longer read
};

}  // namespace gantry
