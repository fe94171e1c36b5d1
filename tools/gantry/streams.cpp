#include "streams.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <limits>

#include "errors.hpp"
#include "output.hpp"

namespace gantry::cli {
namespace {

// Whatever is there, at least one byte; none: the input ended.
Result<Bytes> read_some(ByteSpan into, const Interrupt& interrupt) {
  for (;;) {
    if (auto ready = wait_ready(STDIN_FILENO, POLLIN, interrupt); !ready)
      return tl::unexpected(ready.error());
    const ssize_t got = ::read(STDIN_FILENO, into.data(), into.size());
    if (got >= 0) return static_cast<Bytes>(got);
    if (errno != EINTR && errno != EAGAIN)
      return tl::unexpected(system_error("standard input", errno));
  }
}

}  // namespace

void widen_pipe(int descriptor) noexcept {
  constexpr int kPipeBytes = 1 << 20;  // the default limit for users: /proc/sys/fs/pipe-max-size
  ::fcntl(descriptor, F_SETPIPE_SZ, kPipeBytes);
}

Result<Bytes> read_input(ByteSpan into, const Interrupt& interrupt) {
  Bytes have = 0;
  while (have < into.size()) {
    const auto got = read_some(into.subspan(have), interrupt);
    if (!got) return got;
    if (*got == 0) break;
    have += *got;
  }
  return have;
}

// ---- lines ---------------------------------------------------------------------------------

LineReader::LineReader(Bytes longest, const Interrupt& interrupt)
    : longest_(longest), interrupt_(interrupt) {
  constexpr Bytes kLeastBuffer = 64 << 10;
  buffer_.resize(std::min(longest, kLeastBuffer));
}

ConstByteSpan LineReader::take(Bytes size) {
  const ConstByteSpan line(buffer_.data() + begin_, size);
  begin_ += size;
  ++line_;
  return line;
}

// Makes room, at the front or by growing towards `longest_`, and reads. False: the input ended.
Result<bool> LineReader::read_more() {
  if (begin_ != 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= std::exchange(begin_, 0);
  }
  if (end_ == buffer_.size()) {
    if (end_ >= longest_)
      return tl::unexpected(Error{Code::too_large,
                                  fmt::format("standard input: line {} is longer than {}",
                                              line_ + 1, format_bytes(longest_)),
                                  "raise --message-size"});
    buffer_.resize(std::min(longest_, buffer_.size() * 2));
  }
  const auto got = read_some(ByteSpan(buffer_).subspan(end_), interrupt_);
  if (!got) return tl::unexpected(got.error());
  end_ += *got;
  return *got != 0;
}

Result<ConstByteSpan> LineReader::next() {
  for (Bytes searched = 0;;) {
    const auto* const start = buffer_.data() + begin_;
    const Bytes have = end_ - begin_;
    const auto* const newline =
        static_cast<const std::byte*>(std::memchr(start + searched, '\n', have - searched));
    if (newline != nullptr) return take(static_cast<Bytes>(newline - start) + 1);
    searched = have;
    const auto more = read_more();
    if (!more) return tl::unexpected(more.error());
    if (!*more) return have != 0 ? take(have) : ConstByteSpan();
  }
}

// ---- output --------------------------------------------------------------------------------

// The mode "never block" belongs to the open file, which a terminal or pipe shares with other
// programs. So a pipe is opened anew through /proc; where that does not work, writes are as small
// as POSIX promises room for (PIPE_BUF). Regular files do not block.
OutputStream::OutputStream(const Interrupt& interrupt)
    : interrupt_(interrupt), descriptor_(STDOUT_FILENO), piece_bytes_(PIPE_BUF) {
  struct stat facts{};
  if (::fstat(STDOUT_FILENO, &facts) != 0) return;
  if (S_ISFIFO(facts.st_mode)) {
    widen_pipe(STDOUT_FILENO);
    const int own = ::open("/proc/self/fd/1", O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    own_ = own >= 0;
    if (own_) descriptor_ = own;
  }
  if (own_ || S_ISREG(facts.st_mode)) piece_bytes_ = std::numeric_limits<ssize_t>::max();
}

OutputStream::~OutputStream() {
  if (own_) ::close(descriptor_);
}

Result<void> OutputStream::write(ConstByteSpan bytes) {
  while (!bytes.empty()) {
    if (auto ready = wait_ready(descriptor_, POLLOUT, interrupt_); !ready) return ready;
    const ssize_t written =
        ::write(descriptor_, bytes.data(), std::min(bytes.size(), piece_bytes_));
    if (written >= 0) bytes = bytes.subspan(static_cast<Bytes>(written));
    if (written < 0 && errno == EPIPE)
      return tl::unexpected(Error{Code::closed, "standard output: the reader left", {}});
    if (written < 0 && errno != EINTR && errno != EAGAIN)
      return tl::unexpected(system_error("standard output", errno));
  }
  return {};
}

}  // namespace gantry::cli
