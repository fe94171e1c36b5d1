#include "net/link/socket/inbox.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <memory>

#include "core/base/assert.hpp"
#include "core/base/os/rights.hpp"
#include "core/base/result.hpp"

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

// More small records than an honest peer can make us owe it.
constexpr std::size_t kMostSmall = 4 * Exports::kMost;
constexpr std::size_t kMostIncoming = kMaxLinkSignals + 2 * Transfers::kMost;

template <class... Args>
tl::unexpected<Error> broken(fmt::format_string<Args...> what, Args&&... args) {
  return fail(Code::peer_misbehaved, fmt::format(what, std::forward<Args>(args)...));
}

}  // namespace

// ---- from the socket -----------------------------------------------------------------------

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

Result<bool> LinkInbox::read() {
  bool has_moved = false;
  reader_.look_again();
  for (Bytes budget = kLinkBudget; budget > 0;) {
    if (outbox_.is_over()) reader_.look_again();  // all that came before the connection was cut
    GANTRY_ASSIGN(const RecordReader::Step step, reader_.step(budget));
    if (step == RecordReader::Step::blocked && !outbox_.is_over()) return has_moved;
    if (step == RecordReader::Step::blocked)
      return fail(Code::peer_gone, "the connection was cut",
                  "the process there died, lost its link, or took this one for gone");
    has_moved = true;
    GANTRY_TRY(take_step(step));
    if (outbox_.small() > kMostSmall)
      return broken("it asks without taking answers: {} wait for it", outbox_.small());
  }
  return has_moved;
}

Result<void> LinkInbox::take_step(RecordReader::Step step) {
  if (step == RecordReader::Step::ended)
    return fail(Code::peer_gone, "it closed the connection without a word",
                "the process there died, or lost its link");
  heard_ = std::chrono::steady_clock::now();
  if (step == RecordReader::Step::record) return take_record();
  if (step == RecordReader::Step::payload_done) return end_payload();
  return {};
}

void LinkInbox::withdraw(std::uint64_t key) {
  const LinkRecord& record = reader_.record();
  if (!has_payload_ || record.kind != LinkRecord::Kind::put || record.key != key) return;
  reader_.divert();
  put_status_ = LinkStatus::withdrawn;
}

bool LinkInbox::drop_control() {
  GANTRY_DEBUG_ASSERT(!controls_.empty());
  controls_.pop_front();
  ++controls_taken_;
  return tell_credit();
}

bool LinkInbox::take_signal(std::uint64_t& signal) {
  GANTRY_DEBUG_ASSERT(!ledger_.signals.empty());
  signal = ledger_.signals.front();
  ledger_.signals.pop_front();
  ++signals_taken_;
  return tell_credit();
}

bool LinkInbox::tell_credit() {
  if (controls_taken_ < kMaxLinkControls / 2 && signals_taken_ < kMaxLinkSignals / 2) return false;
  LinkRecord credit{LinkRecord::Kind::credit};
  credit.rows = std::exchange(controls_taken_, 0);
  credit.row_bytes = std::exchange(signals_taken_, 0);
  outbox_.add(credit);
  return true;
}

// ---- records -------------------------------------------------------------------------------

Result<void> LinkInbox::take_record() {
  using Kind = LinkRecord::Kind;
  const LinkRecord& record = reader_.record();
  if (record.kind == Kind::share) return take_share(record);
  if (!reader_.take_descriptors().empty()) return broken("descriptors that nobody asked for");
  switch (record.kind) {
    case Kind::put:
      return take_put(record);
    case Kind::put_pulled:
      return take_put_pulled(record);
    case Kind::get:
      return take_get(record);
    case Kind::data:
      return take_data(record);
    case Kind::done:
      return take_done(record);
    case Kind::control:
    case Kind::hello:
      return take_control(record);
    case Kind::credit:
      return take_credit(record);
    case Kind::raise:
      return ledger_.raise(record.signal_if_any());
    case Kind::unshare:
      if (ledger_.puller) ledger_.puller->forget(record.key);
      return {};
    case Kind::bye:
      return take_bye(record);
    case Kind::share:
    case Kind::alive:
      break;
  }
  return {};
}

// Null: the export has ended, which the far end could not know. Anything else wrong it could.
Result<std::byte*> LinkInbox::reach(const LinkRecord& record, RemoteAccess wanted) {
  std::byte* first = nullptr;
  const auto verdict = ledger_.exports.find(record.key, wanted, record.offset, record.rows,
                                            record.row_bytes, record.stride, first);
  switch (verdict) {
    case Exports::Verdict::ok:
      return first;
    case Exports::Verdict::withdrawn:
      return nullptr;
    case Exports::Verdict::never:
      return broken("key {:#x} was never given to it", record.key);
    case Exports::Verdict::denied:
      return broken("key {:#x} is not exported for that", record.key);
    case Exports::Verdict::beyond:
      break;
  }
  return broken("{} rows of {} bytes at offset {} of key {:#x}: beyond that memory", record.rows,
                record.row_bytes, record.offset, record.key);
}

Result<void> LinkInbox::take_put(const LinkRecord& record) {
  GANTRY_ASSIGN(std::byte* const first, reach(record, RemoteAccess::write));
  if (first == nullptr) put_status_ = LinkStatus::withdrawn;
  if (put_begun_ == Time{}) put_begun_ = heard_;
  if (record.payload_bytes() == 0) return end_payload();
  has_payload_ = true;
  if (first == nullptr)
    reader_.drop_payload();
  else
    reader_.payload_into({first, record.rows, record.row_bytes, record.stride});
  return {};
}

Result<void> LinkInbox::take_put_pulled(const LinkRecord& record) {
  if (!ledger_.puller) return broken("a put that a stream link should pull");
  GANTRY_ASSIGN(std::byte* const first, reach(record, RemoteAccess::write));
  const Ticket ticket{record.ticket};
  if (first == nullptr) {
    outbox_.add_done(ticket, LinkStatus::withdrawn);
    return {};
  }
  if (ledger_.puller->under_way() >= 2 * Transfers::kMost)
    return broken("too many puts at a time: {} are being pulled", ledger_.puller->under_way());
  const Puller::Job job{.is_put = true,
                        .ticket = ticket,
                        .key = record.key,
                        .signal = record.signal_if_any(),
                        .bytes = record.rows * record.row_bytes,
                        .begun = heard_};
  const RowCursor to(first, record.rows, record.row_bytes, record.stride);
  const Puller::Source source{record.source_key, record.source_offset, record.rows,
                              record.row_bytes, record.source_stride};
  const auto begun = ledger_.puller->has(record.source_key) ? ledger_.puller->begin(job, to, source)
                                                            : Puller::Begun::beyond;
  if (begun == Puller::Begun::beyond)
    return broken("a put out of memory that it does not share (key {:#x})", record.source_key);
  if (begun == Puller::Begun::no)
    outbox_.add_done(ticket, LinkStatus::lost);
  else
    incoming_.push_back({ticket, record.signal_if_any()});
  return {};
}

Result<void> LinkInbox::take_get(const LinkRecord& record) {
  GANTRY_ASSIGN(std::byte* const first, reach(record, RemoteAccess::read));
  const Ticket ticket{record.ticket};
  if (first == nullptr) {
    outbox_.add_done(ticket, LinkStatus::withdrawn);
    return {};
  }
  const RowCursor rows(first, record.rows, record.row_bytes, record.stride);
  if (rows.left() == 0) {
    outbox_.add_done(ticket, LinkStatus::ok);
    return ledger_.raise(record.signal_if_any());
  }
  return outbox_.add_answer(record, rows, heard_);
}

Result<void> LinkInbox::take_data(const LinkRecord& record) {
  auto* const one = ledger_.transfers.find(Ticket{record.ticket});
  const Bytes bytes = record.payload_bytes();
  if (one == nullptr || one->is_put || !one->is_sent || bytes == 0 || bytes > one->into.left())
    return broken("data that nobody asked for: {} bytes for transfer {}", bytes, record.ticket);
  has_payload_ = true;
  reader_.payload_into(one->into);
  return {};
}

Result<void> LinkInbox::take_done(const LinkRecord& record) {
  const Ticket ticket{record.ticket};
  const auto* const one = ledger_.transfers.find(ticket);
  const bool is_status = record.status <= LinkStatus::lost;
  if (one == nullptr || !one->is_sent || !is_status)
    return broken("the end of a transfer that is not under way ({}, status {})", record.ticket,
                  static_cast<unsigned>(record.status));
  if (record.status == LinkStatus::ok && !one->is_put && one->into.left() > 0)
    return broken("the end of a get before its bytes: {} lack", one->into.left());
  ledger_.end_transfer(ticket, record.status);
  return {};
}

Result<void> LinkInbox::take_control(const LinkRecord& record) {
  const Bytes bytes = record.payload_bytes();
  if (bytes == 0) return broken("a control message of 0 bytes");
  if (record.kind == LinkRecord::Kind::hello && !ledger_.puller)
    return broken("it is no stream link");
  if (controls_.size() >= kMaxLinkControls)
    return broken("more control messages than allowed: {} wait already", controls_.size());
  control_.resize(bytes);
  has_payload_ = true;
  reader_.payload_into({control_.data(), 1, bytes, bytes});
  return {};
}

Result<void> LinkInbox::take_credit(const LinkRecord& record) {
  if (record.rows > ledger_.controls_out || record.row_bytes > ledger_.signals_out)
    return broken("it took more than it was sent: {} messages of {}, {} signals of {}", record.rows,
                  ledger_.controls_out, record.row_bytes, ledger_.signals_out);
  ledger_.controls_out -= record.rows;
  ledger_.signals_out -= record.row_bytes;
  return {};
}

Result<void> LinkInbox::take_share(const LinkRecord& record) {
  ReceivedFds descriptors = reader_.take_descriptors();
  if (!ledger_.puller || descriptors.size() > 1)
    return broken("a shared region with {} descriptors", descriptors.size());
  ReceivedFd descriptor;
  if (!descriptors.empty()) descriptor = ReceivedFd(std::move(descriptors[0]));
  return ledger_.puller->import(record, std::move(descriptor));
}

Result<void> LinkInbox::take_bye(const LinkRecord& record) {
  if (record.status == LinkStatus::broke_rules)
    return fail(Code::peer_gone, "it ended the link: what this end sent was not as agreed",
                "its error says what; keys and offsets must be those that it handed over");
  return fail(Code::closed, "it closed the link");
}

Result<void> LinkInbox::end_payload() {
  has_payload_ = false;
  const LinkRecord& record = reader_.record();
  const Bytes bytes = record.payload_bytes();
  if (record.kind == LinkRecord::Kind::control) {
    controls_.push_back(std::move(control_));
    ledger_.note(trace::Moved::received, heard_, heard_, bytes);
  }
  if (record.kind == LinkRecord::Kind::hello) return ledger_.puller->take_hello(control_);
  if (record.kind == LinkRecord::Kind::data) {
    if (auto* const one = ledger_.transfers.find(Ticket{record.ticket})) one->into.advance(bytes);
  }
  return record.kind == LinkRecord::Kind::put ? end_put(record, bytes) : Result<void>();
}

// A signal is raised behind what is still being pulled: I1.
Result<void> LinkInbox::end_put(const LinkRecord& record, Bytes bytes) {
  if (put_status_ == LinkStatus::ok) ledger_.landed.landed_bytes += bytes;
  put_bytes_ += bytes;
  if (!record.is_last) return {};
  const LinkStatus status = std::exchange(put_status_, LinkStatus::ok);
  const Time begun = std::exchange(put_begun_, Time{});
  const Bytes all = std::exchange(put_bytes_, 0);
  const Ticket ticket{record.ticket};
  if (status == LinkStatus::ok) ledger_.note(trace::Moved::landed, begun, heard_, all, ticket);
  outbox_.add_done(ticket, status);
  if (status != LinkStatus::ok || !record.has_signal) return {};
  if (incoming_.empty()) return ledger_.raise(record.signal);
  if (ledger_.signals.size() + incoming_.size() >= kMostIncoming)
    return broken("more signals than allowed: {} wait for puts", incoming_.size());
  incoming_.push_back({{}, record.signal, true});
  return {};
}

// ---- pulled --------------------------------------------------------------------------------

Result<bool> LinkInbox::end_pulls() {
  for (bool has_moved = false;; has_moved = true) {
    const auto job = ledger_.puller->next_ended();
    if (!job) return has_moved;
    GANTRY_TRY(end_pull(*job));
  }
}

Result<void> LinkInbox::end_pull(const Puller::Job& job) {
  const bool is_well = job.status == LinkStatus::ok;
  if (is_well) ledger_.landed.pulled_bytes += job.bytes;
  if (job.is_put) {
    outbox_.add_done(job.ticket, job.status);
    if (is_well) ledger_.landed.landed_bytes += job.bytes;
    if (is_well && trace::is_on()) [[unlikely]]
      ledger_.note(trace::Moved::landed, job.begun, std::chrono::steady_clock::now(), job.bytes,
                   job.ticket);
    return end_incoming(job.ticket, is_well);
  }
  if (is_well && job.signal) {
    LinkRecord raise{LinkRecord::Kind::raise};
    raise.signal = *job.signal;
    raise.has_signal = true;
    outbox_.add(raise);
  }
  ledger_.end_transfer(job.ticket, job.status);
  return {};
}

Result<void> LinkInbox::end_incoming(Ticket ticket, bool is_well) {
  const auto ended = std::ranges::find_if(
      incoming_, [&](const IncomingPut& put) { return !put.has_ended && put.ticket == ticket; });
  if (ended != incoming_.end()) {
    ended->has_ended = true;
    if (!is_well) ended->signal.reset();
  }
  for (; !incoming_.empty() && incoming_.front().has_ended; incoming_.pop_front())
    GANTRY_TRY(ledger_.raise(incoming_.front().signal));
  return {};
}

}  // namespace gantry
