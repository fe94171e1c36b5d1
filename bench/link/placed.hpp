#pragma once  // bench/link/placed.hpp: subjects whose two ends are on two hosts.

#include "../support/trips/subject.hpp"
#include "network.hpp"

namespace gantry::bench {

/// The same kind with each end in its host: the asking end is taken there before it is opened, the
/// answering one, too, also where an end is a program of its own. The network outlives the kind.
[[nodiscard]] SubjectKind placed(SubjectKind kind, const Network& network);

}  // namespace gantry::bench
