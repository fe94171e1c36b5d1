#pragma once  // link/socket/record_reader.hpp: records from a socket, payload straight into its
              // place.

#include "base/close_elsewhere.hpp"
#include "link/record.hpp"
#include "link/rows.hpp"

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

}  // namespace gantry
