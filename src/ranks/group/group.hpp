#pragma once  // group/group.hpp: what a group is made of.

#include <condition_variable>
#include <deque>
#include <gantry/group.hpp>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "core/trace/end_trace.hpp"
#include "ranks/group/rank_page.hpp"

namespace gantry {

inline constexpr std::size_t kMostGroupMessages = 256;  // of a rank, that nobody has taken
inline constexpr std::size_t kMostGroupCallers = 512;   // that have not said who they are
inline constexpr std::uint64_t kGroupMagic = 0x32'70'75'6f'72'67'79'67;  // "gygroup2"
/// Longer than any wait of a loop that serves links, which have to be polled within their beat.
inline constexpr std::chrono::milliseconds kGroupBeat{50};

/// What ranks say to each other besides payload. docs/formats/group.md
struct RankMessage {
  enum class Kind : std::uint8_t {
    joined = 1,  // word: the epoch, of rank 0
    prepare,     // word: the plan's hash; payload: places in the sender's memory
    ready,       // word: of its PreparedPlan; the sender's memory may be written and read
    text,        // payload: what all ranks are to agree on, of rank 0 or of each
    failed,      // word: a Code; payload: message and hint, as the first rank said it
  };
  static constexpr std::size_t kHeadBytes = 24;  // before the payload
  static constexpr std::size_t kMostPayload = 2048;

  Kind kind = Kind::joined;
  std::uint64_t operation = 0;  ///< Which of the group's common calls it belongs to.
  std::uint64_t word = 0;
  std::vector<std::byte> payload = {};

  [[nodiscard]] std::vector<std::byte> encode() const;
  /// Errors: `peer_misbehaved`.
  [[nodiscard]] static Result<RankMessage> decode(ConstByteSpan bytes);

  [[nodiscard]] static RankMessage of_failure(std::uint64_t operation, const Error& error);
  [[nodiscard]] Error failure() const;
};

/// The ranks' links and what came by them. Whoever calls the links holds them meanwhile; while
/// nobody does, a thread polls them, so that a rank that is at work elsewhere is not taken for
/// dead.
class GANTRY_LOCAL Group::Impl {
 public:
  /// `links`: null at this rank's place.
  Impl(GroupOptions options, std::vector<std::unique_ptr<Link>> links,
       std::unique_ptr<RankReport> report);
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  [[nodiscard]] unsigned rank() const noexcept { return options_.rank; }
  [[nodiscard]] unsigned ranks() const noexcept { return options_.ranks; }
  [[nodiscard]] const GroupOptions& options() const noexcept { return options_; }
  [[nodiscard]] std::uint64_t epoch() const noexcept { return epoch_; }
  [[nodiscard]] Link& link(unsigned peer) noexcept { return *links_[peer]; }
  [[nodiscard]] const Link& link(unsigned peer) const noexcept { return *links_[peer]; }
  [[nodiscard]] const std::optional<Error>& failure() const noexcept { return failure_; }
  /// What others see of this rank. Of whoever holds the links.
  [[nodiscard]] RankReport& report() noexcept { return *report_; }
  /// What this rank does, for whoever records.
  [[nodiscard]] trace::EndTrace& trace() noexcept { return trace_; }
  /// Another rank said what has failed.
  [[nodiscard]] bool has_been_told() const noexcept { return told_.has_value(); }

  /// The group, when all ranks are there. Errors: as Group::over().
  [[nodiscard]] static Result<Group> form(const GroupOptions& options,
                                          std::vector<std::unique_ptr<Link>> links,
                                          std::unique_ptr<RankReport> report, Deadline deadline);

  /// For a common call, from its beginning to its end.
  [[nodiscard]] std::unique_lock<std::mutex> hold() { return std::unique_lock(held_); }
  /// Starts the thread. Errors: `system`, `out_of_memory`.
  [[nodiscard]] Result<void> keep_alive();

  /// All ranks are there and agree on the epoch.
  [[nodiscard]] Result<void> meet(Deadline deadline);
  /// "ranks 0 and 2": the same at both.
  [[nodiscard]] std::string pair_with(unsigned peer) const;

  /// The next of the common calls begins.
  void begin_operation() noexcept { ++operation_; }
  [[nodiscard]] std::uint64_t operation() const noexcept { return operation_; }

  /// Errors: the link's end, which it makes the group's.
  [[nodiscard]] Result<void> say(unsigned peer, const RankMessage& message);
  [[nodiscard]] Result<void> say_to_all(const RankMessage& message);
  /// Takes in what `peer` said, after its link was polled. Errors: that rank's failure, or another
  /// one's of which it tells, from then on each time; `peer_misbehaved`.
  [[nodiscard]] Result<void> listen(unsigned peer);
  /// The next message of the call that this rank is in; older ones are dropped. Errors:
  /// `invalid_argument` when that rank makes another call.
  [[nodiscard]] Result<std::optional<RankMessage>> take(unsigned peer, RankMessage::Kind kind);

  /// Polls all links once and listens to all ranks. A caller that waits for the word of one rank
  /// names that rank: other ranks may have left in order. Errors: as listen(); `interrupted`.
  [[nodiscard]] Result<bool> serve(std::optional<unsigned> awaited = std::nullopt);
  /// Sleeps until a link, `descriptor` (-1: none) or the interrupt has something, or kGroupBeat has
  /// passed, or the deadline.
  void sleep(int descriptor, Deadline deadline) noexcept;
  [[nodiscard]] Result<void> check_interrupt() const;
  /// Why the link to a rank ended, naming it.
  [[nodiscard]] Error error_of(unsigned peer) const;

  /// Tells every rank that is there, and ends the links: when it returns nothing lands any more.
  /// Returns what was first: an earlier failure, if there was one.
  Error break_with(const Error& error) noexcept;
  void leave() noexcept;

 private:
  [[nodiscard]] bool has_left(unsigned peer) const;
  void flush_last_words() noexcept;
  void poll_while_idle() noexcept;
  void close_links() noexcept;

  const GroupOptions options_;
  const std::unique_ptr<RankReport> report_;
  trace::EndTrace trace_;
  std::vector<std::unique_ptr<Link>> links_;  // none at this rank's place
  std::vector<std::deque<RankMessage>> messages_;
  std::uint64_t epoch_ = 0;
  std::uint64_t operation_ = 0;
  std::optional<Error> failure_;
  std::optional<Error> told_;  // by another rank: what has failed

  std::mutex held_;  // guards the links' progress
  std::mutex keeper_mutex_;
  std::condition_variable keeper_wake_;
  bool keeper_is_over_ = false;
  std::thread keeper_;
};

/// Errors: `invalid_argument`.
[[nodiscard]] Result<void> check_options(const GroupOptions& options);
[[nodiscard]] std::string title_of(const GroupOptions& options);  ///< "group 'x', rank 2"
/// "rank 2 has not joined", "ranks 1, 3 have not joined".
[[nodiscard]] std::string not_joined(const std::vector<unsigned>& ranks);

using Links = std::vector<std::unique_ptr<Link>>;
/// Links to all other ranks. Errors: as Group::join().
[[nodiscard]] Result<Links> join_by_name(const GroupOptions& options,
                                         const std::shared_ptr<Engine>& engine, Deadline deadline,
                                         RankReport& report);
[[nodiscard]] Result<Links> join_by_address(const GroupOptions& options, Deadline deadline,
                                            RankReport& report);
/// The folder of groups' names, which none of a channel is, and of ranks' pages.
[[nodiscard]] Result<std::string> group_directory(const GroupOptions& options);

}  // namespace gantry
