#include <algorithm>

#include "base/result.hpp"
#include "link/socket/session.hpp"

// What the far end says. Nothing of it is believed before it was checked.
namespace gantry {
namespace {

tl::unexpected<Error> broken(std::string what) {
  return fail(Code::peer_misbehaved, std::move(what));
}

std::optional<std::uint64_t> signal_of(const LinkRecord& record) noexcept {
  if (!record.has_signal) return {};
  return record.signal;
}

}  // namespace

Result<void> SocketSession::take_record() {
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
      return take_signal(signal_of(record));
    case Kind::unshare:
      if (puller_) puller_->forget(record.key);
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
Result<std::byte*> SocketSession::reach(const LinkRecord& record, RemoteAccess wanted) {
  std::byte* first = nullptr;
  const auto verdict = exports_.find(record.key, wanted, record.offset, record.rows,
                                     record.row_bytes, record.stride, first);
  switch (verdict) {
    case Exports::Verdict::ok:
      return first;
    case Exports::Verdict::withdrawn:
      return nullptr;
    case Exports::Verdict::never:
      return broken(fmt::format("key {:#x} was never given to it", record.key));
    case Exports::Verdict::denied:
      return broken(fmt::format("key {:#x} is not exported for that", record.key));
    case Exports::Verdict::beyond:
      break;
  }
  return broken(fmt::format("{} rows of {} bytes at offset {} of key {:#x}: beyond that memory",
                            record.rows, record.row_bytes, record.offset, record.key));
}

Result<void> SocketSession::take_put(const LinkRecord& record) {
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

Result<void> SocketSession::take_put_pulled(const LinkRecord& record) {
  if (!puller_) return broken("a put that a stream link should pull");
  GANTRY_ASSIGN(std::byte* const first, reach(record, RemoteAccess::write));
  const Ticket ticket{record.ticket};
  if (first == nullptr) {
    send_done(ticket, LinkStatus::withdrawn);
    return {};
  }
  if (puller_->under_way() >= 2 * Transfers::kMost) return broken("too many puts at a time");
  const Puller::Job job{.is_put = true,
                        .ticket = ticket,
                        .key = record.key,
                        .signal = signal_of(record),
                        .bytes = record.rows * record.row_bytes,
                        .begun = heard_};
  const RowCursor to(first, record.rows, record.row_bytes, record.stride);
  const Puller::Source source{record.source_key, record.source_offset, record.rows,
                              record.row_bytes, record.source_stride};
  const auto begun =
      puller_->has(record.source_key) ? puller_->begin(job, to, source) : Puller::Begun::beyond;
  if (begun == Puller::Begun::beyond)
    return broken(
        fmt::format("a put out of memory that it does not share (key {:#x})", record.source_key));
  if (begun == Puller::Begun::no)
    send_done(ticket, LinkStatus::lost);
  else
    incoming_.push_back({ticket, signal_of(record)});
  return {};
}

Result<void> SocketSession::take_get(const LinkRecord& record) {
  GANTRY_ASSIGN(std::byte* const first, reach(record, RemoteAccess::read));
  const Ticket ticket{record.ticket};
  if (first == nullptr) {
    send_done(ticket, LinkStatus::withdrawn);
    return {};
  }
  const RowCursor rows(first, record.rows, record.row_bytes, record.stride);
  if (rows.left() == 0) {
    send_done(ticket, LinkStatus::ok);
    return take_signal(signal_of(record));
  }
  if (answers_.size() >= Transfers::kMost) return broken("too many gets at a time");
  answers_.push_back({ticket, record.key, rows, signal_of(record), rows.left(), heard_});
  return {};
}

Result<void> SocketSession::take_data(const LinkRecord& record) {
  auto* const one = transfers_.find(Ticket{record.ticket});
  const Bytes bytes = record.payload_bytes();
  if (one == nullptr || one->is_put || !one->is_sent || bytes == 0 || bytes > one->into.left())
    return broken("data that nobody asked for");
  has_payload_ = true;
  reader_.payload_into(one->into);
  return {};
}

Result<void> SocketSession::take_done(const LinkRecord& record) {
  const Ticket ticket{record.ticket};
  const auto* const one = transfers_.find(ticket);
  const bool is_status = record.status <= LinkStatus::lost;
  if (one == nullptr || !one->is_sent || !is_status)
    return broken("the end of a transfer that is not under way");
  if (record.status == LinkStatus::ok && !one->is_put && one->into.left() > 0)
    return broken("the end of a get before its bytes");
  end_transfer(ticket, record.status);
  return {};
}

Result<void> SocketSession::take_control(const LinkRecord& record) {
  const Bytes bytes = record.payload_bytes();
  if (bytes == 0) return broken("a control message of 0 bytes");
  if (record.kind == LinkRecord::Kind::hello && !puller_) return broken("it is no stream link");
  if (controls_.size() >= kMaxLinkControls) return broken("more control messages than allowed");
  control_.resize(bytes);
  has_payload_ = true;
  reader_.payload_into({control_.data(), 1, bytes, bytes});
  return {};
}

Result<void> SocketSession::take_credit(const LinkRecord& record) {
  if (record.rows > controls_out_ || record.row_bytes > signals_out_)
    return broken("it took more than it was sent");
  controls_out_ -= record.rows;
  signals_out_ -= record.row_bytes;
  return {};
}

Result<void> SocketSession::take_share(const LinkRecord& record) {
  ReceivedFds descriptors = reader_.take_descriptors();
  if (!puller_ || descriptors.size() > 1)
    return broken(fmt::format("a shared region with {} descriptors", descriptors.size()));
  ReceivedFd descriptor;
  if (!descriptors.empty()) descriptor = ReceivedFd(std::move(descriptors[0]));
  return puller_->import(record, std::move(descriptor));
}

Result<void> SocketSession::take_bye(const LinkRecord& record) {
  if (record.status == LinkStatus::broke_rules)
    return fail(Code::peer_gone, "it ended the link: what this end sent was not as agreed",
                "its error says what; keys and offsets must be those that it handed over");
  return fail(Code::closed, "it closed the link");
}

Result<void> SocketSession::take_signal(const std::optional<std::uint64_t>& signal) {
  if (!signal) return {};
  if (signals_.size() >= kMaxLinkSignals) return broken("more signals than allowed");
  signals_.push_back(*signal);
  has_moved_ = true;  // an answer may end in any thread's call, also as it only sends
  wake_all();
  return {};
}

// Behind what is still being pulled: signals are raised in the order of the puts.
Result<void> SocketSession::take_put_signal(const std::optional<std::uint64_t>& signal) {
  if (incoming_.empty() || !signal) return take_signal(signal);
  if (signals_.size() + incoming_.size() >= kMaxLinkSignals + 2 * Transfers::kMost)
    return broken("more signals than allowed");
  incoming_.push_back({{}, signal, true});
  return {};
}

Result<void> SocketSession::end_incoming(Ticket ticket, bool is_well) {
  const auto ended = std::ranges::find_if(
      incoming_, [&](const IncomingPut& put) { return !put.has_ended && put.ticket == ticket; });
  if (ended != incoming_.end()) {
    ended->has_ended = true;
    if (!is_well) ended->signal.reset();
  }
  for (; !incoming_.empty() && incoming_.front().has_ended; incoming_.pop_front())
    GANTRY_TRY(take_signal(incoming_.front().signal));
  return {};
}

Result<void> SocketSession::end_payload() {
  has_payload_ = false;
  const LinkRecord& record = reader_.record();
  const Bytes bytes = record.payload_bytes();
  if (record.kind == LinkRecord::Kind::control) {
    controls_.push_back(std::move(control_));
    trace(trace::Moved::received, heard_, heard_, bytes);
  }
  if (record.kind == LinkRecord::Kind::hello) return puller_->take_hello(control_);
  if (record.kind == LinkRecord::Kind::data) {
    if (auto* const one = transfers_.find(Ticket{record.ticket})) one->into.advance(bytes);
  }
  if (record.kind != LinkRecord::Kind::put) return {};
  if (put_status_ == LinkStatus::ok) landed_.landed_bytes += bytes;
  put_bytes_ += bytes;
  if (!record.is_last) return {};
  const LinkStatus status = std::exchange(put_status_, LinkStatus::ok);
  const Time begun = std::exchange(put_begun_, Time{});
  const Bytes all = std::exchange(put_bytes_, 0);
  if (status == LinkStatus::ok) trace(trace::Moved::landed, begun, heard_, all, record.ticket);
  send_done(Ticket{record.ticket}, status);
  return status == LinkStatus::ok ? take_put_signal(signal_of(record)) : Result<void>();
}

}  // namespace gantry
