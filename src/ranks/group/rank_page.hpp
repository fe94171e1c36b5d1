#pragma once  // group/rank_page.hpp: what a rank says of itself, in a file that others may read.

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <gantry/group.hpp>
#include <span>

#include "core/base/os/fd.hpp"
#include "core/base/os/fork.hpp"

namespace gantry {

/// A step of a plan, or another rank, of which the page says something. 8 bytes.
struct RankPageStep {
  static constexpr std::uint16_t kNoRank = 0xffff;
  std::uint32_t step = 0;
  std::uint16_t rank = kNoRank;  // that does it; of an own transfer, the far one
  std::uint8_t verb = 0;         // a PlanVerb
  std::uint8_t kind = 0;         // RankPage::Kind
};

/// One rank writes it, anybody of its user reads it (docs/formats/group.md). For display only:
/// nothing is decided by it.
///   P1  `version` is odd while what stands behind it is written. One thread at a time writes.
///   P2  The file is locked (flock) from before it has its name until the rank's end.
struct RankPage {
  static constexpr std::uint64_t kMagic = 0x31'6b'6e'61'72'67'79'67;  // "gygrank1"
  static constexpr std::size_t kMostSteps = 8;
  enum class State : std::uint64_t { joining = 1, idle, preparing, running, broken };
  // What `at` says of a pair of steps.
  enum class Kind : std::uint8_t {
    none,
    comes,     // first: the rank that has not come, or not begun this run
    computes,  // first: an own step
    moves,     // first: an own step, and the far rank
    waits,     // first: an own step; second: the far one that has not ended
    hears,     // second: a far step that reaches this rank's memory
  };
  struct At {
    RankPageStep first;
    RankPageStep second;
  };

  std::uint64_t magic;
  std::uint64_t pid;
  std::uint64_t pid_space;    // of that number: inode of the namespace
  std::uint64_t pid_started;  // when that process did, in the kernel's ticks since boot
  std::uint64_t rank;
  std::uint64_t ranks;
  std::array<char, 72> name;  // of the group; zeros behind it, as in all texts here

  alignas(64) std::atomic<std::uint64_t> version;
  std::uint64_t state;
  std::uint64_t since_ns;  // CLOCK_MONOTONIC
  std::uint64_t epoch;
  std::uint64_t operation;  // which of the group's common calls
  std::uint64_t plan_hash;
  std::uint64_t runs;   // of any plan, this one included
  std::uint64_t steps;  // of this rank; a barrier is two
  std::array<char, 160> plan;
  std::array<char, 512> why;  // it is broken
  std::array<At, kMostSteps> at;

  // Written alone, by relaxed stores: the newest step that was handed over, and how many ended.
  alignas(64) std::atomic<RankPageStep> handed_over;
  std::atomic<std::uint64_t> ended;
};
static_assert(sizeof(RankPageStep) == 8 && std::atomic<RankPageStep>::is_always_lock_free);
static_assert(offsetof(RankPage, version) == 128 && offsetof(RankPage, plan) == 192);
static_assert(offsetof(RankPage, at) == 864 && offsetof(RankPage, handed_over) == 1024);
static_assert(sizeof(RankPage) == 1088);

inline constexpr const char* kRankPageSuffix = ".rank";

/// Keeps the page of one rank. Where there can be none it writes into memory that nobody sees.
class GANTRY_LOCAL RankReport {
 public:
  explicit RankReport(const GroupOptions& options) noexcept;
  ~RankReport();
  RankReport(const RankReport&) = delete;
  RankReport& operator=(const RankReport&) = delete;

  void enter(RankPage::State state, std::uint64_t operation = 0) noexcept;
  void joined(std::uint64_t epoch) noexcept;
  void broke(std::string_view why) noexcept;
  /// The plan that this rank prepares; what runs from now on.
  void plan(std::uint64_t hash, std::string_view about, std::uint64_t steps) noexcept;
  void begin_run(std::uint64_t operation) noexcept;
  void show(std::span<const RankPage::At> at) noexcept;
  /// Ranks that have not come.
  void show_missing(std::span<const unsigned> ranks) noexcept;

  void hand_over(RankPageStep step) noexcept {
    // Relaxed: for display; it stands for itself.
    page_->handed_over.store(step, std::memory_order_relaxed);
  }
  void count_ended(std::uint64_t steps) noexcept {
    page_->ended.store(steps, std::memory_order_relaxed);  // likewise
  }
  [[nodiscard]] std::uint64_t plan_hash() const noexcept { return page_->plan_hash; }

 private:
  template <class Write>
  void write(Write write) noexcept;
  void open_file(const GroupOptions& options) noexcept;

  RankPage own_{};
  RankPage* page_ = &own_;
  Fd file_;           // locked
  std::string path_;  // empty: there is none
  ForkGuard fork_guard_;
};

/// When a process began, as /proc says; 0: it cannot be seen.
[[nodiscard]] std::uint64_t process_start(std::uint64_t pid) noexcept;
/// Which namespace this process has its number in; 0: there is no /proc.
[[nodiscard]] std::uint64_t own_pid_space() noexcept;
/// Removes the pages of dead ranks.
void sweep_rank_pages(const std::string& directory) noexcept;

}  // namespace gantry
