#include "net/link/socket/outbox.hpp"

#include <sys/socket.h>

#include "core/base/assert.hpp"
#include "core/base/os/rights.hpp"
#include "core/base/result.hpp"

namespace gantry {
namespace {

constexpr std::size_t kSentParts = 256;
constexpr Bytes kBlankBytes = Bytes{16} << 10;
constexpr std::array<std::byte, kBlankBytes> kBlank{};

iovec part_of(const std::byte* at, Bytes bytes) noexcept {
  return {const_cast<std::byte*>(at), bytes};  // NOLINT: sendmsg reads only
}

}  // namespace

void LinkOutbox::add(const LinkRecord& record, ConstByteSpan payload, Fd descriptor) {
  const auto head = record.encode();
  Small small{{head.begin(), head.end()}, std::move(descriptor)};
  small.bytes.insert(small.bytes.end(), payload.begin(), payload.end());
  small_.push_back(std::move(small));
}

void LinkOutbox::add_done(Ticket ticket, LinkStatus status) {
  LinkRecord done{LinkRecord::Kind::done, status};
  done.ticket = static_cast<std::uint64_t>(ticket);
  add(done);
}

void LinkOutbox::add_transfer(Ticket ticket, const Transfer& transfer, bool is_put,
                              std::optional<LinkRecord> pulled) {
  unsent_.push_back({ticket, transfer, local_rows(transfer), 0, is_put, pulled});
}

Result<void> LinkOutbox::add_answer(const LinkRecord& get, const RowCursor& rows,
                                    LinkLedger::Time now) {
  if (answers_.size() >= Transfers::kMost)
    return fail(Code::peer_misbehaved,
                fmt::format("too many gets at a time: {} are not answered yet", answers_.size()));
  answers_.push_back({Ticket{get.ticket}, get.key, rows, get.signal_if_any(), rows.left(), now});
  return {};
}

void LinkOutbox::withdraw(std::uint64_t key, bool is_shared) {
  for (Unsent& unsent : unsent_)  // what the far end was not told yet takes the socket
    if (unsent.pulled && unsent.pulled->source_key == key) unsent.pulled.reset();
  const Answer* const sent = frame_ == Frame::answer ? &answers_.front() : nullptr;
  if (sent != nullptr && sent->key == key && !answer_is_gone_) {
    blank_ += std::exchange(payload_left_, 0);
    answer_is_gone_ = true;
  }
  std::erase_if(answers_, [&](const Answer& answer) {
    if (answer.key != key || &answer == sent) return false;
    add_done(answer.ticket, LinkStatus::withdrawn);
    return true;
  });
  if (!is_shared) return;
  ledger_.puller->unshare(key);
  LinkRecord unshare{LinkRecord::Kind::unshare};
  unshare.key = key;
  add(unshare);
}

void LinkOutbox::clear() noexcept {
  unsent_.clear();
  answers_.clear();
}

void LinkOutbox::say_bye(LinkStatus status) noexcept {
  const auto say = [&]() -> Result<void> {
    clear();
    add(LinkRecord{LinkRecord::Kind::bye, status});
    for (Bytes budget = kLinkBudget; budget > 0;) {
      if (is_idle() && !begin_frame()) return {};
      GANTRY_ASSIGN(const Sent sent, send(budget));
      if (sent == Sent::blocked || sent == Sent::broken) return {};
    }
    return {};
  };
  if (!is_over_) static_cast<void>(guarded(say));
}

Result<LinkOutbox::Flushed> LinkOutbox::flush() {
  bool has_moved = false;
  for (Bytes budget = kLinkBudget; budget > 0 && !is_over_;) {
    if (is_idle() && !begin_frame()) return Flushed{has_moved, false};
    GANTRY_ASSIGN(const Sent sent, send(budget));
    if (sent == Sent::blocked) return Flushed{has_moved, true};
    has_moved = true;
    said_ = std::chrono::steady_clock::now();
    is_over_ = sent == Sent::broken;
    if (sent == Sent::all) GANTRY_TRY(end_frame());
  }
  return Flushed{has_moved, !is_over_};
}

// ---- a frame -------------------------------------------------------------------------------

// False: there is nothing to send.
bool LinkOutbox::begin_frame() {
  for (; !unsent_.empty() && unsent_.front().pulled; unsent_.pop_front()) {
    add(*unsent_.front().pulled);
    note_sent(unsent_.front().ticket);
  }
  const bool is_answer = !answers_.empty() && (unsent_.empty() || !was_answer_);
  const bool has_record = is_answer || !unsent_.empty();
  if (!has_record && small_.empty()) return false;
  const bool took_all = load_small();
  frame_ = Frame::small;
  if (!took_all || !has_record) return true;
  LinkRecord record;
  if (is_answer) {
    record.kind = LinkRecord::Kind::data;
    record.ticket = static_cast<std::uint64_t>(answers_.front().ticket);
    record.rows = 1;
    record.row_bytes = std::min(answers_.front().rows.left(), kLinkPieceBytes);
  } else {
    record = piece_of(unsent_.front());
  }
  const auto head = record.encode();
  head_.insert(head_.end(), head.begin(), head.end());
  payload_ = is_answer ? answers_.front().rows : unsent_.front().rows;
  payload_left_ = frame_payload_ = record.payload_bytes();
  frame_ = is_answer ? Frame::answer : Frame::transfer;
  return true;
}

// True: the frame has all small records. A descriptor goes with the first byte of a frame.
bool LinkOutbox::load_small() {
  GANTRY_DEBUG_ASSERT(is_idle());
  head_.clear();
  head_sent_ = 0;
  if (!small_.empty()) descriptor_ = std::move(small_.front().descriptor);
  while (!small_.empty() && (head_.empty() || !small_.front().descriptor)) {
    const Small& next = small_.front();
    head_.insert(head_.end(), next.bytes.begin(), next.bytes.end());
    small_.pop_front();
  }
  return small_.empty();
}

void LinkOutbox::note_sent(Ticket ticket) {
  if (auto* const one = ledger_.transfers.find(ticket)) one->is_sent = true;
}

// The next piece of a put, or all of what a get asks.
LinkRecord LinkOutbox::piece_of(const Unsent& unsent) {
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
  record.is_last = !unsent.is_put || unsent.done + record.payload_bytes() == total;
  record.has_signal = record.is_last && all.signal.has_value();
  record.signal = record.has_signal ? *all.signal : 0;
  return record;
}

Result<LinkOutbox::Sent> LinkOutbox::send(Bytes& budget) {
  std::array<iovec, kSentParts + 2> parts;  // NOLINT: as many as are used
  std::size_t used = 0;
  if (head_sent_ < head_.size())
    parts[used++] = part_of(head_.data() + head_sent_, head_.size() - head_sent_);
  used += payload_.fill(std::span(parts).subspan(used, kSentParts), payload_left_);
  if (blank_ > 0) parts[used++] = part_of(kBlank.data(), std::min(blank_, kBlankBytes));
  alignas(cmsghdr) ControlBuffer control;  // NOLINT: filled by add_fds()
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = used;
  const int descriptor = descriptor_.get();
  if (descriptor_) add_fds(message, control, {&descriptor, 1});
  for (;;) {
    const ssize_t count = ::sendmsg(socket_, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return Sent::blocked;
    if (count < 0 && (errno == EPIPE || errno == ECONNRESET || errno == ETIMEDOUT))
      return Sent::broken;
    if (count < 0 && errno == EFAULT)
      return fail(Code::invalid_argument, "memory that is sent to the far end is not there",
                  "keep memory mapped until its export or its ticket has ended");
    if (count < 0) return fail_errno("sending");
    descriptor_.reset();
    budget -= std::min(budget, static_cast<Bytes>(count));
    advance(static_cast<Bytes>(count));
    return is_idle() ? Sent::all : Sent::part;
  }
}

void LinkOutbox::advance(Bytes bytes) noexcept {
  const auto take = [&bytes](Bytes left) {
    const Bytes part = std::min(bytes, left);
    bytes -= part;
    return part;
  };
  head_sent_ += take(head_.size() - head_sent_);
  const Bytes payload = take(payload_left_);
  payload_.advance(payload);
  payload_left_ -= payload;
  blank_ -= take(blank_);
  GANTRY_DEBUG_ASSERT(bytes == 0);  // no more can have gone than the frame had
}

Result<void> LinkOutbox::end_frame() {
  const Frame frame = std::exchange(frame_, Frame::none);
  if (frame == Frame::answer) return end_answer();
  if (frame != Frame::transfer) return {};
  GANTRY_DEBUG_ASSERT(!unsent_.empty());  // I1
  was_answer_ = false;
  Unsent& front = unsent_.front();
  front.done += frame_payload_;
  front.rows.advance(frame_payload_);
  if (front.is_put && front.done < front.transfer.rows * front.transfer.row_bytes) return {};
  note_sent(front.ticket);
  unsent_.pop_front();
  return {};
}

Result<void> LinkOutbox::end_answer() {
  GANTRY_DEBUG_ASSERT(!answers_.empty());  // I1
  was_answer_ = true;
  Answer& front = answers_.front();
  front.rows.advance(frame_payload_);
  const bool is_gone = std::exchange(answer_is_gone_, false);
  if (!is_gone) ledger_.landed.served_bytes += frame_payload_;
  if (!is_gone && front.rows.left() > 0) return {};
  const Answer answer = front;
  if (!is_gone)
    ledger_.note(trace::Moved::served, answer.begun, said_, answer.bytes, answer.ticket);
  answers_.pop_front();
  add_done(answer.ticket, is_gone ? LinkStatus::withdrawn : LinkStatus::ok);
  return is_gone ? Result<void>() : ledger_.raise(answer.signal);
}

}  // namespace gantry
