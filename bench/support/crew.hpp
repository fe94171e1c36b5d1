#pragma once  // bench/support/crew.hpp: the processes of one case, all there, one pair at work.

#include <vector>

#include "child.hpp"
#include "cpus.hpp"
#include "subject.hpp"

namespace gantry::bench {

/// What one subject did in one round. Times of one trip.
struct RoundFigures {
  double p50_ns = 0;
  double p99_ns = 0;
  double prepare_ns = 0;
  double cpu_ns = 0;  ///< Of both processes, less the preparing.
};

/// A requester and a responder for each subject, forked and ready. Those not commanded sleep.
/// Dropped, it takes every process with it.
class Crew {
 public:
  /// `interrupt_descriptor` readable makes every wait end with `interrupted`.
  [[nodiscard]] static Result<Crew> start(std::span<const SubjectKind> kinds, const Case& size,
                                          const CpuPair& cpus, int interrupt_descriptor);

  /// Has the pair of subject number `subject` make its trips. Errors: `interrupted`; anything that
  /// any process of the crew died or gave up of, in one line that names it.
  [[nodiscard]] Result<RoundFigures> run(std::size_t subject, const Command& command);

  /// Lets every process end in order. Those that do not are killed.
  void dismiss();

 private:
  struct Member {
    Child child;
    std::optional<Answer> answer;  // come, but not yet asked for
  };
  struct Pair {
    std::size_t requester = 0;
    std::optional<std::size_t> responder;
  };
  explicit Crew(std::string where, int interrupt_descriptor) noexcept
      : where_(std::move(where)), interrupt_descriptor_(interrupt_descriptor) {}

  Result<void> hire(const SubjectKind& kind, const Case& size, const CpuPair& cpus);
  Result<void> hire(const std::string& role, int cpu, const Child::Body& body);
  Result<Answer> answer_of(std::size_t member);
  Result<void> listen();
  Result<void> take(std::size_t member);
  Error death_of(Child& child) const;
  Error failure_of(std::size_t member, const Answer& answer);
  Child* partner_of(std::size_t member) noexcept;

  std::string where_;  // the case, for messages
  int interrupt_descriptor_;
  std::vector<Member> members_;
  std::vector<Pair> pairs_;
};

}  // namespace gantry::bench
