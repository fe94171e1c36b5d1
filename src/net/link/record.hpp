#pragma once  // link/record.hpp: what the two ends of a socket link say, and strided ranges.

#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <gantry/link.hpp>
#include <optional>
#include <span>

namespace gantry {

/// How a transfer ended, as the far end says it.
enum class LinkStatus : std::uint8_t {
  ok,
  withdrawn,   // the export ended first
  fault,       // memory could not be accessed
  lost,        // the connection that payload took was
  ended,       // the link did; never sent
  broke_rules  // in a bye: what the receiver of the bye sent was no valid record
};
inline constexpr std::uint8_t kLastStatus = static_cast<std::uint8_t>(LinkStatus::broke_rules);

/// The two ends need not have the same stall limit: of 1 s or more each hears the other in time.
inline constexpr std::chrono::milliseconds kLongestBeat{300};

/// The head of everything on the wire. docs/formats/link.md says what each kind uses.
struct LinkRecord {
  enum class Kind : std::uint8_t {
    put = 1,     // payload follows: a piece of a put
    put_pulled,  // a whole put, which the receiver pulls
    get,         // asks for data
    data,        // payload follows: a piece of what was asked for
    done,        // a transfer of the receiver's has ended
    control,     // payload follows: a message
    credit,      // messages and signals were taken
    raise,       // a signal
    hello,       // payload follows: for the far end's puller
    share,       // a region that may be pulled from; perhaps a descriptor comes along
    unshare,
    alive,  // nothing else to say for kLongestBeat, or a third of the stall limit if that is less
    bye,
  };
  static constexpr std::size_t kBytes = 96;
  using Encoded = std::array<std::byte, kBytes>;

  Kind kind = Kind::alive;
  LinkStatus status = LinkStatus::ok;
  bool has_signal = false;
  bool is_last = false;  // of the pieces of a put
  std::uint64_t ticket = 0;
  std::uint64_t key = 0;
  std::uint64_t offset = 0;
  std::uint64_t rows = 0;
  std::uint64_t row_bytes = 0;
  std::uint64_t stride = 0;
  std::uint64_t signal = 0;
  std::uint64_t source_key = 0;
  std::uint64_t source_offset = 0;
  std::uint64_t source_stride = 0;

  [[nodiscard]] Encoded encode() const noexcept;
  /// Errors: `peer_misbehaved` for what encode() never makes, and for more payload than allowed.
  [[nodiscard]] static Result<LinkRecord> decode(const Encoded& encoded);

  [[nodiscard]] std::optional<std::uint64_t> signal_if_any() const noexcept {
    return has_signal ? std::optional(signal) : std::nullopt;
  }
  [[nodiscard]] bool is_message() const noexcept {
    return kind == Kind::control || kind == Kind::hello;
  }
  /// Bytes that follow the record. Only after decode(), which checks it.
  [[nodiscard]] Bytes payload_bytes() const noexcept {
    const bool has = kind == Kind::put || kind == Kind::data || is_message();
    return has ? rows * row_bytes : 0;
  }
};

/// Larger payloads travel in pieces, so that small records come between them.
inline constexpr Bytes kLinkPieceBytes = Bytes{1} << 20;
inline constexpr Bytes kMaxControlBytes = 4096;

// Numbers on the wire are little endian everywhere.
inline void store_number(std::byte* at, std::uint64_t value, std::size_t bytes) noexcept {
  for (std::size_t i = 0; i < bytes; ++i) at[i] = static_cast<std::byte>(value >> (8 * i));
}
[[nodiscard]] inline std::uint64_t load_number(const std::byte* at, std::size_t bytes) noexcept {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes; ++i)
    value |= static_cast<std::uint64_t>(std::to_integer<unsigned>(at[i])) << (8 * i);
  return value;
}

/// Bytes of all rows; nothing when they are more than fit into a number.
[[nodiscard]] inline std::optional<Bytes> payload_of(Bytes rows, Bytes row_bytes) noexcept {
  Bytes bytes = 0;
  if (__builtin_mul_overflow(rows, row_bytes, &bytes)) return {};
  return bytes;
}

/// Bytes from the first row's first to the last row's last, gaps included; nothing when that is
/// more than fits into a number, or when rows overlap.
[[nodiscard]] inline std::optional<Bytes> extent_of(Bytes rows, Bytes row_bytes,
                                                    Bytes stride) noexcept {
  if (rows == 0 || row_bytes == 0) return Bytes{0};
  if (rows == 1) return row_bytes;
  Bytes bytes = 0;
  if (stride < row_bytes || __builtin_mul_overflow(rows - 1, stride, &bytes) ||
      __builtin_add_overflow(bytes, row_bytes, &bytes))
    return {};
  return bytes;
}

/// True if the rows from `offset` on lie within `size` bytes.
[[nodiscard]] inline bool rows_fit(Bytes size, Bytes offset, Bytes rows, Bytes row_bytes,
                                   Bytes stride) noexcept {
  const auto extent = extent_of(rows, row_bytes, stride);
  return extent && payload_of(rows, row_bytes) && offset <= size && *extent <= size - offset;
}

/// A position in a strided range. A plain value; the memory must outlive its use.
class RowCursor {
 public:
  RowCursor() noexcept = default;
  /// The range must be valid: see extent_of().
  RowCursor(std::byte* first, Bytes rows, Bytes row_bytes, Bytes stride) noexcept
      : row_(first), rows_(row_bytes == 0 ? 0 : rows), row_bytes_(row_bytes), stride_(stride) {
    if (stride_ != row_bytes_ || rows_ < 2) return;
    row_bytes_ *= rows_;  // without gaps it is one row
    rows_ = 1;
  }

  [[nodiscard]] Bytes left() const noexcept { return rows_ * row_bytes_ - in_row_; }

  /// The next bytes that lie together.
  [[nodiscard]] ByteSpan run() const noexcept {
    if (rows_ == 0) return {};
    return {row_ + in_row_, row_bytes_ - in_row_};
  }

  void advance(Bytes bytes) noexcept {
    in_row_ += bytes;
    if (in_row_ < row_bytes_ || rows_ == 0) return;
    const Bytes passed = std::min(in_row_ / row_bytes_, rows_);
    in_row_ -= passed * row_bytes_;
    rows_ -= passed;
    if (rows_ > 0) row_ += passed * stride_;  // beyond the last row there may be no memory
  }

  /// Describes the next bytes, `most` at the most, as far as `into` has room. Returns how many
  /// entries it used.
  [[nodiscard]] std::size_t fill(std::span<iovec> into, Bytes most) const noexcept {
    RowCursor at = *this;
    std::size_t used = 0;
    while (used < into.size() && most > 0 && at.left() > 0) {
      const ByteSpan run = at.run().first(std::min(most, at.run().size()));
      into[used++] = {run.data(), run.size()};
      most -= run.size();
      at.advance(run.size());
    }
    return used;
  }

 private:
  std::byte* row_ = nullptr;
  Bytes rows_ = 0;  // from row_ on
  Bytes row_bytes_ = 0;
  Bytes stride_ = 0;
  Bytes in_row_ = 0;
};

}  // namespace gantry
