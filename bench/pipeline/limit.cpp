#include "limit.hpp"

#include <algorithm>
#include <cstring>
#include <gantry/engine.hpp>

namespace gantry::bench {
namespace {

constexpr Bytes kMostAtOnce = Bytes{64} << 20;

template <class Copy>
double ns_of(Bytes bytes, ByteSpan to, ConstByteSpan from, const Copy& copy) {
  const Stopwatch watch;
  for (Bytes done = 0; done < bytes; done += to.size())
    copy(to.data(), from.data(), std::min(to.size(), bytes - done));
  return watch.spent().wall_ns;
}

}  // namespace

SingleCopy::SingleCopy(Bytes bytes)
    : bytes_(bytes), from_(std::min(bytes, kMostAtOnce)), to_(std::min(bytes, kMostAtOnce)) {}

void SingleCopy::take_turn(Series& series) const {
  const double ns = std::min(ns_of(bytes_, to_.bytes(), from_.bytes(), std::memcpy),
                             ns_of(bytes_, to_.bytes(), from_.bytes(), Copier::stream));
  series.add(kLatencyP50, "ns", ns);
  series.add(kThroughput, "GB/s", static_cast<double>(bytes_) / ns);
}

}  // namespace gantry::bench
