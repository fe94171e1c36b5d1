#pragma once  // bench/memory/team.hpp: threads that do the same thing at the same time.

#include <barrier>
#include <functional>
#include <thread>
#include <vector>

#include "../support/system/posix.hpp"

namespace gantry::bench {

/// As many threads as asked for, the calling one among them, on CPUs of their own as far as there
/// are enough. They live as long as the team does, so what a thread keeps for itself stays warm.
class Team {
 public:
  using Work = std::function<Result<void>(unsigned member)>;

  Team(unsigned threads, std::vector<int> cpus);
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;
  ~Team();

  [[nodiscard]] unsigned size() const noexcept { return static_cast<unsigned>(members_.size()); }

  /// Everyone does `work`; the time from the first's beginning to the last's end, in ns.
  [[nodiscard]] Result<double> run(const Work& work);

 private:
  using Clock = std::chrono::steady_clock;
  struct alignas(128) Member {
    Clock::time_point began;
    Clock::time_point ended;
    Result<void> result;
  };
  void serve(unsigned member, int cpu);
  void perform(unsigned member);

  std::vector<Member> members_;
  std::barrier<> beginning_;
  std::barrier<> end_;
  const Work* work_ = nullptr;  // null at the beginning: the team is dissolved
  std::vector<std::jthread> threads_;
};

}  // namespace gantry::bench
