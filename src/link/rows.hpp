#pragma once  // link/rows.hpp: arithmetic of strided ranges, and the way through one.

#include <sys/uio.h>

#include <algorithm>
#include <gantry/types.hpp>
#include <optional>
#include <span>

namespace gantry {

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
