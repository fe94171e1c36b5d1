#pragma once  // tests/support/screen.hpp: a terminal, and what is to be seen on it.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace gantry::test {

/// The rows that a terminal of so many columns shows after `text`, without spaces at their ends and
/// without empty rows at the end. Knows "\r", "\n", "\b", ESC[K and a wrap at the margin, and fails
/// the test on any other sequence. A code point is a column.
inline std::vector<std::string> rows_after(std::string_view text, std::size_t columns) {
  std::vector<std::vector<std::string>> rows(1);
  std::size_t column = 0;
  const auto put = [&](std::string point) {
    if (column == columns) {
      rows.emplace_back();
      column = 0;
    }
    if (rows.back().size() <= column) rows.back().resize(column + 1, " ");
    rows.back()[column++] = std::move(point);
  };
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '\r') {
      column = 0;
    } else if (text[at] == '\n') {
      rows.emplace_back();
    } else if (text.substr(at).starts_with("\x1b[K")) {
      rows.back().resize(std::min(rows.back().size(), column));
      at += 2;
    } else if (static_cast<unsigned char>(text[at]) < ' ') {
      ADD_FAILURE() << "an unknown sequence: " << text.substr(at + 1, 8);
    } else {
      std::size_t length = 1;
      while (at + length < text.size() && (text[at + length] & 0xc0) == 0x80) ++length;
      put(std::string(text.substr(at, length)));
      at += length - 1;
    }
  }
  std::vector<std::string> shown;
  for (const auto& row : rows) {
    std::string line;
    for (const std::string& point : row) line += point;
    line.resize(line.find_last_not_of(' ') + 1);
    shown.push_back(std::move(line));
  }
  while (!shown.empty() && shown.back().empty()) shown.pop_back();
  return shown;
}

/// A terminal of one's own.
class TestTerminal {
 public:
  explicit TestTerminal(unsigned short columns = 80) {
    std::array<char, 256> name{};
    EXPECT_EQ(::openpty(&master_, &slave_, name.data(), nullptr, nullptr), 0);
    path_ = name.data();
    ::fcntl(master_, F_SETFD, FD_CLOEXEC);
    ::fcntl(slave_, F_SETFD, FD_CLOEXEC);
    resize(columns);
  }
  ~TestTerminal() {
    ::close(master_);
    ::close(slave_);
  }
  TestTerminal(const TestTerminal&) = delete;
  TestTerminal& operator=(const TestTerminal&) = delete;

  void resize(unsigned short columns) {
    columns_ = columns;
    const winsize window{.ws_row = 25, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
    EXPECT_EQ(::ioctl(slave_, TIOCSWINSZ, &window), 0);
  }
  [[nodiscard]] int stream() const noexcept { return slave_; }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

  /// All that was written, up to `text` at least.
  const std::string& read_until(std::string_view text) {
    constexpr int kLongMs = 60'000;  // for what should not take long
    pollfd readable{master_, POLLIN, 0};
    while (seen_.find(text) == std::string::npos && ::poll(&readable, 1, kLongMs) == 1) {
      std::array<char, 4096> bytes{};
      const ssize_t got = ::read(master_, bytes.data(), bytes.size());
      if (got <= 0) break;
      seen_.append(bytes.data(), static_cast<std::size_t>(got));
    }
    return seen_;
  }
  /// All that was written, once the writers are done.
  std::string read_all() {
    constexpr std::string_view kEnd = "<END OF THE TEST>";
    EXPECT_EQ(::write(slave_, kEnd.data(), kEnd.size()), static_cast<ssize_t>(kEnd.size()));
    read_until(kEnd);
    seen_.resize(seen_.find(kEnd));
    return seen_;
  }
  [[nodiscard]] std::vector<std::string> rows() { return rows_after(read_all(), columns_); }

 private:
  int master_ = -1;
  int slave_ = -1;
  std::size_t columns_ = 80;
  std::string path_;
  std::string seen_;
};

}  // namespace gantry::test
