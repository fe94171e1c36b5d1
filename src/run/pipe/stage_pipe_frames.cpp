#include "run/pipe/stage_pipe_frames.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include <algorithm>
#include <cstddef>

#include "core/base/assert.hpp"
#include "core/channel/wire/meter.hpp"

namespace gantry {

BufferStore::BufferStore(Bytes budget_bytes)
    : pool_(Pool::create({.name = "buffers"})),
      limit_bytes_(budget_bytes != 0 || !pool_ ? budget_bytes : pool_->report().budget_bytes) {}

Result<void> BufferStore::check_size(Bytes size) const {
  if (size <= limit_bytes_) return {};
  return fail(Code::too_large,
              fmt::format("a message of {} bytes: the limit is {} bytes", size, limit_bytes_),
              "send it in several messages, or raise the channel's budget");
}

Result<BufferStore::Taken> BufferStore::take(Bytes size) {
  GANTRY_TRY(check_size(size));
  if (!pool_) return tl::unexpected(pool_.error());
  GANTRY_ASSIGN(Block block, pool_->allocate(std::max<Bytes>(size, 1), {.alignment = kAlignment}));
  std::byte* const data = block.bytes().data();
  const auto token = reinterpret_cast<std::uintptr_t>(data);
  const std::lock_guard lock(mutex_);
  out_.insert_or_assign(token, std::move(block));
  return Taken{token, ByteSpan(data, size)};
}

void BufferStore::give_back(std::uint64_t token) noexcept {
  const std::lock_guard lock(mutex_);
  GANTRY_ASSERT(out_.erase(token) == 1);  // a token is given back once
}

namespace {

constexpr int kPipeBytes = 1 << 20;  // the default limit for users: /proc/sys/fs/pipe-max-size

/// Keeps SIGPIPE, which a write to a pipe without a reader raises in this thread, from acting, and
/// leaves the program's own handling of it as it was.
class SigpipeHeld {
 public:
  SigpipeHeld() noexcept {
    sigset_t pending;
    ::sigemptyset(&only_);
    ::sigaddset(&only_, SIGPIPE);
    ::sigpending(&pending);
    was_pending_ = ::sigismember(&pending, SIGPIPE) == 1;
    ::pthread_sigmask(SIG_BLOCK, &only_, &before_);
  }
  ~SigpipeHeld() {
    const timespec at_once{};
    if (raised_ && !was_pending_) ::sigtimedwait(&only_, nullptr, &at_once);
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  SigpipeHeld(const SigpipeHeld&) = delete;
  SigpipeHeld& operator=(const SigpipeHeld&) = delete;

  void raised() noexcept { raised_ = true; }

 private:
  sigset_t only_;
  sigset_t before_;
  bool was_pending_ = false;
  bool raised_ = false;
};

ConstByteSpan bytes_of(const FrameHeader& header) {
  return std::as_bytes(std::span(&header, 1));
}

iovec part(ConstByteSpan bytes) {
  // writev() does not write through the pointer; its type is shared with readv().
  return {const_cast<std::byte*>(bytes.data()), bytes.size()};
}

}  // namespace

Result<void> prepare_pipe(const Fd& pipe, std::string_view what) {
  struct stat facts{};
  if (::fstat(pipe.get(), &facts) != 0) return fail_errno(what);
  if (!S_ISFIFO(facts.st_mode))
    return fail(Code::invalid_argument, fmt::format("{}: its descriptor is not a pipe", what),
                "a program between this one and `gantry run` replaced it");
  const int flags = ::fcntl(pipe.get(), F_GETFL);
  if (flags < 0 || ::fcntl(pipe.get(), F_SETFL, flags | O_NONBLOCK) < 0) return fail_errno(what);
  ::fcntl(pipe.get(), F_SETPIPE_SZ, kPipeBytes);  // a smaller one works too
  return {};
}

// ---- writing -------------------------------------------------------------------------------

FrameWriter::FrameWriter(std::string channel, Fd pipe, int interrupt)
    : channel_(std::move(channel)), pipe_(std::move(pipe)), interrupt_(interrupt) {}

tl::unexpected<Error> FrameWriter::gone() const {
  return fail(Code::peer_gone, fmt::format("{}: the receiving stage left before the end", channel_),
              "see how that stage ended");
}

Result<void> FrameWriter::write(FrameHeader::Kind kind, ConstByteSpan payload, WaitTicks& waits,
                                const SendOptions& options) {
  if (broken_) return gone();
  FrameHeader header(payload.size(), options);
  header.kind = kind;
  header.sent_ticks = Meter::ticks();
  auto written = write_parts(bytes_of(header), payload, waits);
  broken_ = !written;
  return written;
}

Result<void> FrameWriter::write_parts(ConstByteSpan header, ConstByteSpan payload,
                                      WaitTicks& waits) {
  SigpipeHeld sigpipe;
  while (!header.empty() || !payload.empty()) {
    const std::array<iovec, 2> parts{part(header), part(payload)};
    const ssize_t written = ::writev(pipe_.get(), parts.data(), static_cast<int>(parts.size()));
    if (written >= 0) {
      const auto of_header = std::min(static_cast<Bytes>(written), header.size());
      header = header.subspan(of_header);
      payload = payload.subspan(static_cast<Bytes>(written) - of_header);
    } else if (errno == EAGAIN) {
      GANTRY_TRY(wait_room(waits));
    } else if (errno == EPIPE) {
      sigpipe.raised();
      return gone();
    } else if (errno != EINTR) {
      return fail_errno(channel_);
    }
  }
  return {};
}

Result<void> FrameWriter::wait_room(WaitTicks& waits) {
  const CountedWait counted(waits, Meter::ticks());
  PollSet room(channel_, interrupt_);
  room.add(pipe_.get(), POLLOUT);
  return room.wait(Deadline::never());
}

// A pipe does not report when it runs empty, so this looks every few milliseconds, only at the end
// of a stream. A reader that hangs up shows at once.
Result<void> FrameWriter::wait_drained(Deadline deadline) {
  constexpr std::chrono::milliseconds kLook{2};
  PollSet hang_up(channel_, interrupt_);
  hang_up.add(pipe_.get(), 0);
  for (;;) {
    int unread = 0;
    if (::ioctl(pipe_.get(), FIONREAD, &unread) != 0) return fail_errno("FIONREAD on a pipe");
    if (unread == 0) return {};
    if (hang_up.failed(0)) return gone();
    if (deadline.passed())
      return fail(Code::timed_out,
                  fmt::format("{}: the receiving stage has not read {} bytes", channel_, unread));
    auto ready = hang_up.wait(Deadline::after(kLook));
    if (!ready && ready.error().code != Code::timed_out) return ready;
  }
}

// ---- reading -------------------------------------------------------------------------------

FrameReader::FrameReader(std::string channel, Fd pipe, Bytes largest_bytes)
    : channel_(std::move(channel)), pipe_(std::move(pipe)), largest_bytes_(largest_bytes) {}

// True when `into` is full.
Result<bool> FrameReader::fill(ByteSpan into, Bytes& have) {
  while (have < into.size()) {
    const ssize_t got = ::read(pipe_.get(), into.data() + have, into.size() - have);
    if (got > 0) {
      have += static_cast<Bytes>(got);
    } else if (got == 0) {
      return fail(Code::peer_gone, fmt::format("{}: the sending stage broke off", channel_),
                  "see how that stage ended");
    } else if (errno == EAGAIN) {
      return false;
    } else if (errno != EINTR) {
      return fail_errno(channel_);
    }
  }
  return true;
}

Result<FrameReader::State> FrameReader::advance(BufferStore& store) {
  if (header_have_ < sizeof header_) {
    const auto header = std::as_writable_bytes(std::span(&header_, 1));
    GANTRY_ASSIGN(const bool whole, fill(header, header_have_));
    if (!whole && header_have_ < offsetof(FrameHeader, length)) return State::starved;
    if (!header_.valid())  // what is no header may be shorter than one
      return fail(Code::peer_misbehaved, fmt::format("{}: what came is not a message", channel_),
                  "something else writes into this stage's pipe");
    if (!whole) return State::starved;
    if (header_.length > largest_bytes_)
      return fail(Code::peer_misbehaved,
                  fmt::format("{}: the sending stage announced {} bytes, more than this "
                              "machine's memory of {}",
                              channel_, header_.length, largest_bytes_));
  }
  if (header_.kind == FrameHeader::Kind::end) {
    pipe_.reset();  // a sender that waits for this reader to go sees it
    return State::ended;
  }
  if (header_.length == 0) return State::complete;
  if (!payload_) {
    GANTRY_ASSIGN(payload_, store.take(header_.length));
  }
  GANTRY_ASSIGN(const bool whole, fill(payload_->bytes, payload_have_));
  return whole ? State::complete : State::starved;
}

FrameReader::Frame FrameReader::take_frame() {
  GANTRY_DEBUG_ASSERT(header_have_ == sizeof header_);  // after `complete`
  GANTRY_DEBUG_ASSERT(payload_have_ == header_.length);
  header_have_ = 0;
  payload_have_ = 0;
  return {std::exchange(payload_, std::nullopt), header_};
}

}  // namespace gantry
