#include "net/link/socket/ledger.hpp"

#include "core/base/assert.hpp"
#include "core/base/result.hpp"

namespace gantry {
namespace {

// What loopback and one copy take; the first transfers correct it.
constexpr Cost kTypicalStream{std::chrono::microseconds(30), 2.0};
constexpr Cost kTypicalShared{std::chrono::microseconds(20), 6.0};

constexpr Bytes kSizeOfAll = std::numeric_limits<Bytes>::max();

}  // namespace

LinkLedger::LinkLedger(const std::string& peer, std::unique_ptr<Puller> way)
    : transfers(way && way->kind() == LinkKind::shared ? kTypicalShared : kTypicalStream),
      puller(std::move(way)),
      trace(trace::EndKind::link, peer) {}

Result<void> LinkLedger::raise(const std::optional<std::uint64_t>& signal) {
  if (!signal) return {};
  if (signals.size() >= kMaxLinkSignals)  // I1
    return fail(Code::peer_misbehaved,
                fmt::format("more signals than allowed: {} wait already", signals.size()));
  signals.push_back(*signal);
  has_raised = true;
  return {};
}

void LinkLedger::end_transfer(Ticket ticket, LinkStatus status) {
  const auto* const one = transfers.find(ticket);
  if (one != nullptr && one->has_signal && status != LinkStatus::ok) {
    GANTRY_DEBUG_ASSERT(signals_out > 0);  // begin() has counted it, and no credit came for it
    --signals_out;
  }
  if (one != nullptr && status == LinkStatus::ok && trace::is_on()) [[unlikely]]
    note(one->is_put ? trace::Moved::put : trace::Moved::get, one->begun,
         std::chrono::steady_clock::now(), one->bytes, ticket);
  transfers.end(ticket, status);
}

std::optional<LinkRecord> LinkLedger::pulled_put(const Transfer& transfer, Ticket ticket) const {
  const auto extent = extent_of(transfer.rows, transfer.row_bytes, transfer.local_stride);
  const auto place = exports.shared_place({transfer.local, extent.value_or(kSizeOfAll)});
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

void LinkLedger::slow_note(trace::Moved what, Time begin, Time end, Bytes bytes, Ticket ticket) {
  using trace::EventKind;
  const bool is_control = what == trace::Moved::sent || what == trace::Moved::received;
  trace.worked({.kind = is_control ? EventKind::control : EventKind::transfer,
                .detail = static_cast<std::uint8_t>(what),
                .begin = begin,
                .end = end,
                .number = static_cast<std::uint32_t>(ticket),
                .bytes = bytes});
}

void LinkLedger::note_wait(Time began) {
  if (began == Time{} || !trace::is_on()) return;
  trace.worked({.kind = trace::EventKind::wait,
                .detail = static_cast<std::uint8_t>(trace::Awaited::peer),
                .begin = began,
                .end = std::chrono::steady_clock::now()});
}

}  // namespace gantry
