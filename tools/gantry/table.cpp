#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "output.hpp"
#include "tools/command_line/printable.hpp"

// Tables that fit a terminal: long text is wrapped, and columns that find no room stand below.
namespace gantry::cli {
namespace {

constexpr std::size_t kGap = 2;
constexpr std::size_t kNarrowest = 20;  // a column of text is made no narrower

using Row = std::vector<std::string>;

/// Columns that stand side by side, and how wide each is.
struct Band {
  std::vector<std::size_t> columns;
  std::vector<std::size_t> widths;

  [[nodiscard]] std::size_t width() const {
    std::size_t all = 0;
    for (const std::size_t one : widths) all += one + kGap;
    return all - kGap;
  }
};

class Layout {
 public:
  Layout(const std::vector<Table::Column>& columns, const std::vector<Row>& rows, std::size_t width)
      : columns_(columns), rows_(rows), width_(width) {
    for (const Table::Column& column : columns) titles_.push_back(column.title);
    for (std::size_t i = 0; i < columns.size(); ++i) {
      natural_.push_back(titles_[i].size());
      for (const Row& row : rows) natural_[i] = std::max(natural_[i], row[i].size());
    }
  }

  /// As many columns side by side as fit, the first of the table in each band.
  [[nodiscard]] std::vector<Band> bands() const {
    std::vector<Band> bands{natural({0})};
    for (std::size_t column = 1; column < columns_.size(); ++column) {
      std::vector<std::size_t> more = bands.back().columns;
      more.push_back(column);
      if (auto band = fit(more))
        bands.back() = std::move(*band);
      else
        bands.push_back(fit({0, column}).value_or(natural({0, column})));
    }
    return bands;
  }

  [[nodiscard]] std::string text(const Band& band) const {
    std::string text = lines(band, titles_);
    for (const Row& row : rows_) text += lines(band, row);
    return text;
  }

 private:
  [[nodiscard]] Band natural(std::vector<std::size_t> columns) const {
    Band band{std::move(columns), {}};
    for (const std::size_t column : band.columns) band.widths.push_back(natural_[column]);
    return band;
  }

  // What is too wide is taken from the widest column of text.
  [[nodiscard]] std::optional<Band> fit(const std::vector<std::size_t>& columns) const {
    Band band = natural(columns);
    while (band.width() > width_) {
      std::size_t* widest = nullptr;
      for (std::size_t i = 0; i < columns.size(); ++i) {
        const bool is_text = columns_[columns[i]].align == Table::Align::left;
        const std::size_t least = std::max(kNarrowest, titles_[columns[i]].size());
        if (is_text && band.widths[i] > least && (widest == nullptr || band.widths[i] > *widest))
          widest = &band.widths[i];
      }
      if (widest == nullptr) return std::nullopt;
      --*widest;
    }
    return band;
  }

  [[nodiscard]] std::string lines(const Band& band, const Row& cells) const {
    std::vector<std::vector<std::string>> pieces;
    std::size_t height = 1;
    for (std::size_t i = 0; i < band.columns.size(); ++i) {
      pieces.push_back(wrapped(cells[band.columns[i]], band.widths[i]));
      height = std::max(height, pieces.back().size());
    }
    std::string text;
    for (std::size_t number = 0; number < height; ++number) {
      std::string line;
      for (std::size_t i = 0; i < band.columns.size(); ++i) {
        const std::string piece = number < pieces[i].size() ? pieces[i][number] : std::string();
        const bool is_right = columns_[band.columns[i]].align == Table::Align::right;
        line += is_right ? fmt::format("{:>{}}  ", piece, band.widths[i])
                         : fmt::format("{:<{}}  ", piece, band.widths[i]);
      }
      line.resize(line.find_last_not_of(' ') + 1);
      text += line + "\n";
    }
    return text;
  }

  const std::vector<Table::Column>& columns_;
  const std::vector<Row>& rows_;
  const std::size_t width_;
  Row titles_;
  std::vector<std::size_t> natural_;
};

}  // namespace

std::vector<std::string> wrapped(std::string_view text, std::size_t width) {
  std::vector<std::string> lines;
  while (text.size() > width) {
    std::size_t at = text.rfind(' ', width);
    if (at == std::string_view::npos || at == 0) at = text.find(' ', width);
    if (at == std::string_view::npos) break;
    lines.emplace_back(text.substr(0, at));
    text.remove_prefix(at + 1);
  }
  lines.emplace_back(text);
  return lines;
}

std::size_t output_width() noexcept {
  constexpr std::size_t kUsual = 80;
  if (::isatty(STDOUT_FILENO) != 1) return Table::kUnlimited;
  winsize window{};
  const bool is_known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col != 0;
  return is_known ? window.ws_col : kUsual;
}

std::size_t page_width() noexcept {
  constexpr std::size_t kPage = 100;
  const std::size_t width = output_width();
  return width == Table::kUnlimited ? kPage : width;
}

void Table::add(std::vector<std::string> cells) {
  cells.resize(columns_.size());
  for (std::string& cell : cells) cell = printable(cell);
  rows_.push_back(std::move(cells));
}

std::string Table::text(std::size_t width) const {
  const Layout layout(columns_, rows_, width);
  std::string text;
  for (const Band& band : layout.bands()) text += (text.empty() ? "" : "\n") + layout.text(band);
  return text;
}

}  // namespace gantry::cli
