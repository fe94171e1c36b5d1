#pragma once  // bench/overlap/rank_process.hpp: the processes that are the ranks.

#include <span>
#include <string>
#include <vector>

#include "../support/process/child.hpp"
#include "rank_answers.hpp"
#include "rank_network.hpp"
#include "work.hpp"

namespace gantry::bench {

/// One process a rank, in its host, which know all work beforehand.
class Ranks {
 public:
  /// `work` outlives them. Errors: those of forking, and of a group that does not form.
  [[nodiscard]] static Result<Ranks> start(const RankNetwork& network, unsigned ranks,
                                           const std::string& token, std::span<const Work> work,
                                           int interrupt_descriptor);

  /// Has all ranks do that work so many times, each time checking what it leaves; the times of each
  /// time. Errors: `interrupted`; those of a rank, in one line.
  [[nodiscard]] Result<std::vector<RankTimes>> run(std::size_t work, unsigned times);

 private:
  explicit Ranks(int interrupt_descriptor) : interrupt_descriptor_(interrupt_descriptor) {}

  [[nodiscard]] std::vector<Link*> links();

  int interrupt_descriptor_;
  std::span<const Work> work_;
  std::vector<Child> children_;
};

}  // namespace gantry::bench
