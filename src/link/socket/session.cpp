#include "link/socket/session.hpp"

#include <sys/socket.h>

#include "base/close_elsewhere.hpp"
#include "base/event.hpp"
#include "base/fork_error.hpp"
#include "base/result.hpp"
#include "base/socket.hpp"

namespace gantry {
namespace {

// What loopback and one copy take; the first transfers correct it.
constexpr Cost kTypicalStream{std::chrono::microseconds(30), 2.0};
constexpr Cost kTypicalShared{std::chrono::microseconds(20), 6.0};

constexpr Bytes kSizeOfAll = std::numeric_limits<Bytes>::max();

}  // namespace

SocketSession::SocketSession(Fd socket, Fd epoll, Fd ring, std::string peer,
                             const LinkOptions& options, std::unique_ptr<Puller> puller)
    : socket_(std::move(socket)),
      epoll_(std::move(epoll)),
      ring_(std::move(ring)),
      peer_(std::move(peer)),
      stall_limit_(options.stall_limit),
      beat_(std::min<std::chrono::nanoseconds>(stall_limit_ / 3, kLongestBeat)),
      falls_back_(options.falls_back),
      transfers_(puller && puller->kind() == LinkKind::shared ? kTypicalShared : kTypicalStream),
      puller_(std::move(puller)),
      trace_(trace::EndKind::link, peer_),
      writer_(socket_.get()),
      reader_(socket_.get(), puller_ && puller_->takes_descriptors()),
      heard_(std::chrono::steady_clock::now()),
      said_(heard_),
      polled_(heard_),
      patient_from_(heard_) {}

void SocketSession::start() {
  const std::lock_guard lock(mutex_);
  if (!puller_) return;
  const auto words = puller_->hello();
  if (words.empty()) return;
  LinkRecord hello{LinkRecord::Kind::hello};
  hello.rows = 1;
  hello.row_bytes = words.size();
  writer_.add(hello, words);
  flush();
}

// Descriptors that lie in the queue may take their time to be closed.
SocketSession::~SocketSession() {
  close();
  if (puller_ && puller_->takes_descriptors()) close_socket(std::move(socket_));
}

Cost SocketSession::cost() const {
  const std::lock_guard lock(mutex_);
  return transfers_.cost();
}

bool SocketSession::pulls() const noexcept {
  const std::lock_guard lock(mutex_);
  return puller_ && puller_->suits(1, kLinkPieceBytes);
}

LinkReport SocketSession::report() const {
  const std::lock_guard lock(mutex_);
  LinkReport report = landed_;
  transfers_.add_to(report);
  return report;
}

Result<Export> SocketSession::add_export(ByteSpan memory, RemoteAccess access, int descriptor) {
  GANTRY_TRY(check_not_forked(fork_guard_, "link to", peer_));
  const std::lock_guard lock(mutex_);
  if (failure_) return ended();
  GANTRY_ASSIGN(const std::uint64_t key, exports_.add(memory, access));
  if (puller_ && access != RemoteAccess::write) {
    if (auto share = puller_->share(key, memory, descriptor)) {
      writer_.add(share->record, {}, std::move(share->descriptor));
      exports_.set_shared(key);
      flush();
    }
  }
  return Export(shared_from_this(), {key, memory.size(), access});
}

void SocketSession::withdraw(std::uint64_t key) noexcept {
  if (!fork_guard_.is_this()) return;
  const std::lock_guard lock(mutex_);
  const auto was = exports_.remove(key);
  if (!was || failure_) return;  // I3
  const LinkRecord& record = reader_.record();
  if (has_payload_ && record.kind == LinkRecord::Kind::put && record.key == key) {
    reader_.divert();  // I1
    put_status_ = LinkStatus::withdrawn;
  }
  if (puller_) puller_->finish_puts_to(key);
  for (Unsent& unsent : unsent_)  // what the far end was not told yet takes the socket
    if (unsent.pulled && unsent.pulled->source_key == key) unsent.pulled.reset();
  if (frame_ == Frame::answer && answers_.front().key == key && !answer_is_gone_) {
    writer_.blank_payload();
    answer_is_gone_ = true;
  }
  const auto told = guarded([&]() -> Result<void> {
    tell_withdrawn(key, was->is_shared);
    return {};
  });
  if (!told) fail_with(told.error());
  flush();
}

void SocketSession::tell_withdrawn(std::uint64_t key, bool is_shared) {
  const auto is_waiting = [this, key](const Answer& answer) {
    if (answer.key != key || (frame_ == Frame::answer && &answer == &answers_.front()))
      return false;
    send_done(answer.ticket, LinkStatus::withdrawn);
    return true;
  };
  std::erase_if(answers_, is_waiting);
  if (!is_shared) return;
  puller_->unshare(key);
  LinkRecord unshare{LinkRecord::Kind::unshare};
  unshare.key = key;
  writer_.add(unshare);
}

Result<Ticket> SocketSession::begin(const Transfer& transfer, bool is_put) {
  GANTRY_TRY(check_not_forked(fork_guard_, "link to", peer_));
  const std::lock_guard lock(mutex_);
  if (failure_) return ended();
  GANTRY_TRY(check_transfer(transfer, is_put ? RemoteAccess::write : RemoteAccess::read,
                            is_put ? "put" : "get"));
  if (transfer.signal && signals_out_ >= kMaxLinkSignals)
    return fail(Code::busy, fmt::format("{} signals are not taken yet", signals_out_),
                "the far end takes them by receive_signal()");
  GANTRY_ASSIGN(const Ticket ticket, transfers_.begin(transfer, is_put));
  if (transfer.signal) ++signals_out_;
  if (!begin_pulled(transfer, ticket, is_put))
    unsent_.push_back({ticket, transfer, local_rows(transfer), 0, is_put});
  flush();
  return ticket;
}

// True: no payload takes the socket.
bool SocketSession::begin_pulled(const Transfer& transfer, Ticket ticket, bool is_put) {
  const Bytes bytes = transfer.rows * transfer.row_bytes;
  if (!puller_ || bytes == 0 || !puller_->suits(transfer.rows, transfer.row_bytes)) return false;
  if (!is_put) {
    const Puller::Job job{false, ticket, 0, transfer.signal, bytes};
    const Puller::Source source{transfer.remote.key, transfer.remote_offset, transfer.rows,
                                transfer.row_bytes, transfer.remote_stride};
    return puller_->begin(job, local_rows(transfer), source) == Puller::Begun::yes;
  }
  const auto record = pulled_put(transfer, ticket);
  if (!record) return false;
  unsent_.push_back({ticket, transfer, local_rows(transfer), 0, true, record});
  return true;
}

// Nothing: its memory is not shared.
std::optional<LinkRecord> SocketSession::pulled_put(const Transfer& transfer, Ticket ticket) {
  const auto extent = extent_of(transfer.rows, transfer.row_bytes, transfer.local_stride);
  const auto place = exports_.shared_place({transfer.local, extent.value_or(kSizeOfAll)});
  if (!place) return {};
  LinkRecord record{LinkRecord::Kind::put_pulled};
  record.ticket = static_cast<std::uint64_t>(ticket);
  record.key = transfer.remote.key;
  record.offset = transfer.remote_offset;
  record.rows = transfer.rows;
  record.row_bytes = transfer.row_bytes;
  record.stride = transfer.remote_stride;
  record.has_signal = transfer.signal.has_value();
  record.signal = transfer.signal.value_or(0);
  record.source_key = place->key;
  record.source_offset = place->offset;
  record.source_stride = transfer.local_stride;
  return record;
}

Outcome SocketSession::outcome(Ticket ticket) const {
  const std::lock_guard lock(mutex_);
  return transfers_.outcome(ticket);
}

Result<void> SocketSession::state() const {
  GANTRY_TRY(check_not_forked(fork_guard_, "link to", peer_));
  const std::lock_guard lock(mutex_);
  if (failure_) return ended();
  return {};
}

// ---- waiting -------------------------------------------------------------------------------

// False: the deadline or the link's end came first.
template <class IsSo>
bool SocketSession::wait_until(std::unique_lock<std::mutex>& lock, Deadline deadline, IsSo is_so) {
  for (;;) {
    if (is_so()) return true;
    if (is_in_turn_ && (failure_ || deadline.passed())) return false;
    const bool has_moved = progress();
    if (is_so()) return true;
    if (failure_ || deadline.passed()) return false;
    if (has_moved) {
      lock.unlock();  // others may have a turn
      lock.lock();
    } else {
      sleep(lock, deadline);
    }
  }
}

void SocketSession::sleep(std::unique_lock<std::mutex>& lock, Deadline deadline) {
  constexpr std::chrono::nanoseconds kLongest = std::chrono::hours(1);
  const auto until_life = stall_limit_.count() > 0 ? beat_ / 2 : kLongest;
  const auto most = std::min({deadline.left(), until_life, kLongest});
  const Time began = trace::is_on() ? std::chrono::steady_clock::now() : Time{};
  if (has_sleeper_) {
    changed_.wait_for(lock, most);
    return trace_wait(began);
  }
  has_sleeper_ = true;
  lock.unlock();
  std::array<pollfd, 2> entries{pollfd{epoll_.get(), POLLIN, 0}, pollfd{ring_.get(), POLLIN, 0}};
  ::poll(entries.data(), entries.size(), poll_timeout_ms(Deadline::after(most)));
  lock.lock();
  has_sleeper_ = false;
  drain(ring_.get());
  changed_.notify_all();
  trace_wait(began);
}

void SocketSession::wake_all() noexcept {
  changed_.notify_all();
  if (has_sleeper_) ring(ring_.get());
}

Result<void> SocketSession::wait(Ticket ticket, Deadline deadline) {
  GANTRY_TRY(check_not_forked(fork_guard_, "link to", peer_));
  std::unique_lock lock(mutex_);
  const auto is_over = [&] { return transfers_.outcome(ticket) != Outcome::pending; };
  if (!wait_until(lock, deadline, is_over) && !is_over())
    return fail(Code::timed_out,
                fmt::format("link to {}: transfer {} had not ended when time was up", peer_,
                            static_cast<std::uint64_t>(ticket)),
                "allow more time; the far end must call its link, too");
  if (failure_ && transfers_.failed_with_link(ticket)) return ended();
  return transfers_.result(ticket, peer_);
}

Result<void> SocketSession::send_control(ConstByteSpan message, Deadline deadline) {
  GANTRY_TRY(check_not_forked(fork_guard_, "link to", peer_));
  if (message.empty()) return fail(Code::invalid_argument, "a control message of 0 bytes");
  if (message.size() > kMaxControlBytes)
    return fail(
        Code::too_large,
        fmt::format("a control message of {} bytes, beyond {}", message.size(), kMaxControlBytes),
        "put() it into exported memory");
  std::unique_lock lock(mutex_);
  const auto has_room = [this] { return !failure_ && controls_out_ < kMaxLinkControls; };
  if (!wait_until(lock, deadline, has_room)) {
    if (failure_) return ended();
    return fail(Code::timed_out, fmt::format("link to {}: it has not taken {} control messages",
                                             peer_, controls_out_));
  }
  LinkRecord record{LinkRecord::Kind::control};
  record.rows = 1;
  record.row_bytes = message.size();
  writer_.add(record, message);
  ++controls_out_;
  if (trace::is_on()) [[unlikely]] {
    const Time now = std::chrono::steady_clock::now();
    trace(trace::Moved::sent, now, now, message.size());
  }
  flush();
  return {};
}

Result<Bytes> SocketSession::receive_control(ByteSpan into, Deadline deadline) {
  GANTRY_TRY(check_not_forked(fork_guard_, "link to", peer_));
  std::unique_lock lock(mutex_);
  if (!wait_until(lock, deadline, [this] { return !controls_.empty(); })) {
    if (failure_) return ended();
    return fail(Code::timed_out, fmt::format("link to {}: no control message in time", peer_));
  }
  const auto& message = controls_.front();
  const Bytes bytes = message.size();
  if (bytes > into.size())
    return fail(Code::too_large,
                fmt::format("a control message of {} bytes into memory of {}", bytes, into.size()));
  std::ranges::copy(message, into.begin());
  controls_.pop_front();
  ++controls_taken_;
  tell_credit();
  return bytes;
}

Result<std::uint64_t> SocketSession::receive_signal(Deadline deadline) {
  GANTRY_TRY(check_not_forked(fork_guard_, "link to", peer_));
  std::unique_lock lock(mutex_);
  if (!wait_until(lock, deadline, [this] { return !signals_.empty(); })) {
    if (failure_) return ended();
    return fail(Code::timed_out, fmt::format("link to {}: no signal in time", peer_));
  }
  const std::uint64_t signal = signals_.front();
  signals_.pop_front();
  ++signals_taken_;
  tell_credit();
  return signal;
}

// ---- for whoever records -------------------------------------------------------------------

void SocketSession::slow_trace(trace::Moved what, Time begin, Time end, Bytes bytes,
                               std::uint64_t ticket) {
  using trace::EventKind;
  const bool is_control = what == trace::Moved::sent || what == trace::Moved::received;
  trace_.worked({.kind = is_control ? EventKind::control : EventKind::transfer,
                 .detail = static_cast<std::uint8_t>(what),
                 .begin = begin,
                 .end = end,
                 .number = static_cast<std::uint32_t>(ticket),
                 .bytes = bytes});
}

void SocketSession::trace_wait(Time began) {
  if (began == Time{} || !trace::is_on()) return;
  trace_.worked({.kind = trace::EventKind::wait,
                 .detail = static_cast<std::uint8_t>(trace::Awaited::peer),
                 .begin = began,
                 .end = std::chrono::steady_clock::now()});
}

// ---- progress ------------------------------------------------------------------------------

bool SocketSession::poll() {
  if (!fork_guard_.is_this()) return false;
  const std::lock_guard lock(mutex_);
  const bool has_moved = progress();
  return std::exchange(has_moved_, false) || has_moved;
}

bool SocketSession::begin_turn() {
  if (!fork_guard_.is_this()) return false;
  const std::lock_guard lock(mutex_);
  is_in_turn_ = true;  // answers to what comes in now go out with what is said to it
  const bool has_moved = progress();
  return std::exchange(has_moved_, false) || has_moved;
}

bool SocketSession::has_words_left() const noexcept {
  const std::lock_guard lock(mutex_);
  return !failure_ && writer_.has_words_left();
}

bool SocketSession::end_turn() noexcept {
  if (!fork_guard_.is_this()) return false;
  const std::lock_guard lock(mutex_);
  is_in_turn_ = false;
  if (!failure_) flush_now();
  return has_moved_;
}

}  // namespace gantry
