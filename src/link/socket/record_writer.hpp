#pragma once  // link/socket/record_writer.hpp: records to a socket, payload from where it lies.

#include <deque>
#include <vector>

#include "base/fd.hpp"
#include "link/record.hpp"
#include "link/rows.hpp"

namespace gantry {

/// Sends frames: small records that have gathered, then at most one with payload. Never waits.
class RecordWriter {
 public:
  explicit RecordWriter(int socket) noexcept : socket_(socket) {}

  /// Adds a record to the next frame, with payload of its own and a descriptor.
  void add(const LinkRecord& record, ConstByteSpan payload = {}, Fd descriptor = {});

  /// The last frame was sent whole; begin_frame() may be called.
  [[nodiscard]] bool is_idle() const noexcept {
    return head_sent_ == head_.size() && payload_left_ + blank_ == 0;
  }
  [[nodiscard]] std::size_t small() const noexcept { return small_.size(); }
  /// What was added is not all gone.
  [[nodiscard]] bool has_words_left() const noexcept {
    return !small_.empty() || head_sent_ < head_.size();
  }
  /// Takes the small records. True if the frame took the record with payload, too; `record` may be
  /// null.
  bool begin_frame(const LinkRecord* record, const RowCursor& payload, Bytes payload_bytes);
  /// What is left of the frame's payload is no longer read: zeros go in its place.
  void blank_payload() noexcept;

  enum class Sent : std::uint8_t { all, part, blocked, broken };
  /// Sends of the frame as much as the socket takes. `broken`: the peer receives no more. Errors:
  /// `invalid_argument` when the payload is not there; `system`.
  [[nodiscard]] Result<Sent> send(Bytes& budget);

 private:
  struct Small {
    std::vector<std::byte> bytes;
    Fd descriptor;
  };
  void sent(Bytes bytes) noexcept;

  const int socket_;
  std::deque<Small> small_;
  std::vector<std::byte> head_;  // the frame without its payload
  std::size_t head_sent_ = 0;
  Fd descriptor_;  // goes with the frame's first byte
  RowCursor payload_;
  Bytes payload_left_ = 0;  // of payload_, that belong to the frame
  Bytes blank_ = 0;
};

}  // namespace gantry
