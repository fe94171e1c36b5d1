#pragma once  // tools/gantry/output.hpp: formats numbers and tables, and parses sizes.

#include <gantry/types.hpp>
#include <limits>
#include <vector>

namespace gantry::cli {

[[nodiscard]] std::string format_bytes(std::uint64_t bytes);     ///< "147 MiB"
[[nodiscard]] std::string format_count(std::uint64_t count);     ///< "12,345"
[[nodiscard]] std::string format_rate(double bytes_per_second);  ///< "3.21 GB/s"
[[nodiscard]] std::string format_time(
    std::chrono::nanoseconds duration);  ///< "18.2 us", "3 min 2 s"

/// "4096", "64K", "1M", "2GiB": powers of 1024. Errors: `invalid_argument`.
[[nodiscard]] Result<Bytes> parse_bytes(std::string_view text);
/// "1.5", "250ms", "2s", "3min"; without a unit seconds. Errors: `invalid_argument`.
[[nodiscard]] Result<std::chrono::nanoseconds> parse_time(std::string_view text);

/// Decimal digits only: no sign, no unit. Errors: `invalid_argument` for what is no whole number
/// from `least` to `most`.
[[nodiscard]] Result<std::uint64_t> parse_number(
    std::string_view text, std::uint64_t least,
    std::uint64_t most = std::numeric_limits<std::uint64_t>::max());

/// `text` in lines of at most `width`, broken at spaces; a longer word stays whole.
[[nodiscard]] std::vector<std::string> wrapped(std::string_view text, std::size_t width);

/// Columns of the terminal that standard output is; Table::kUnlimited if it is none.
[[nodiscard]] std::size_t output_width() noexcept;

/// The same, and of no terminal that of a page: for tables that people read.
[[nodiscard]] std::size_t page_width() noexcept;

/// Text in columns, each as wide as its widest cell where there is room.
class Table {
 public:
  static constexpr std::size_t kUnlimited = std::numeric_limits<std::size_t>::max();
  enum class Align { left, right };
  struct Column {
    std::string title;
    Align align = Align::left;
  };
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  void add(std::vector<std::string> cells);  ///< One row; missing cells are empty.
  /// Titles and rows, a line each. Where `width` does not suffice, left-aligned text is wrapped,
  /// and columns without room follow as a table below, beside the first column.
  [[nodiscard]] std::string text(std::size_t width = output_width()) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

/// Prints all of `text` to standard output. Errors: `system` (a full disk); `closed` when the
/// reader left.
[[nodiscard]] Result<void> print(std::string_view text);

}  // namespace gantry::cli
