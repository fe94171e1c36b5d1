#pragma once  // link/socket/ledger.hpp: what both directions of a socket link look up and count.

#include <deque>

#include "core/trace/end_trace.hpp"
#include "net/link/puller.hpp"
#include "net/link/tables.hpp"

namespace gantry {

inline constexpr std::size_t kMaxLinkControls = 64;
inline constexpr std::size_t kMaxLinkSignals = 1024;
/// What one call moves in each direction, so that it ends and others get the lock.
inline constexpr Bytes kLinkBudget = Bytes{4} << 20;

/// Used under its session's lock.
///   I1  At most kMaxLinkSignals signals wait here.
struct LinkLedger {
  using Time = std::chrono::steady_clock::time_point;

  LinkLedger(const std::string& peer, std::unique_ptr<Puller> way);

  /// Hands a signal to this end's user. Errors: `peer_misbehaved` when too many wait.
  [[nodiscard]] Result<void> raise(const std::optional<std::uint64_t>& signal);
  void end_transfer(Ticket ticket, LinkStatus status);
  /// What tells the far end to pull a put. Nothing: its memory is not shared.
  [[nodiscard]] std::optional<LinkRecord> pulled_put(const Transfer& transfer, Ticket ticket) const;

  /// For a recording. While nobody records, one load and one branch.
  void note(trace::Moved what, Time begin, Time end, Bytes bytes, Ticket ticket = {}) {
    if (trace::is_on()) [[unlikely]]
      slow_note(what, begin, end, bytes, ticket);
  }
  void slow_note(trace::Moved what, Time begin, Time end, Bytes bytes, Ticket ticket);
  void note_wait(Time began);  ///< No time: nobody recorded when it began.

  Exports exports;
  Transfers transfers;
  std::unique_ptr<Puller> puller;  // null: all payload takes the socket
  LinkReport landed;               // what the far end did here
  std::deque<std::uint64_t> signals;
  bool has_raised = false;       // since the session last told its waiters
  std::size_t controls_out = 0;  // sent and not known to be taken
  std::size_t signals_out = 0;
  trace::RoamingTrace trace;
};

}  // namespace gantry
