#pragma once  // bench/support/trips/process_group.hpp: the processes of one case, all there, one
              // pair at work.

#include <vector>

#include "../process/child.hpp"
#include "../system/cpus.hpp"
#include "subject.hpp"

namespace gantry::bench {

/// What one subject did in one round. Times of one trip.
struct RoundFigures {
  double p50_ns = 0;
  double p99_ns = 0;
  double p999_ns = 0;
  SendTimes send;
  double one_way_ns = 0;  ///< Median; only of a stamped command, and then nothing else.
  double prepare_ns = 0;
  double cpu_ns = 0;  ///< Of all its processes, less the preparing.
  double compute_speed = 0;
};

/// A requester and the responders of each subject, forked and ready. Those not commanded sleep.
/// Dropped, it takes every process with it.
class ProcessGroup {
 public:
  /// `interrupt_descriptor` readable makes every wait end with `interrupted`.
  [[nodiscard]] static Result<ProcessGroup> start(std::span<const SubjectKind> kinds,
                                                  const Case& size, const CpuPair& cpus,
                                                  int interrupt_descriptor);
  ProcessGroup(ProcessGroup&&) = default;
  ProcessGroup& operator=(ProcessGroup&&) = delete;
  ~ProcessGroup();

  /// Has the processes of subject number `subject` make their trips. Errors: `interrupted`;
  /// anything that any process of the group died or gave up of, in one line that names it. Of a
  /// peer's processes that is no error but the peer's loss, and an error of its own trips only.
  [[nodiscard]] Result<RoundFigures> run(std::size_t subject, const Command& command);

  /// Why that subject, a peer, takes part no more; null while it does.
  [[nodiscard]] const Error* loss_of(std::size_t subject) const noexcept;

  /// Lets every process end in order. Those that do not are killed.
  void dismiss();

 private:
  struct Member {
    Child child;
    std::size_t team = 0;
    std::optional<Answer> answer{};  // come, but not yet asked for
    std::optional<Stamps> stamps{};
    bool wants_stamps = false;  // with the next answer
    bool stamps_next = false;   // that answer has come
  };
  /// The processes of one subject; `members_` of theirs lie next to each other, requester first.
  struct Team {
    std::size_t first = 0;
    std::size_t count = 0;
    bool is_peer = false;
    std::shared_ptr<void> company{};
    std::optional<Error> loss{};
  };
  ProcessGroup(std::string where, int interrupt_descriptor) noexcept
      : where_(std::move(where)), interrupt_descriptor_(interrupt_descriptor) {}

  Result<void> spawn(const SubjectKind& kind, const Case& size, const CpuPair& cpus);
  Result<void> spawn_team(const SubjectKind& kind, const Case& size, const CpuPair& cpus);
  Result<void> spawn(const std::string& role, int cpu, const Child::Body& body);
  Result<Answer> answer_of(std::size_t member);
  Result<Stamps> stamps_of(std::size_t member);
  template <class Record>
  Result<Record> come(std::size_t member, std::optional<Record> Member::* record);
  Result<void> listen(std::chrono::milliseconds patience);
  Result<void> take(std::size_t member);
  Result<void> blame(std::size_t team, Error error);
  void lose(std::size_t team, Error error);
  Result<double> one_way_of(const Team& team, std::uint64_t trips);
  Error death_of(Child& child) const;
  Error failure_of(std::size_t member, const Answer& answer);

  std::string where_;  // the case, for messages
  int interrupt_descriptor_;
  std::vector<Member> members_;
  std::vector<Team> teams_;
};

}  // namespace gantry::bench
