#pragma once  // gantry/group.hpp: processes that run plans together, and their places.

#include <gantry/link.hpp>
#include <memory>
#include <string>
#include <vector>

namespace gantry {

/// Set by `gantry run` for each process of a stage with `ranks`: docs/formats/pipeline-file.md.
inline constexpr const char* kGroupVariable = "GANTRY_GROUP";
/// Number of this process's rank, from 0.
inline constexpr const char* kRankVariable = "GANTRY_RANK";
/// Number of ranks in the group.
inline constexpr const char* kRanksVariable = "GANTRY_RANKS";
/// Time that the rank waits for the others, in milliseconds.
inline constexpr const char* kJoinWithinVariable = "GANTRY_JOIN_WITHIN_MS";

/// Largest number of ranks in a group.
inline constexpr unsigned kMostGroupRanks = 256;

/// The group to join, and this process's rank in it.
struct GANTRY_API GroupOptions {
  /// The options of the rank that `gantry run` gave this process. Errors: `not_found` if `gantry
  /// run` did not start the process; `invalid_argument` if the variables have unexpected values.
  [[nodiscard]] static Result<GroupOptions> of_launcher();

  unsigned rank = 0;   ///< Number of this process's rank, from 0.
  unsigned ranks = 1;  ///< Number of ranks, 1 to kMostGroupRanks.
  /// Name of the group, equal at all ranks. Without addresses, processes of one machine and one
  /// user find each other by the name; two groups at a time need two names.
  std::string name = {};
  /// For each rank: HOST:PORT, at which it listens while the group forms. Empty: ranks find each
  /// other by name.
  std::vector<std::string> addresses = {};
  /// With addresses: processes that know the token may join. 16 to 64 bytes. Empty: the content of
  /// the file that $GANTRY_TOKEN_FILE names. Data is not encrypted.
  std::string token = {};
  std::string directory = {};  ///< Folder of the names. Empty: by the rule of channel_directory().
  /// Joining fails at every rank if a rank has not come within this time.
  std::chrono::milliseconds join_timeout{10'000};
  /// A rank counts as gone after this time of silence: its host vanished, or it is stopped. A rank
  /// that is busy with other work is not silent.
  std::chrono::milliseconds stall_limit{10'000};
  /// join() and runs fail with `interrupted` when this descriptor is readable. Not owned.
  int interrupt_descriptor = -1;
};

/// Ranks with a link between each pair. Move-only. Calls that concern all ranks (PlanExecutor's)
/// must be the same on all of them, in the same order. One thread at a time; between such calls a
/// thread of the group tells the others that this rank is alive. When a call fails at any rank, the
/// group is broken: every call returns the reason, and the remaining ranks may join a new group.
class GANTRY_API Group {
 public:
  /// Waits for the other ranks. `engine` copies between ranks of one machine. Errors:
  /// `invalid_argument`; `timed_out`, with the missing ranks; `already_exists` when another process
  /// has this rank or its address; `permission_denied` for another token, or another user's group;
  /// `peer_gone` when a rank died meanwhile; `interrupted`, `unsupported`.
  [[nodiscard]] static Result<Group> join(const GroupOptions& options,
                                          std::shared_ptr<Engine> engine);
  /// Joins until `deadline` instead of GroupOptions::join_timeout.
  [[nodiscard]] static Result<Group> join(const GroupOptions& options,
                                          std::shared_ptr<Engine> engine, Deadline deadline);
  /// Joins with GroupOptions::of_launcher(), as the rank that `gantry run` gave this process.
  [[nodiscard]] static Result<Group> join(std::shared_ptr<Engine> engine);
  /// Makes a group over existing links: one to each rank, and null in the place of this rank. All
  /// ranks must call it. Errors: as join().
  [[nodiscard]] static Result<Group> over(const GroupOptions& options,
                                          std::vector<std::unique_ptr<Link>> links);
  Group(Group&&) noexcept;
  Group& operator=(Group&&) noexcept;
  ~Group();  ///< As leave().

  /// Number of this rank, from 0.
  [[nodiscard]] unsigned rank() const noexcept;
  /// Number of ranks.
  [[nodiscard]] unsigned ranks() const noexcept;
  /// The group's name.
  [[nodiscard]] const std::string& name() const noexcept;
  /// The path to a rank: "shared, process 17"; for this rank: "this one".
  [[nodiscard]] std::string explain(unsigned rank) const;
  /// Success, or the reason why the group is broken.
  [[nodiscard]] Result<void> state() const;
  /// Ends the links. Ranks that still wait for this one get `peer_gone`.
  void leave() noexcept;

  class Impl;
  /// For the executors of plans.
  [[nodiscard]] Impl& impl() noexcept { return *impl_; }

 private:
  explicit Group(std::unique_ptr<Impl> impl) noexcept;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gantry
