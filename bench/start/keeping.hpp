#pragma once  // bench/start/keeping.hpp: an image that a process keeps, and those who attach it.

#include "../support/process/process_group.hpp"
#include "loaders.hpp"

namespace gantry::bench {

/// A process that keeps the image of `kind` in its pages, and is ready when it is in memory. It
/// answers each command with the CPU time since then, and its memory beside `sharers` others.
[[nodiscard]] Role keeper_role(const std::string& name, const LoaderKind& kind,
                               const Weights& weights, unsigned sharers);

/// The share of this process in the memory that it maps, with others or alone; 0: not known. Pages
/// of hugetlb are not in what the kernel says of shares: each of them that others have, too, counts
/// as one of so many `sharers`.
[[nodiscard]] double memory_share(unsigned sharers);

/// Why no image of so many bytes can be kept in reserved huge pages now, and how to mend that; "":
/// it can.
[[nodiscard]] std::string lack_of_huge_pages(Bytes bytes);

}  // namespace gantry::bench
