#pragma once  // bench/pipeline/limit.hpp: what one CPU's copy of the same bytes takes.

#include "../support/report/series.hpp"
#include "../support/system/buffer.hpp"

namespace gantry::bench {

inline constexpr std::string_view kSingleCopy = "limit/single-copy";

/// Copies as many bytes as a job has flowing, once, in one thread: memcpy() or past the cache,
/// whichever is quicker that round.
class SingleCopy {
 public:
  explicit SingleCopy(Bytes bytes);
  void take_turn(Series& series) const;

 private:
  Bytes bytes_;
  Buffer from_, to_;  // larger jobs go through them again and again
};

}  // namespace gantry::bench
