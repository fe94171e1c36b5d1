#include "link/socket/record_reader.hpp"

#include <sys/socket.h>

#include <memory>

#include "base/result.hpp"
#include "base/rights.hpp"

namespace gantry {
namespace {

constexpr std::size_t kReceivedParts = 64;
constexpr Bytes kScratchBytes = Bytes{16} << 10;
// Of payload that goes on for longer the socket tells when so much has come: fewer wakes, and the
// next part is still received while this one is copied (docs/results/link.md).
constexpr Bytes kGatheredBytes = Bytes{256} << 10;

// Where bytes go that nobody gets. On the heap: what is thread_local in this library has to fit
// into the 1.6 KiB that the loader keeps for libraries that come late, as with an extension.
std::byte* scratch() {
  thread_local const auto bytes = std::make_unique<std::byte[]>(kScratchBytes);
  return bytes.get();
}

}  // namespace

Result<RecordReader::Got> RecordReader::receive(std::span<iovec> parts) {
  alignas(cmsghdr) ControlBuffer control;  // NOLINT: filled by the kernel
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  if (takes_descriptors_) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
  }
  for (;;) {
    const ssize_t got = ::recvmsg(socket_, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return Got{};
    if (got < 0 && (errno == ECONNRESET || errno == ETIMEDOUT || errno == EPIPE))
      return fail(Code::peer_gone, "the connection was cut",
                  "the process there died, or lost its link");
    if (got < 0 && errno == EFAULT)
      return fail(Code::invalid_argument, "memory for what the far end sends is not there",
                  "keep memory mapped until its export or its ticket has ended");
    if (got < 0) return fail_errno("receiving");
    if (takes_descriptors_ && message.msg_controllen > 0) {
      ReceivedFds more = take_fds(message);
      if (!fds_.empty() && !more.empty())
        return fail(Code::peer_misbehaved, "descriptors that nobody asked for");
      if (!more.empty()) fds_ = std::move(more);
    }
    if (got == 0) return Got{Step::ended, 0};
    return Got{Step::moved, static_cast<Bytes>(got)};
  }
}

// Where the system refuses, each part is told.
void RecordReader::gather() noexcept {
  const bool gathers = payload_left_ >= kGatheredBytes;
  if (std::exchange(gathers_, gathers) == gathers) return;
  const int least = gathers ? static_cast<int>(kGatheredBytes) : 1;
  ::setsockopt(socket_, SOL_SOCKET, SO_RCVLOWAT, &least, sizeof least);
}

Result<RecordReader::Step> RecordReader::parse() {
  head_got_ = 0;
  GANTRY_ASSIGN(record_, LinkRecord::decode(head_));
  return Step::record;
}

Result<RecordReader::Step> RecordReader::step(Bytes& budget) {
  const Bytes payload = payload_left_;
  if (payload == 0 && head_got_ == head_.size()) return parse();
  if (is_drained_) return Step::blocked;
  std::array<iovec, kReceivedParts + 1> parts;  // NOLINT: as many as are used
  std::size_t used = 0;
  if (is_dropped_ && payload > 0)
    parts[used++] = {scratch(), std::min(payload, kScratchBytes)};
  else
    used = rows_.fill(std::span(parts).first(kReceivedParts), payload);
  Bytes described = 0;
  for (std::size_t i = 0; i < used; ++i) described += parts[i].iov_len;
  if (described == payload) {  // the next record, in the same call
    parts[used++] = rest_of_head();
    described += parts[used - 1].iov_len;
  }
  GANTRY_ASSIGN(const Got got, receive(std::span(parts).first(used)));
  if (got.step != Step::moved) return got.step;
  is_drained_ = got.bytes < described;
  budget -= std::min(budget, got.bytes);
  const Bytes placed = std::min(got.bytes, payload);
  if (!is_dropped_) rows_.advance(placed);
  payload_left_ -= placed;
  gather();
  head_got_ += got.bytes - placed;
  if (payload > 0) return payload_left_ == 0 ? Step::payload_done : Step::moved;
  return head_got_ == head_.size() ? parse() : Result<Step>(Step::moved);
}

}  // namespace gantry
