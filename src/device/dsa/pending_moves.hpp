#pragma once  // dsa/pending_moves.hpp: the unfinished moves of one lane, their parts, and the
              // meaning of a part's record.

#include <gantry/engine.hpp>
#include <vector>

#include "core/engine/lane_progress.hpp"
#include "device/dsa/descriptor.hpp"

namespace gantry::dsa {

struct PendingMove;

/// The piece of a move for one descriptor. Its holder changes it: the ready list, the device's
/// flights, or the thread that works on it.
struct Part {
  PendingMove* owner = nullptr;
  Bytes offset = 0;  ///< Its place in its move.
  Move move;         ///< What is left of it.
  CacheUse cache = CacheUse::reader_soon;
  Bytes certain = 0;  ///< Bytes done for certain, from its front.
  unsigned faults = 0;
  bool populated = false;  ///< Its pages were made present, or the caller says they are.
  bool to_cpu = false;     ///< The device is not asked again.
};

/// True if the device can do the move: it cannot convert.
[[nodiscard]] inline bool device_takes(const Move& move) noexcept {
  return move.kind != Move::Kind::reshape;
}

/// The descriptor for what is left of `part`, to be answered in `record`.
[[nodiscard]] Descriptor describe(const Part& part, const CompletionRecord& record) noexcept;

/// What follows from a record. A move writes nothing of what it reads, so that doing a part again
/// is right whatever the device did of it.
enum class Next : std::uint8_t {
  done,
  again,   ///< The rest can be submitted again once its pages are present.
  by_cpu,  ///< The device did not begin, stopped for good, or claims the impossible.
};

/// Reads a record whose raw status is `status`, and shortens the part by what was done.
[[nodiscard]] Next judge(Part& part, const CompletionRecord& record, std::uint8_t status) noexcept;

/// How moves are cut.
struct Cut {
  Bytes part_bytes = 0;     ///< Most bytes of a part; a multiple of kLine.
  Bytes align_from = 0;     ///< In moves from this size on parts begin at a cache line.
  std::uint32_t parts = 0;  ///< Most parts of one move at a time: others find room in the queue.
};
inline constexpr Bytes kLine = 64;

/// A move that was taken on. Its parts are handed out from the front, may end in any order and are
/// counted here.
struct PendingMove {
  static constexpr Bytes kNowhere = ~Bytes{0};

  Move move;
  CacheUse cache = CacheUse::reader_soon;
  Bytes given = 0;             ///< Bytes handed out.
  std::uint32_t open = 0;      ///< Parts handed out that have not ended.
  Bytes failed_at = kNowhere;  ///< The lowest offset from which on something is missing.
  Cause cause = Cause::none;
  std::uintptr_t fault_address = 0;
  Bytes by_device = 0;
  Bytes by_cpu = 0;
  std::uint64_t helper_cpu_ns = 0;
  bool cancelled = false;
  bool faulted = false;  ///< A page was missing, so others of the move may be.

  [[nodiscard]] bool stopped() const noexcept { return cancelled || failed_at != kNowhere; }
  [[nodiscard]] bool over() const noexcept {
    return open == 0 && (given == move.bytes || stopped());
  }
  void fail(Bytes at, Cause why, std::uintptr_t address) noexcept;
};

/// The moves of one lane in a ring, by their tickets. The dispatcher's lock guards it.
///   I1  Tickets from first() to last() are unfinished; they leave from the front, in order.
class PendingMoves {
 public:
  /// `progress` must outlive it.
  PendingMoves(std::size_t depth, LaneProgress& progress);

  [[nodiscard]] std::size_t room() const noexcept { return ring_.size() - count(); }
  [[nodiscard]] std::size_t count() const noexcept {
    return static_cast<std::size_t>(last_ + 1 - first_);
  }
  void add(const Move& move, CacheUse cache) noexcept;
  void cancel() noexcept;
  /// The next piece of any move that may begin. False: there is none at present.
  bool next_part(const Cut& cut, Part& part) noexcept;

  struct Retired {
    std::size_t moves = 0;
    Bytes taken_bytes = 0;  ///< Their sizes when they were submitted.
  };
  /// Ends what is over, writes the completions and counts in `report`.
  Retired retire(EngineReport& report) noexcept;
  /// Bytes of the moves up to `ticket` that are not done.
  [[nodiscard]] Bytes left(std::uint64_t ticket) const noexcept;
  /// For a lane that a fork()ed child inherited: ends all up to `last` as failed, by tickets and
  /// completions alone; the rest may be half-written.
  void disown(std::uint64_t last) noexcept;

 private:
  [[nodiscard]] PendingMove& at(std::uint64_t ticket) noexcept {
    return ring_[ticket % ring_.size()];
  }
  void end(PendingMove& pending, EngineReport& report) noexcept;

  std::vector<PendingMove> ring_;
  std::uint64_t first_ = 1;
  std::uint64_t last_ = 0;
  std::uint64_t next_ = 1;  // all before it were handed out wholly, or will not be
  LaneProgress& progress_;
};

}  // namespace gantry::dsa
