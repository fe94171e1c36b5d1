#pragma once  // link/tables.hpp: a link's exported memory, and its tickets.

#include <gantry/link.hpp>
#include <map>
#include <unordered_map>

#include "net/link/record.hpp"

namespace gantry {

/// Used under its link's lock.
///   I1  A key is the link's random number and a count, so it never names anything else, and one
///       of another link is recognised as never given out.
class Exports {
 public:
  static constexpr std::size_t kMost = 4096;

  struct Entry {
    ByteSpan memory;
    RemoteAccess access = RemoteAccess::read;
    bool is_shared = false;  // the far end maps it
  };
  enum class Verdict : std::uint8_t {
    ok,
    withdrawn,  // was exported once
    never,      // a key that this link never gave out
    denied,     // not for this access
    beyond,     // not within the memory
  };

  Exports();

  [[nodiscard]] Result<std::uint64_t> add(ByteSpan memory, RemoteAccess access);
  void set_shared(std::uint64_t key);
  /// Returns what it was.
  std::optional<Entry> remove(std::uint64_t key) noexcept;
  [[nodiscard]] bool has(std::uint64_t key) const noexcept { return entries_.contains(key); }

  /// Whether the far end may reach these rows. If so `first` is the first one.
  [[nodiscard]] Verdict find(std::uint64_t key, RemoteAccess wanted, Bytes offset, Bytes rows,
                             Bytes row_bytes, Bytes stride, std::byte*& first) const noexcept;

  struct Place {
    std::uint64_t key = 0;
    Bytes offset = 0;
  };
  /// Where in a shared export this lies whole, if it does.
  [[nodiscard]] std::optional<Place> shared_place(ConstByteSpan memory) const noexcept;

 private:
  std::uint64_t last_key_;
  std::uint64_t first_key_;
  std::unordered_map<std::uint64_t, Entry> entries_;
  std::map<const std::byte*, std::uint64_t> shared_;  // by where they begin
};

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
