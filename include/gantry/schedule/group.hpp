#pragma once  // gantry/schedule/group.hpp: processes that run plans together.

#include <gantry/link.hpp>
#include <memory>
#include <string>
#include <vector>

namespace gantry {

/// What `gantry run` sets for each process of a stage with `ranks`: docs/formats/pipeline-file.md
inline constexpr const char* kGroupVariable = "GANTRY_GROUP";
/// This process's rank, from 0.
inline constexpr const char* kRankVariable = "GANTRY_RANK";
/// How many ranks the group has.
inline constexpr const char* kRanksVariable = "GANTRY_RANKS";
/// How long the rank waits for the others.
inline constexpr const char* kJoinWithinVariable = "GANTRY_JOIN_WITHIN_MS";

/// The most that a group may have.
inline constexpr unsigned kMostGroupRanks = 256;

/// Which group, and as which of its ranks.
struct GANTRY_API GroupOptions {
  /// Those of the rank as which `gantry run` started this process. Errors: `not_found` when it did
  /// not; `invalid_argument` when somebody else has set its variables.
  [[nodiscard]] static Result<GroupOptions> of_launcher();

  unsigned rank = 0;   ///< Of this process, from 0.
  unsigned ranks = 1;  ///< 1 to kMostGroupRanks.
  /// The same at all ranks. Without addresses it is how processes of one machine and one user find
  /// each other; two groups at a time need two names.
  std::string name = {};
  /// Of each rank: HOST:PORT, at which it listens while the group forms. Empty: by name.
  std::vector<std::string> addresses = {};
  /// Whoever knows it may be a rank; for addresses. 16 to 64 bytes. Empty: what $GANTRY_TOKEN_FILE
  /// holds. What travels is not encrypted.
  std::string token = {};
  std::string directory = {};  ///< For names; by the rule of channel_directory().
  /// If a rank has not come within this, joining fails at each.
  std::chrono::milliseconds join_timeout{10'000};
  /// A rank of which nothing was heard for this long is gone: its host vanished, or it is stopped.
  /// One that is at work elsewhere is not.
  std::chrono::milliseconds stall_limit{10'000};
  /// join() and runs end as `interrupted` when this descriptor is readable. Not owned.
  int interrupt_descriptor = -1;
};

/// Ranks, each of which has a link to each other one. Move-only. The ranks' calls that concern all
/// of them (PlanExecutor's) have to be the same, in the same order. One thread at a time; a thread
/// of the group says that this rank lives while none of them is under way. When one
/// of them fails, at any rank, the group is broken: every call says why, and the ranks that are
/// left may join a new one.
class GANTRY_API Group {
 public:
  /// Waits for the others. `engine` copies between ranks of one machine. Errors:
  /// `invalid_argument`; `timed_out`, with the ranks that have not come; `already_exists` when
  /// another process is that rank, or has that address; `permission_denied` for another token, or
  /// another user's group; `peer_gone` when a rank died meanwhile; `interrupted`, `unsupported`.
  [[nodiscard]] static Result<Group> join(const GroupOptions& options,
                                          std::shared_ptr<Engine> engine);
  /// The same until `deadline`, whatever GroupOptions::join_timeout is.
  [[nodiscard]] static Result<Group> join(const GroupOptions& options,
                                          std::shared_ptr<Engine> engine, Deadline deadline);
  /// As the rank as which `gantry run` started this process: with GroupOptions::of_launcher().
  [[nodiscard]] static Result<Group> join(std::shared_ptr<Engine> engine);
  /// A group over links that stand already: one to each rank, none at the place of this one. All
  /// ranks have to make theirs. Errors: as above.
  [[nodiscard]] static Result<Group> over(const GroupOptions& options,
                                          std::vector<std::unique_ptr<Link>> links);
  Group(Group&&) noexcept;
  Group& operator=(Group&&) noexcept;
  ~Group();  ///< As leave().

  /// From 0.
  [[nodiscard]] unsigned rank() const noexcept;
  /// How many there are.
  [[nodiscard]] unsigned ranks() const noexcept;
  /// The group's name.
  [[nodiscard]] const std::string& name() const noexcept;
  /// A number that no other group has, the same at all ranks.
  [[nodiscard]] std::uint64_t epoch() const noexcept;
  /// The way to a rank: "shared, process 17"; of this rank: "this one".
  [[nodiscard]] std::string explain(unsigned rank) const;
  /// Nothing, or why the group is broken.
  [[nodiscard]] Result<void> state() const;
  /// Ends the links. Ranks that still wait for this one hear `peer_gone`.
  void leave() noexcept;

  class Impl;
  /// For what runs plans on it.
  [[nodiscard]] Impl& impl() noexcept { return *impl_; }

 private:
  explicit Group(std::unique_ptr<Impl> impl) noexcept;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gantry
