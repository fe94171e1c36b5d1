#pragma once  // link/transfers.hpp: a link's tickets: what is under way, and how the rest ended.

#include <gantry/link.hpp>
#include <map>

#include "link/record.hpp"
#include "link/rows.hpp"

namespace gantry {

/// Checks what can be checked at this end. `what`: "put" or "get". Errors: see Link::put().
[[nodiscard]] Result<void> check_transfer(const Transfer& transfer, RemoteAccess needed,
                                          std::string_view what);
[[nodiscard]] inline RowCursor local_rows(const Transfer& transfer) noexcept {
  return {transfer.local, transfer.rows, transfer.row_bytes, transfer.local_stride};
}

/// Learns what transfers take. Smaller ones show the start, larger ones the rate.
class LearnedCost {
 public:
  explicit LearnedCost(const Cost& typical) noexcept : cost_(typical) {}
  void add(Bytes bytes, std::chrono::nanoseconds took) noexcept;
  [[nodiscard]] const Cost& cost() const noexcept { return cost_; }

 private:
  Cost cost_;
};

/// Used under its link's lock.
///   I1  A ticket that was given out is in under_way_ until it has ended, and in failed_ afterwards
///       if it failed, until kRemembered later ones have. Those that end with the link stay in
///       under_way_: that needs no memory.
class Transfers {
 public:
  static constexpr std::size_t kMost = 256;
  static constexpr std::size_t kRemembered = 1024;

  struct UnderWay {
    bool is_put = false;
    bool has_signal = false;
    bool is_sent = false;  // the far end may answer
    Bytes bytes = 0;
    RowCursor into;  // of a get: what has not arrived yet
    std::chrono::steady_clock::time_point begun;
  };

  explicit Transfers(const Cost& typical) noexcept : cost_(typical) {}

  /// Errors: `busy`.
  [[nodiscard]] Result<Ticket> begin(const Transfer& transfer, bool is_put);
  /// Null: not under way.
  [[nodiscard]] UnderWay* find(Ticket ticket) noexcept;
  /// Ends one that is under way.
  void end(Ticket ticket, LinkStatus status);
  void end_all() noexcept;  ///< All that is under way has failed with the link.

  [[nodiscard]] bool is_idle() const noexcept { return under_way_.empty(); }
  [[nodiscard]] Outcome outcome(Ticket ticket) const noexcept;
  /// Why a transfer failed, unless with the link. Errors: see Link::wait().
  [[nodiscard]] Result<void> result(Ticket ticket, const std::string& peer) const;
  [[nodiscard]] bool failed_with_link(Ticket ticket) const noexcept;

  [[nodiscard]] const Cost& cost() const noexcept { return cost_.cost(); }
  void add_to(LinkReport& report) const noexcept;

 private:
  std::uint64_t last_ = 0;
  std::map<Ticket, UnderWay> under_way_;
  std::map<Ticket, LinkStatus> failed_;
  bool is_over_ = false;  // what under_way_ holds has failed with the link
  LearnedCost cost_;
  LinkReport counted_;
};

}  // namespace gantry
