#include "link/socket/record_writer.hpp"

#include <sys/socket.h>

#include "base/result.hpp"
#include "base/rights.hpp"

namespace gantry {
namespace {

constexpr std::size_t kSentParts = 256;
constexpr Bytes kBlankBytes = Bytes{16} << 10;
constexpr std::array<std::byte, kBlankBytes> kBlank{};

iovec part_of(const std::byte* at, Bytes bytes) noexcept {
  return {const_cast<std::byte*>(at), bytes};  // NOLINT: sendmsg reads only
}

}  // namespace

void RecordWriter::add(const LinkRecord& record, ConstByteSpan payload, Fd descriptor) {
  const auto head = record.encode();
  Small small{{head.begin(), head.end()}, std::move(descriptor)};
  small.bytes.insert(small.bytes.end(), payload.begin(), payload.end());
  small_.push_back(std::move(small));
}

bool RecordWriter::begin_frame(const LinkRecord* record, const RowCursor& payload,
                               Bytes payload_bytes) {
  head_.clear();
  head_sent_ = 0;
  if (!small_.empty()) descriptor_ = std::move(small_.front().descriptor);
  while (!small_.empty() && (head_.empty() || !small_.front().descriptor)) {
    const Small& next = small_.front();
    head_.insert(head_.end(), next.bytes.begin(), next.bytes.end());
    small_.pop_front();
  }
  if (!small_.empty() || record == nullptr) return false;
  const auto head = record->encode();
  head_.insert(head_.end(), head.begin(), head.end());
  payload_ = payload;
  payload_left_ = payload_bytes;
  return true;
}

void RecordWriter::blank_payload() noexcept {
  blank_ += payload_left_;
  payload_left_ = 0;
}

Result<RecordWriter::Sent> RecordWriter::send(Bytes& budget) {
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
    sent(static_cast<Bytes>(count));
    return is_idle() ? Sent::all : Sent::part;
  }
}

void RecordWriter::sent(Bytes bytes) noexcept {
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
}

}  // namespace gantry
