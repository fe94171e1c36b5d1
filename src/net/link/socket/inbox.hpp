#pragma once  // link/socket/inbox.hpp: what a socket link receives, and what it makes of it.

#include <vector>

#include "core/base/os/close_elsewhere.hpp"
#include "net/link/socket/outbox.hpp"

namespace gantry {

/// Never waits. A record is received whole before anything is known of its payload, so the payload
/// comes with a call of its own, together with the next record: nothing is received into a buffer
/// and copied on.
class RecordReader {
 public:
  enum class Step : std::uint8_t {
    blocked,       // nothing more is there now
    moved,         // bytes were received
    record,        // record() is new; say where its payload goes before the next step
    payload_done,  // all of it was received
    ended,         // the peer sends no more
  };

  RecordReader(int socket, bool takes_descriptors) noexcept
      : socket_(socket), takes_descriptors_(takes_descriptors) {}

  /// Takes what it receives off `budget`. Errors: `peer_misbehaved`; `peer_gone`; `system`, also
  /// when payload's place is not there.
  [[nodiscard]] Result<Step> step(Bytes& budget);

  /// What step() found the socket to hold is forgotten.
  void look_again() noexcept { is_drained_ = false; }

  [[nodiscard]] const LinkRecord& record() const noexcept { return record_; }
  [[nodiscard]] ReceivedFds take_descriptors() noexcept { return std::move(fds_); }

  void payload_into(const RowCursor& rows) noexcept {
    rows_ = rows;
    payload_left_ = record_.payload_bytes();
    is_dropped_ = false;
  }
  void drop_payload() noexcept {
    payload_left_ = record_.payload_bytes();
    is_dropped_ = true;
  }
  /// The rest of the payload goes nowhere.
  void divert() noexcept { is_dropped_ = true; }

 private:
  struct Got {
    Step step = Step::blocked;
    Bytes bytes = 0;
  };
  [[nodiscard]] Result<Got> receive(std::span<iovec> parts);
  [[nodiscard]] Result<Step> parse();
  void gather() noexcept;
  [[nodiscard]] iovec rest_of_head() noexcept {
    return {head_.data() + head_got_, head_.size() - head_got_};
  }

  const int socket_;
  const bool takes_descriptors_;
  LinkRecord::Encoded head_{};
  std::size_t head_got_ = 0;
  LinkRecord record_;
  RowCursor rows_;  // where the payload's rest goes
  Bytes payload_left_ = 0;
  bool is_dropped_ = false;
  ReceivedFds fds_;
  bool gathers_ = false;     // the socket is readable when much has come, and not before
  bool is_drained_ = false;  // the last call got less than it had room for
};

/// What the far end says, and what is pulled from it. Nothing of it is believed before it was
/// checked. Used under its session's lock.
///   I1  Signals of puts are raised in the order of the puts: incoming_ holds those from the first
///       put that is still being pulled on.
class LinkInbox {
 public:
  LinkInbox(int socket, LinkLedger& ledger, LinkOutbox& outbox)
      : ledger_(ledger),
        outbox_(outbox),
        reader_(socket, ledger.puller && ledger.puller->takes_descriptors()) {}

  /// Takes what is there, up to kLinkBudget. True: there was something. Errors: `peer_misbehaved`;
  /// the link's end.
  [[nodiscard]] Result<bool> read();
  /// Gets on with what is pulled. True: something has ended. Needs a puller.
  [[nodiscard]] Result<bool> end_pulls();
  /// No payload goes to this export any more.
  void withdraw(std::uint64_t key);

  [[nodiscard]] bool has_control() const noexcept { return !controls_.empty(); }
  [[nodiscard]] ConstByteSpan control() const noexcept { return controls_.front(); }
  /// Both need one. True: the far end is told how many were taken, by the next flush.
  bool drop_control();
  [[nodiscard]] bool take_signal(std::uint64_t& signal);

  /// When the last byte of the peer's came.
  [[nodiscard]] LinkLedger::Time heard() const noexcept { return heard_; }

 private:
  using Time = LinkLedger::Time;
  /// A put of the far end's that has come in, behind one that is still being pulled.
  struct IncomingPut {
    Ticket ticket{};
    std::optional<std::uint64_t> signal;
    bool has_ended = false;
  };

  [[nodiscard]] Result<void> take_step(RecordReader::Step step);
  [[nodiscard]] Result<void> take_record();
  [[nodiscard]] Result<void> take_put(const LinkRecord& record);
  [[nodiscard]] Result<void> take_put_pulled(const LinkRecord& record);
  [[nodiscard]] Result<void> take_get(const LinkRecord& record);
  [[nodiscard]] Result<void> take_data(const LinkRecord& record);
  [[nodiscard]] Result<void> take_done(const LinkRecord& record);
  [[nodiscard]] Result<void> take_control(const LinkRecord& record);
  [[nodiscard]] Result<void> take_credit(const LinkRecord& record);
  [[nodiscard]] Result<void> take_share(const LinkRecord& record);
  [[nodiscard]] Result<void> take_bye(const LinkRecord& record);
  [[nodiscard]] Result<std::byte*> reach(const LinkRecord& record, RemoteAccess wanted);
  [[nodiscard]] Result<void> end_payload();
  [[nodiscard]] Result<void> end_put(const LinkRecord& record, Bytes bytes);
  [[nodiscard]] Result<void> end_pull(const Puller::Job& job);
  [[nodiscard]] Result<void> end_incoming(Ticket ticket, bool is_well);
  [[nodiscard]] bool tell_credit();

  LinkLedger& ledger_;
  LinkOutbox& outbox_;
  RecordReader reader_;
  Time heard_ = std::chrono::steady_clock::now();
  bool has_payload_ = false;                // the reader's record has more to come
  LinkStatus put_status_ = LinkStatus::ok;  // of the put whose pieces are arriving
  Time put_begun_ = {};                     // and when the first of them came
  Bytes put_bytes_ = 0;                     // and how much has
  std::vector<std::byte> control_;          // being received
  std::deque<std::vector<std::byte>> controls_;
  std::deque<IncomingPut> incoming_;  // I1
  std::size_t controls_taken_ = 0;    // since the peer was told
  std::size_t signals_taken_ = 0;
};

}  // namespace gantry
