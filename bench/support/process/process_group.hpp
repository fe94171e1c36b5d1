#pragma once  // bench/support/process/process_group.hpp: the processes of one case, all there, one
              // party at work.

#include <memory>
#include <vector>

#include "child.hpp"

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
  double peak_bytes = 0;  ///< As its first process says.
  std::string said = {};  ///< Likewise: Answer::text.
};

/// A process that is to be. Its body says when it is ready, then answers each command.
struct Role {
  std::string name;  ///< In messages, with the case: "64 B: the responder of pipe".
  int cpu = 0;
  Child::Body body;
};

/// Processes that take their turns together; the first one's times are the party's.
struct Party {
  std::vector<Role> roles;
  std::shared_ptr<void> company{};  ///< Kept as long as its processes live.
};

/// Which failures of a party are its own loss, and no error of the group.
enum class MayFail {
  never,
  by_giving_up,  ///< When one of its processes says why it cannot go on. None may die.
  in_any_way,    ///< When it cannot be made, says nothing for long, or dies, too.
};

/// The parties of a case, forked and ready. Those not commanded sleep. Dropped, it takes every
/// process with it.
class ProcessGroup {
 public:
  /// `interrupt_descriptor` readable makes every wait end with `interrupted`.
  explicit ProcessGroup(int interrupt_descriptor) noexcept
      : interrupt_descriptor_(interrupt_descriptor) {}
  ProcessGroup(ProcessGroup&&) = default;
  ProcessGroup& operator=(ProcessGroup&&) = delete;
  ~ProcessGroup();

  /// Forks a party, or takes note that it could not be made.
  [[nodiscard]] Result<void> add(Result<Party> party, MayFail may_fail);
  /// Waits until every process is ready or its party is lost.
  [[nodiscard]] Result<void> await_ready();

  /// Has the processes of party number `party` make their trips. Errors: `interrupted`; anything
  /// that any process of the group died or gave up of, in one line that names it. Where that is the
  /// loss of a party only, it is an error of that party's trips only.
  [[nodiscard]] Result<RoundFigures> run(std::size_t party, const Command& command);

  /// Why that party takes part no more; null while it does.
  [[nodiscard]] const Error* loss_of(std::size_t party) const noexcept;

  /// Lets every process end in order. Those that do not are killed.
  void dismiss();

 private:
  struct Member {
    Child child;
    std::size_t party = 0;
    std::optional<Answer> answer{};  // come, but not yet asked for
    std::optional<Stamps> stamps{};
    bool wants_stamps = false;  // with the next answer
    bool stamps_next = false;   // that answer has come
  };
  /// A party that is there; its members lie next to each other.
  struct Place {
    std::size_t first = 0;
    std::size_t count = 0;
    MayFail may_fail = MayFail::never;
    std::shared_ptr<void> company{};
    std::optional<Error> loss{};
  };

  Result<void> spawn(const Party& party);
  Result<Answer> answer_of(std::size_t member);
  Result<Stamps> stamps_of(std::size_t member);
  template <class Record>
  Result<Record> come(std::size_t member, std::optional<Record> Member::* record);
  Result<void> listen(std::chrono::milliseconds patience);
  Result<void> take(std::size_t member);
  Result<void> blame(std::size_t party, MayFail least, Error error);
  void lose(std::size_t party, Error error);
  Result<double> one_way_of(const Place& place, std::uint64_t trips);
  Error death_of(Child& child) const;
  Error failure_of(std::size_t member, const Answer& answer);

  int interrupt_descriptor_;
  std::vector<Member> members_;
  std::vector<Place> parties_;
};

}  // namespace gantry::bench
