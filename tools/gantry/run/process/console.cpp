#include "run/process/console.hpp"

#include <errno.h>
#include <fmt/format.h>
#include <limits.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

namespace gantry::run {
namespace {

constexpr std::string_view kEraseLine = "\r\x1b[K";

std::size_t terminal_columns() noexcept {
  constexpr std::size_t kUsual = 80;
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col : kUsual;
}

}  // namespace

Console::Console(int stream) : stream_(stream), is_terminal_(::isatty(stream) == 1) {}

Console::~Console() {
  constexpr int kLastWaitMs = 1000;
  erase_status();
  flush();
  while (!waiting_.empty() && is_writable(kLastWaitMs)) flush();
}

bool Console::is_writable(int wait_ms) const noexcept {
  pollfd stream{stream_, POLLOUT, 0};
  return ::poll(&stream, 1, wait_ms) > 0;
}

void Console::erase_status() {
  if (!status_.empty()) waiting_ += kEraseLine;
  status_.clear();
}

void Console::line(std::string_view text) {
  const std::string status = status_;
  erase_status();
  waiting_ += text;
  waiting_ += '\n';
  if (!status.empty()) Console::status(status);
}

void Console::stage_line(ProcessId, std::string_view label, bool, std::string_view text) {
  Console::line(fmt::format("[{}] {}", label, text));
}

void Console::status(std::string_view text) {
  if (!is_terminal_) return;
  erase_status();
  status_ = text.substr(0, terminal_columns() - 1);  // a wrapped line could not be erased
  waiting_ += status_;
}

void Console::flush() noexcept {
  while (!waiting_.empty() && is_writable(0)) {
    // A pipe that is writable takes PIPE_BUF bytes without blocking, not more.
    const std::size_t length = std::min<std::size_t>(waiting_.size(), PIPE_BUF);
    const ssize_t written = ::write(stream_, waiting_.data(), length);
    if (written < 0 && (errno == EINTR || errno == EAGAIN)) return;
    // A closed standard error takes nothing, and waiting for it would last for ever.
    waiting_.erase(0, written < 0 ? waiting_.size() : static_cast<std::size_t>(written));
  }
}

}  // namespace gantry::run
