#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/result.hpp"
#include "link/socket/session.hpp"

namespace gantry {
namespace {

// What one call moves in each direction, so that it ends and others get the lock.
constexpr Bytes kBudget = Bytes{4} << 20;
// More small records than an honest peer can make us owe it.
constexpr std::size_t kMostSmall = 4 * Exports::kMost;

}  // namespace

// ---- out -----------------------------------------------------------------------------------

// Without memory the link ends: what was half done cannot be taken up again.
template <class Work>
bool SocketSession::or_fail(Work work) noexcept {
  auto done = guarded([&]() -> Result<bool> { return work(); });
  if (done) return *done;
  fail_with(std::move(done).error());
  return true;
}

bool SocketSession::flush() noexcept {
  return !is_in_turn_ && flush_now();
}

bool SocketSession::flush_now() noexcept {
  return or_fail([this] { return flush_some(); });
}

bool SocketSession::flush_some() {
  bool has_moved = false;
  for (Bytes budget = kBudget; budget > 0 && !failure_ && !is_write_over_;) {
    if (writer_.is_idle() && !begin_frame()) {
      want_writable(false);
      return has_moved;
    }
    const auto sent = writer_.send(budget);
    if (!sent) {
      fail_with(sent.error());
      return true;
    }
    if (*sent == RecordWriter::Sent::blocked) {
      want_writable(true);
      return has_moved;
    }
    has_moved = true;
    said_ = std::chrono::steady_clock::now();
    is_write_over_ = *sent == RecordWriter::Sent::broken;  // the reader learns why
    if (*sent == RecordWriter::Sent::all) end_frame();
  }
  want_writable(!is_write_over_);
  return has_moved;
}

// Those whose turn it is among the puts.
void SocketSession::send_pulled_puts() {
  for (; !unsent_.empty() && unsent_.front().pulled; unsent_.pop_front()) {
    writer_.add(*unsent_.front().pulled);
    if (auto* const one = transfers_.find(unsent_.front().ticket)) one->is_sent = true;
  }
}

// False: there is nothing to send.
bool SocketSession::begin_frame() {
  send_pulled_puts();
  const bool is_answer = !answers_.empty() && (unsent_.empty() || !was_answer_);
  if (!is_answer && unsent_.empty() && writer_.small() == 0) return false;
  LinkRecord record;
  RowCursor rows;
  frame_payload_ = 0;
  bool has_record = true;
  if (is_answer) {
    rows = answers_.front().rows;
    record.kind = LinkRecord::Kind::data;
    record.ticket = static_cast<std::uint64_t>(answers_.front().ticket);
    record.rows = 1;
    record.row_bytes = frame_payload_ = std::min(rows.left(), kLinkPieceBytes);
  } else if (!unsent_.empty()) {
    rows = unsent_.front().rows;
    record = piece_of(unsent_.front(), frame_payload_);
  } else {
    has_record = false;
  }
  const bool took = writer_.begin_frame(has_record ? &record : nullptr, rows, frame_payload_);
  frame_ = !took ? Frame::small : is_answer ? Frame::answer : Frame::transfer;
  return true;
}

// The next piece of a put, or all of what a get asks.
LinkRecord SocketSession::piece_of(const Unsent& unsent, Bytes& payload) {
  const Transfer& all = unsent.transfer;
  const Bytes total = all.rows * all.row_bytes;
  LinkRecord record{unsent.is_put ? LinkRecord::Kind::put : LinkRecord::Kind::get};
  record.ticket = static_cast<std::uint64_t>(unsent.ticket);
  record.key = all.remote.key;
  record.offset = all.remote_offset;
  record.rows = all.rows;
  record.row_bytes = all.row_bytes;
  record.stride = all.remote_stride;
  if (total > 0 && (all.remote_stride == all.row_bytes || all.rows == 1)) {
    record.rows = 1;
    record.row_bytes = total;
  }
  if (unsent.is_put && total > 0) {
    const Bytes row = unsent.done / record.row_bytes;
    const Bytes in_row = unsent.done % record.row_bytes;
    record.offset += row * record.stride + in_row;
    if (in_row > 0 || record.row_bytes > kLinkPieceBytes) {
      record.rows = 1;
      record.row_bytes = std::min(record.row_bytes - in_row, kLinkPieceBytes);
    } else {
      record.rows = std::min(record.rows - row, kLinkPieceBytes / record.row_bytes);
    }
  }
  payload = unsent.is_put ? record.rows * record.row_bytes : 0;
  record.is_last = unsent.done + payload == total || !unsent.is_put;
  record.has_signal = record.is_last && all.signal.has_value();
  record.signal = record.has_signal ? *all.signal : 0;
  return record;
}

void SocketSession::end_frame() {
  const Frame frame = std::exchange(frame_, Frame::none);
  if (frame == Frame::answer) return end_answer();
  if (frame != Frame::transfer) return;
  was_answer_ = false;
  Unsent& front = unsent_.front();
  front.done += frame_payload_;
  front.rows.advance(frame_payload_);
  if (front.is_put && front.done < front.transfer.rows * front.transfer.row_bytes) return;
  if (auto* const one = transfers_.find(front.ticket)) one->is_sent = true;
  unsent_.pop_front();
}

void SocketSession::end_answer() {
  was_answer_ = true;
  Answer& front = answers_.front();
  front.rows.advance(frame_payload_);
  const bool is_gone = std::exchange(answer_is_gone_, false);
  if (!is_gone) landed_.served_bytes += frame_payload_;
  if (!is_gone && front.rows.left() > 0) return;
  const Answer answer = front;
  if (!is_gone)
    trace(trace::Moved::served, answer.begun, said_, answer.bytes,
          static_cast<std::uint64_t>(answer.ticket));
  answers_.pop_front();
  send_done(answer.ticket, is_gone ? LinkStatus::withdrawn : LinkStatus::ok);
  if (is_gone) return;
  if (auto taken = take_signal(answer.signal); !taken) fail_with(std::move(taken).error());
}

void SocketSession::send_done(Ticket ticket, LinkStatus status) {
  LinkRecord done{LinkRecord::Kind::done, status};
  done.ticket = static_cast<std::uint64_t>(ticket);
  writer_.add(done);
}

// ---- in ------------------------------------------------------------------------------------

bool SocketSession::read() {
  bool has_moved = false;
  reader_.look_again();
  for (Bytes budget = kBudget; budget > 0 && !failure_;) {
    if (is_write_over_) reader_.look_again();  // all that came before the connection was cut
    const auto step = reader_.step(budget);
    if (step && *step == RecordReader::Step::blocked) {
      if (is_write_over_)
        fail_with({Code::peer_gone, "the connection was cut",
                   "the process there died, lost its link, or took this one for gone"});
      return has_moved;
    }
    has_moved = true;
    auto taken = step ? take_step(*step) : Result<void>(tl::unexpected(step.error()));
    if (taken && writer_.small() > kMostSmall)
      taken = fail(Code::peer_misbehaved, "it asks without taking answers");
    if (taken) continue;
    if (taken.error().code == Code::peer_misbehaved) say_bye(LinkStatus::broke_rules);
    fail_with(std::move(taken).error());
  }
  return has_moved;
}

Result<void> SocketSession::take_step(RecordReader::Step step) {
  if (step == RecordReader::Step::ended)
    return fail(Code::peer_gone, "it closed the connection without a word",
                "the process there died, or lost its link");
  heard_ = std::chrono::steady_clock::now();
  if (step == RecordReader::Step::record) return take_record();
  if (step == RecordReader::Step::payload_done) return end_payload();
  return {};
}

bool SocketSession::end_pulls() {
  bool has_moved = false;
  while (!failure_) {
    const auto job = puller_->next_ended();
    if (!job) return has_moved;
    has_moved = true;
    end_pull(*job);
  }
  return has_moved;
}

void SocketSession::end_pull(const Puller::Job& job) {
  const bool is_well = job.status == LinkStatus::ok;
  if (is_well) landed_.pulled_bytes += job.bytes;
  if (job.is_put) {
    send_done(job.ticket, job.status);
    if (is_well) landed_.landed_bytes += job.bytes;
    if (is_well && trace::is_on()) [[unlikely]]
      trace(trace::Moved::landed, job.begun, std::chrono::steady_clock::now(), job.bytes,
            static_cast<std::uint64_t>(job.ticket));
    if (auto taken = end_incoming(job.ticket, is_well); !taken) fail_with(std::move(taken).error());
    return;
  }
  if (is_well && job.signal) {
    LinkRecord raise{LinkRecord::Kind::raise};
    raise.signal = *job.signal;
    raise.has_signal = true;
    writer_.add(raise);
  }
  end_transfer(job.ticket, job.status);
}

void SocketSession::end_transfer(Ticket ticket, LinkStatus status) {
  const auto* const one = transfers_.find(ticket);
  if (one != nullptr && one->has_signal && status != LinkStatus::ok) --signals_out_;
  if (one != nullptr && status == LinkStatus::ok && trace::is_on()) [[unlikely]]
    trace(one->is_put ? trace::Moved::put : trace::Moved::get, one->begun,
          std::chrono::steady_clock::now(), one->bytes, static_cast<std::uint64_t>(ticket));
  transfers_.end(ticket, status);
}

// ---- both ----------------------------------------------------------------------------------

bool SocketSession::progress() {
  if (failure_) return false;
  const Time now = std::chrono::steady_clock::now();
  trace::look(now);
  if (now - polled_ > stall_limit_ / 3) patient_from_ = now;  // this end was busy elsewhere
  polled_ = now;
  const bool has_moved = or_fail([&] { return progress_some(now); });
  has_moved_ |= has_moved;
  if (has_moved) wake_all();
  return has_moved || (puller_ && !failure_ && puller_->needs_calls());
}

bool SocketSession::progress_some(Time now) {
  bool has_moved = flush_now();
  if (!failure_) has_moved |= read();
  if (puller_ && !failure_) has_moved |= end_pulls();
  if (puller_ && !failure_ && !falls_back_ && puller_->is_lost())
    fail_with({Code::peer_gone, "the connection that payload takes was lost",
               "a firewall may keep it from standing; the stream path needs none"});
  if (!failure_ && has_moved) flush();
  if (!failure_) check_life(now);
  return has_moved;
}

void SocketSession::check_life(Time now) {
  if (stall_limit_.count() == 0) return;
  if (now - std::max(heard_, patient_from_) >= stall_limit_)
    return fail_with(
        {Code::peer_gone,
         fmt::format("nothing was heard of it for {} ms; the connection is still open",
                     std::chrono::duration_cast<std::chrono::milliseconds>(stall_limit_).count()),
         "its host or the network is down, or the process there does not call its link"});
  if (now - said_ < beat_ || !writer_.is_idle()) return;
  writer_.add(LinkRecord{LinkRecord::Kind::alive});
  flush();
}

void SocketSession::tell_credit() {
  if (controls_taken_ < kMaxLinkControls / 2 && signals_taken_ < kMaxLinkSignals / 2) return;
  LinkRecord credit{LinkRecord::Kind::credit};
  credit.rows = std::exchange(controls_taken_, 0);
  credit.row_bytes = std::exchange(signals_taken_, 0);
  writer_.add(credit);
  flush();
}

void SocketSession::want_writable(bool wanted) noexcept {
  if (wanted == wants_writable_) return;
  wants_writable_ = wanted;
  epoll_event event{};
  event.events = wanted ? EPOLLIN | EPOLLOUT : EPOLLIN;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, socket_.get(), &event);
}

// As far as it goes without waiting.
void SocketSession::say_bye(LinkStatus status) noexcept {
  const auto say = [&]() -> Result<void> {
    unsent_.clear();
    answers_.clear();
    writer_.add(LinkRecord{LinkRecord::Kind::bye, status});
    for (Bytes budget = kBudget; budget > 0;) {
      if (writer_.is_idle() && !begin_frame()) return {};
      GANTRY_ASSIGN(const auto sent, writer_.send(budget));
      if (sent == RecordWriter::Sent::blocked || sent == RecordWriter::Sent::broken) return {};
    }
    return {};
  };
  if (!is_write_over_) static_cast<void>(guarded(say));
}

void SocketSession::fail_with(Error error) noexcept {
  if (failure_) return;
  auto text = guarded(
      [&]() -> Result<std::string> { return fmt::format("link to {}: {}", peer_, error.message); });
  if (text) error.message = *std::move(text);
  failure_ = std::move(error);  // I3
  transfers_.end_all();
  if (puller_) puller_->stop();
  unsent_.clear();
  answers_.clear();
  ::shutdown(socket_.get(), SHUT_RDWR);
  wake_all();
}

void SocketSession::close() noexcept {
  if (!fork_guard_.is_this()) return;
  const std::lock_guard lock(mutex_);
  if (failure_) return;
  say_bye(LinkStatus::ok);
  fail_with({Code::closed, "closed at this end", {}});
}

}  // namespace gantry
