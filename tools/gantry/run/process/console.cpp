#include "run/process/console.hpp"

#include <errno.h>
#include <fmt/format.h>
#include <limits.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>

namespace gantry::run {
Console::Console(int stream) : stream_(stream), style_(cli::progress_style(stream)) {}

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
  if (!status_.empty()) waiting_ += cli::kEraseLine;
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
  if (!style_.is_drawn) return;
  erase_status();
  // A wrapped line could not be erased.
  status_ = cli::cut_to(text, cli::terminal_columns(stream_) - 1, style_.is_utf8);
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
