#pragma once  // bench/overlap/rank_answers.hpp: one command to all ranks of a subject.

#include <vector>

#include "../support/process/link.hpp"

namespace gantry::bench {

struct RankTimes {
  double ns = 0;      ///< Of the slowest rank.
  double cpu_ns = 0;  ///< Of all.
};

/// `links`: by rank. Errors: `interrupted`; `timed_out`, `peer_gone` and what a rank says, with its
/// number.
[[nodiscard]] Result<RankTimes> ask_ranks(const std::vector<Link*>& links, const Command& command,
                                          int interrupt_descriptor);
/// What that rank says next.
[[nodiscard]] Result<Answer> answer_of_rank(const std::vector<Link*>& links, std::size_t rank,
                                            int interrupt_descriptor);

}  // namespace gantry::bench
